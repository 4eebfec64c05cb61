// cors.go: pages of other origins that may use the server.

package mcpserver

import (
	"net/http"
	"slices"
	"strings"
)

// What pages of an allowed origin may do, beyond what a browser lets every page do. They
// send no cookies: none of ours would mean anything.
const (
	corsMethods  = "GET, POST, DELETE"
	corsExposed  = headerSession + ", " + headerVersion + ", Www-Authenticate, Retry-After"
	corsMaxAge   = "600" // seconds that a browser need not ask again; it would cap more at some value of its own
	maxAskedFor  = 64    // names of headers in one preflight
	paramHeaders = "mcp-param-"
)

// corsHeaders are those that clients send. Browsers write them in lower case.
var corsHeaders = []string{
	"accept", "authorization", "content-type", "last-event-id",
	"mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id",
}

// admits reports whether a request comes from a page of an origin that the program has
// listed. Those of loopback may send requests without that, but what they read is the
// browser's matter: any page that some program serves on this machine would be one.
func (g *guard) admits(r *http.Request) bool {
	from := r.Header["Origin"]
	if len(g.origins) == 0 || len(from) != 1 {
		return false
	}
	o, ok := readOrigin(from[0])
	return ok && g.origins[o]
}

// cors tells the browser that a page may read the answer, and answers the question it
// asks before it lets a page send what it could not send by itself (Fetch, 4.8): true
// if that was all. The request has passed the guard: who is not allowed gets no such
// word (SECA-2). Nobody has to say who they are for it, as browsers do not.
func (s *Server) cors(w http.ResponseWriter, r *http.Request) (done bool) {
	if !s.guard.admits(r) {
		return false
	}
	h := w.Header()
	h["Access-Control-Allow-Origin"] = r.Header["Origin"]
	h.Add("Vary", "Origin")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		h.Set("Access-Control-Expose-Headers", corsExposed)
		return false
	}
	h.Set("Access-Control-Allow-Methods", corsMethods)
	h.Set("Access-Control-Allow-Headers", strings.Join(mayBeSent(r.Header.Values("Access-Control-Request-Headers")), ", "))
	h.Set("Access-Control-Max-Age", corsMaxAge)
	w.WriteHeader(http.StatusNoContent)
	return true
}

// mayBeSent returns those of the headers asked for that clients send: the names of
// mirrored parameters are those of the tools (HDR-24).
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
