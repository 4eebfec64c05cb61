package mcpserver

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
func wrongHeader(header, why string) error {
	return mcp.Errorf(mcp.CodeHeaderMismatch, "the header %s %s", header, why)
}

// admitWeb is admit for a POST of 2026-07-28: what the body says is held against what
// the headers say, in the order of SHM-15. Nothing is executed on a mismatch (SECA-5).
func (s *session) admitWeb(a *arrival, h http.Header) error {
	if err := s.server.namesVersion(a.Message); err != nil {
		return err
	}
	var err error
	if a.client, err = s.sender(a.Meta); err != nil {
		return err
	}
	if err := s.server.checkVersion(h, a.Message); err != nil {
		return err
	}
	a.version = a.Version
	if why := same(h[headerMethod], a.Method); why != "" { // HDR-02
		return wrongHeader(headerMethod, why)
	}
	if raw, named := a.mirroredName(); named {
		if why := sameName(h[headerName], raw); why != "" {
			return wrongHeader(headerName, why)
		}
	}
	if err := s.server.offers(a.version, a.Method); err != nil { // MOD-09
		return err
	}
	return s.checkMirrored(a, h)
}

// namesVersion wants the version that makes a request a modern one (MOD-01).
func (s *Server) namesVersion(m *mcp.Message) error {
	switch {
	case !m.Modern && m.Method == mcp.MethodInitialize && !s.web.legacy:
		var p mcp.InitializeParams
		_ = m.DecodeParams(&p)                                            // what can be read of it
		return mcp.UnsupportedVersion(p.ProtocolVersion, s.opts.Versions) // MOD-10, ERA-14
	case !m.Modern:
		return mcp.Errorf(mcp.CodeInvalidParams, "the request has no _meta %s", mcp.MetaProtocolVersion)
	case m.Version == "":
		return mcp.Errorf(mcp.CodeInvalidParams, "_meta %s is not a string", mcp.MetaProtocolVersion)
	}
	return nil
}

// checkVersion holds the version header against the body (HDR-01, SHM-17) and against
// what we speak (MOD-02).
func (s *Server) checkVersion(h http.Header, m *mcp.Message) *mcp.Error {
	v := m.Version
	if m.Kind == mcp.KindNotification && !m.Modern && len(h[headerVersion]) == 1 {
		v = mcp.Version(h[headerVersion][0]) // the body need not say it
	}
	if why := same(h[headerVersion], string(v)); why != "" {
		return wrongHeader(headerVersion, why).(*mcp.Error)
	}
	if v.Era() != mcp.EraModern || !slices.Contains(s.opts.Versions, v) {
		return mcp.UnsupportedVersion(v, s.opts.Versions) // ERA-13
	}
	return nil
}

// same says what is wrong with a header that repeats want as it is.
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

// mirroredName returns what Mcp-Name repeats, of a request that must have it (HDR-03).
func (a *arrival) mirroredName() (raw []byte, named bool) {
	switch a.Method {
	case mcp.MethodCallTool, mcp.MethodGetPrompt:
		return a.Name, true
	case mcp.MethodReadResource:
		return a.URI, true
	case mcp.MethodGetTask, mcp.MethodUpdateTask, mcp.MethodCancelTask:
		return a.TaskID, true
	}
	return nil, false
}

// sameName compares Mcp-Name with a JSON value: a string, or nothing that the header
// could repeat.
func sameName(values []string, raw []byte) (why string) {
	if len(raw) >= 2 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 && len(values) == 1 && values[0] == string(raw[1:len(raw)-1]) && isToken(values[0]) {
		return "" // the usual case
	}
	var want string
	present := len(raw) > 0 && raw[0] == '"' && mcp.Unmarshal(raw, &want) == nil
	return mirror.Compare(values, want, present, false)
}

// isToken reports whether a name needs no encoding, whatever else it is.
func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '=' {
			return false
		}
	}
	return s != ""
}

// checkMirrored holds Mcp-Param headers against the arguments (HDR-24).
func (s *session) checkMirrored(a *arrival, h http.Header) error {
	if a.Method != mcp.MethodCallTool {
		return nil
	}
	t, _ := s.toolNamed(a)
	if t == nil || t.mirror.Empty() {
		return nil
	}
	if err := t.mirror.Check(h, a.Arguments); err != nil {
		return mcp.Errorf(mcp.CodeHeaderMismatch, "%v", err)
	}
	return nil
}
