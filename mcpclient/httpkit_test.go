package mcpclient

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/negotiate"
)

// posted is a request to a webServer.
type posted struct {
	mcp.Message
	HTTP   string
	Path   string
	Header http.Header
	At     time.Duration
	Ctx    context.Context
}

// webServer is a scripted server over HTTP. It notes what it gets.
type webServer struct {
	answer func(w http.ResponseWriter, r *posted)
	begin  time.Time
	mu     sync.Mutex
	got    []*posted
}

func (s *webServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p := &posted{HTTP: r.Method, Path: r.URL.Path, Header: r.Header, At: time.Since(s.begin), Ctx: r.Context()}
	_ = mcp.Scan(body, &p.Message)
	s.mu.Lock()
	s.got = append(s.got, p)
	s.mu.Unlock()
	s.answer(w, p)
}

// all returns what has come.
func (s *webServer) all() []*posted {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// forget drops what has come.
func (s *webServer) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = nil
}

// seen returns the methods of what has come, those of HTTP where there is no message.
func (s *webServer) seen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, p := range s.got {
		if p.Method == "" {
			out = append(out, p.HTTP)
		} else {
			out = append(out, strings.TrimPrefix(p.Method, "notifications/"))
		}
	}
	return strings.Join(out, " ")
}

func say(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func sayStream(w http.ResponseWriter, data ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, d := range data {
		fmt.Fprintf(w, "data: %s\n\n", d)
	}
	w.(http.Flusher).Flush()
}

// legacyWeb is a legacy server with sessions; other answers what is neither the probe nor the
// handshake.
func legacyWeb(other func(w http.ResponseWriter, r *posted)) func(http.ResponseWriter, *posted) {
	return func(w http.ResponseWriter, r *posted) {
		switch r.Method {
		case mcp.MethodDiscover: // as the TypeScript SDK does
			say(w, 400, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}`)
		case mcp.MethodInitialize:
			w.Header().Set("Mcp-Session-Id", "s-1")
			sayStream(w, handshakeOf(r.ID))
		case mcp.NotificationInitialized:
			w.WriteHeader(202)
		default:
			if r.Method == "" && r.HTTP != "POST" {
				w.WriteHeader(405)
				return
			}
			other(w, r)
		}
	}
}

// modernWeb is a modern server.
func modernWeb(other func(w http.ResponseWriter, r *posted)) func(http.ResponseWriter, *posted) {
	return func(w http.ResponseWriter, r *posted) {
		switch {
		case r.HTTP != "POST":
			w.WriteHeader(405)
		case r.Method == mcp.MethodDiscover:
			say(w, 200, `{"jsonrpc":"2.0","id":`+r.ID.String()+`,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}}`)
		case r.Method == mcp.MethodInitialize:
			say(w, 404, `{"jsonrpc":"2.0","id":`+r.ID.String()+`,"error":{"code":-32601,"message":"Method not found","data":{"supported":["2026-07-28"]}}}`)
		default:
			other(w, r)
		}
	}
}

func okWeb(w http.ResponseWriter, r *posted) {
	if r.Kind != mcp.KindRequest {
		w.WriteHeader(202)
		return
	}
	say(w, 200, `{"jsonrpc":"2.0","id":`+r.ID.String()+`,"result":{"resultType":"complete","content":[],"tools":[],"ttlMs":0,"cacheScope":"private"}}`)
}

// webBubble runs f with a server over HTTP, in a bubble.
func webBubble(t *testing.T, answer func(http.ResponseWriter, *posted), f func(t *testing.T, s *webServer, opts *Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &webServer{answer: answer, begin: time.Now()}
		client := memhttp.Serve(t, s)
		f(t, s, &Options{System: newSystem(t), httpClient: client, eras: new(negotiate.Eras)})
	})
}

func webAt(path string) Server { return Server{Name: "web", URL: "http://mcp.test" + path} }
