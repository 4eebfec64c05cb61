package streamable

import (
	"maps"
	"net/http"

	"github.com/troupe-dev/troupe/internal/mirror"
	"github.com/troupe-dev/troupe/mcp"
)

// Names as net/http writes them.
const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
	headerParam   = "Mcp-Param-"
	headerLast    = "Last-Event-Id"

	typeJSON   = "application/json"
	typeStream = "text/event-stream"
)

// ours cannot be set by the configuration.
var ours = []string{
	"Accept", "Accept-Encoding", "Content-Type", "Content-Length", "Connection", "Host", "Transfer-Encoding",
	headerSession, headerVersion, headerMethod, headerName, headerLast,
}

// maxHeaders bounds the kept headers of modern requests.
const maxHeaders = 64

// headers are the headers of POSTs. A map that was handed out is not changed any more,
// so that requests share it.
type headers struct {
	base   http.Header
	modern bool
	named  map[[2]string]http.Header // of modern requests, by method and name
}

// newHeaders makes the headers that all messages of a version and a session have.
func newHeaders(configured http.Header, v mcp.Version, session string) *headers {
	base := make(http.Header, len(configured)+5)
	for name, values := range configured {
		base[http.CanonicalHeaderKey(name)] = values
	}
	for _, name := range ours {
		delete(base, name)
	}
	base["Content-Type"] = []string{typeJSON}
	base["Accept"] = []string{typeJSON + ", " + typeStream} // SHL-10, SHM-04
	base["Accept-Encoding"] = []string{"identity"}
	modern := v.Era() == mcp.EraModern
	if modern || v.Has(mcp.FeatureElicitation) { // since 2025-06-18 (SHL-61)
		base[headerVersion] = []string{string(v)} // HDR-01
	}
	if session != "" && !modern {
		base[headerSession] = []string{session} // SHL-51
	}
	return &headers{base: base, modern: modern}
}

// of returns the headers of one message. They must not be changed.
func (h *headers) of(m *mcp.Outgoing) http.Header {
	if !h.modern {
		return h.base
	}
	key := [2]string{m.Method, m.Name}
	if known := h.named[key]; known != nil && len(m.Headers) == 0 {
		return known
	}
	out := maps.Clone(h.base)
	out[headerMethod] = []string{m.Method} // HDR-02
	if m.Name != "" || named(m.Method) {
		out[headerName] = []string{mirror.Encode(m.Name)} // HDR-03, HDR-11
	}
	for _, p := range m.Headers {
		out[http.CanonicalHeaderKey(headerParam+p.Name)] = []string{mirror.Encode(p.Value)} // HDR-20
	}
	if len(m.Headers) == 0 && len(m.Name) <= 256 {
		if len(h.named) >= maxHeaders || h.named == nil {
			h.named = make(map[[2]string]http.Header)
		}
		h.named[key] = out
	}
	return out
}

// named reports whether Mcp-Name is due even if the name is empty (HDR-03, HDR-13).
func named(method string) bool {
	switch method {
	case mcp.MethodCallTool, mcp.MethodGetPrompt, mcp.MethodReadResource:
		return true
	}
	return false
}

// stream returns the headers of a GET for events after last.
func (h *headers) stream(last string) http.Header {
	out := maps.Clone(h.base)
	delete(out, "Content-Type")
	out["Accept"] = []string{typeStream} // SHL-20
	if last != "" {
		out[headerLast] = []string{last} // SHL-41
	}
	return out
}
