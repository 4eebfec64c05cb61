// respond.go: responses with JSON, and refusals.

package web

import (
	"net/http"
	"strconv"

	"github.com/troupe-dev/troupe/mcp"
)

// Names and values of headers as net/http keeps them. Values are shared by all
// responses and never changed.
const (
	headerSession  = "Mcp-Session-Id"
	headerVersion  = "Mcp-Protocol-Version"
	headerMethod   = "Mcp-Method"
	headerName     = "Mcp-Name"
	headerType     = "Content-Type"
	headerLength   = "Content-Length"
	headerEncoding = "Content-Encoding"

	typeJSON   = "application/json"
	typeStream = "text/event-stream"
)

var (
	valueJSON      = []string{typeJSON}
	valueStream    = []string{typeStream}
	valueNoSniff   = []string{"nosniff"}
	valueClose     = []string{"close"}
	valueIdentity  = []string{"identity"}
	valueOnlyPost  = []string{"POST"}
	valueAllMethod = []string{"GET, POST, DELETE"}
)

func invalid(text string) *mcp.Error { return &mcp.Error{Code: mcp.CodeInvalidRequest, Message: text} }

// refuse answers with a status and a JSON-RPC error. The zero id is left out (BASE-08).
func refuse(w http.ResponseWriter, status int, id mcp.ID, e *mcp.Error) {
	h := w.Header()
	h["X-Content-Type-Options"] = valueNoSniff
	writeJSON(w, status, mcp.AppendError(nil, id, e))
}

func refuseUnavailable(w http.ResponseWriter) {
	h := w.Header()
	h["Connection"] = valueClose
	h.Set("Retry-After", "1")
	refuse(w, http.StatusServiceUnavailable, mcp.ID{}, mcp.Errorf(mcp.CodeInternal, "%v", ErrUnavailable))
}

// unannounced bounds the answers whose length net/http finds out itself, cheaper than a
// header is set.
const unannounced = 2048

func writeJSON(w http.ResponseWriter, status int, frame []byte) {
	h := w.Header()
	h[headerType] = valueJSON
	if len(frame) > unannounced {
		h[headerLength] = []string{strconv.Itoa(len(frame))}
	}
	if status != http.StatusOK {
		w.WriteHeader(status)
	}
	_, _ = w.Write(frame) // an error means that the client has gone
}
