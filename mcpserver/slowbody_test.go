package mcpserver_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// SECA-9, ROB-8: a body that does not come holds a connection for 30 s, also where the request was
// refused before it was read.
func TestSlowBodyOfRefused(t *testing.T) {
	const plain, old = "POST /mcp HTTP/1.1\r\nHost: localhost", "POST /sse?session=x HTTP/1.1\r\nHost: localhost"
	const json, both = "\r\nContent-Type: application/json", "\r\nAccept: application/json, text/event-stream"
	heads := []string{
		"POST /mcp HTTP/1.1\r\nHost: evil.example", // 403
		"PUT /mcp HTTP/1.1\r\nHost: localhost",     // 405
		plain,                                      // 415
		plain + json,                               // 406
		plain + json + both,                        // 401, or read
		"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream",                        // 400
		"DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: x",                             // 404
		"OPTIONS /mcp HTTP/1.1\r\nHost: localhost",                                                 // 405
		"GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: application/json", old, old + json + both, // 406, 415, 404
	}
	for name, authenticate := range map[string]func(*http.Request) (*mcpserver.Principal, error){
		"open": nil, "closed": func(*http.Request) (*mcpserver.Principal, error) { return nil, errors.New("no token") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := newServer(t, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{Authenticate: authenticate}})
				mux := http.NewServeMux()
				mux.Handle("/mcp", s.Handler())
				mux.Handle("/sse", s.SSEHandler())
				memhttp.HeldBy(t, mux, heads...)
			})
		})
	}
}
