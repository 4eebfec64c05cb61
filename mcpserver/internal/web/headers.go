package web

import (
	"bytes"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe/internal/mirror"
	"github.com/troupe-dev/troupe/mcp"
)

// isJSON reports whether the header says application/json, in UTF-8.
func isJSON(values []string) bool {
	if len(values) != 1 {
		return false
	}
	if values[0] == typeJSON {
		return true
	}
	kind, params, err := mime.ParseMediaType(values[0])
	charset, given := params["charset"]
	return err == nil && kind == typeJSON && (!given || strings.EqualFold(charset, "utf-8"))
}

// isPlain reports whether a body is not encoded.
func isPlain(values []string) bool {
	for _, v := range values {
		if v != "" && !strings.EqualFold(v, "identity") {
			return false
		}
	}
	return true
}

// acceptsBoth reports whether Accept lists both kinds of answers (SHL-10, SHM-04).
func acceptsBoth(values []string) bool {
	if len(values) == 1 && values[0] == typeJSON+", "+typeStream {
		return true
	}
	return accepts(values, typeJSON) && accepts(values, typeStream)
}

// accepts reports whether Accept lists a type, or all types (SHL-18).
func accepts(values []string, kind string) bool {
	family, _, _ := strings.Cut(kind, "/")
	for _, value := range values {
		for one := range strings.SplitSeq(value, ",") {
			one, params, _ := strings.Cut(one, ";")
			one = strings.TrimSpace(one)
			fits := strings.EqualFold(one, kind) || one == "*/*" || strings.EqualFold(one, family+"/*")
			if fits && !refused(params) {
				return true
			}
		}
	}
	return false
}

// refused reports whether parameters of Accept give a type no weight (RFC 9110, 12.4.2).
func refused(params string) bool {
	for one := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(one, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return err != nil || q <= 0
		}
	}
	return false
}

// wrongHeader is the error -32020 (HDR-05). It repeats no value.
func wrongHeader(header, why string) *mcp.Error {
	return mcp.Errorf(mcp.CodeHeaderMismatch, "the header %s %s", header, why)
}

// CheckVersion holds the version header against the body (HDR-01, SHM-17) and against
// the revisions that the server speaks (MOD-02).
func CheckVersion(h http.Header, m *mcp.Message, spoken []mcp.Version) *mcp.Error {
	v := m.Version
	if m.Kind == mcp.KindNotification && !m.Modern && len(h[headerVersion]) == 1 {
		v = mcp.Version(h[headerVersion][0]) // the body need not name it
	}
	if why := same(h[headerVersion], string(v)); why != "" {
		return wrongHeader(headerVersion, why)
	}
	if v.Era() != mcp.EraModern || !slices.Contains(spoken, v) {
		return mcp.UnsupportedVersion(v, spoken) // ERA-13
	}
	return nil
}

// CheckMethod holds the method header against the body (HDR-02).
func CheckMethod(h http.Header, m *mcp.Message) *mcp.Error {
	if why := same(h[headerMethod], m.Method); why != "" {
		return wrongHeader(headerMethod, why)
	}
	return nil
}

// CheckName holds the name header against the body, of a request that must have one (HDR-03).
func CheckName(h http.Header, m *mcp.Message) *mcp.Error {
	var raw []byte
	switch m.Method {
	case mcp.MethodCallTool, mcp.MethodGetPrompt:
		raw = m.Name
	case mcp.MethodReadResource:
		raw = m.URI
	case mcp.MethodGetTask, mcp.MethodUpdateTask, mcp.MethodCancelTask:
		raw = m.TaskID
	default:
		return nil
	}
	if why := sameName(h[headerName], raw); why != "" {
		return wrongHeader(headerName, why)
	}
	return nil
}

// same says why a header does not repeat want, empty if it does.
func same(values []string, want string) (why string) {
	switch {
	case len(values) == 1 && values[0] == want:
		return ""
	case len(values) == 0:
		return "is missing"
	case len(values) > 1:
		return "is there more than once"
	}
	return "does not match the body"
}

// sameName compares Mcp-Name with a JSON value, which need not be a string.
func sameName(values []string, raw []byte) (why string) {
	if len(raw) >= 2 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 && len(values) == 1 && values[0] == string(raw[1:len(raw)-1]) && isToken(values[0]) {
		return "" // the usual case
	}
	var want string
	present := len(raw) > 0 && raw[0] == '"' && mcp.Unmarshal(raw, &want) == nil
	return mirror.Compare(values, want, present, false)
}

// isToken reports whether a name needs no encoding.
func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '=' {
			return false
		}
	}
	return s != ""
}
