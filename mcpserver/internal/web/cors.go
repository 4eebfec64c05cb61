// cors.go: pages of other origins that may use the server.

package web

import (
	"net/http"
	"slices"
	"strings"
)

// The rights of pages of an allowed origin, beyond those that a browser gives every page. They
// do not include cookies: the server has none.
const (
	corsMethods  = "GET, POST, DELETE"
	corsExposed  = headerSession + ", " + headerVersion + ", Www-Authenticate, Dpop-Nonce, Retry-After"
	corsMaxAge   = "600" // seconds until a browser asks again; browsers cap larger values
	maxAskedFor  = 64    // names of headers in one preflight
	paramHeaders = "mcp-param-"
)

// corsHeaders are those that clients send. Browsers write them in lower case.
var corsHeaders = []string{
	"accept", "authorization", "content-type", "dpop", "last-event-id",
	"mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id",
}

// admits reports whether a request comes from a page of a listed origin. Pages of loopback
// origins may send requests without being listed, but not read the answers: any program
// on this machine can serve such a page.
func (g *guard) admits(r *http.Request) bool {
	from := r.Header["Origin"]
	if len(g.origins) == 0 || len(from) != 1 {
		return false
	}
	o, ok := readOrigin(from[0])
	return ok && g.origins[o]
}

// cors tells the browser that a page may read the answer, and answers its preflight requests
// (Fetch, 4.8): done is true for those. The request has passed [Handler.allows], so other
// origins get no such header (SECA-2). Preflight requests are not authenticated: browsers send them without credentials.
func (h *Handler) cors(w http.ResponseWriter, r *http.Request) (done bool) {
	if !h.origins.admits(r) {
		return false
	}
	header := w.Header()
	header["Access-Control-Allow-Origin"] = r.Header["Origin"]
	header.Add("Vary", "Origin")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		header.Set("Access-Control-Expose-Headers", corsExposed)
		return false
	}
	header.Set("Access-Control-Allow-Methods", corsMethods)
	header.Set("Access-Control-Allow-Headers", strings.Join(mayBeSent(r.Header.Values("Access-Control-Request-Headers")), ", "))
	header.Set("Access-Control-Max-Age", corsMaxAge)
	w.WriteHeader(http.StatusNoContent)
	return true
}

// mayBeSent returns the requested headers that clients send, among them those of mirrored
// parameters, whose names the tools define (HDR-24).
func mayBeSent(asked []string) (allowed []string) {
	seen := 0
	for name := range strings.SplitSeq(strings.Join(asked, ","), ",") {
		if seen++; seen > maxAskedFor {
			break
		}
		name = strings.ToLower(strings.TrimSpace(name))
		rest, param := strings.CutPrefix(name, paramHeaders)
		if slices.Contains(corsHeaders, name) || param && len(rest) <= 128 && isToken(rest) {
			allowed = append(allowed, name)
		}
	}
	return allowed
}
