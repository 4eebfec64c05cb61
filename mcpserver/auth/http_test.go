package auth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/auth"
)

// guarded returns an MCP server with tools behind a resource server, and a client of it.
func guarded(t testing.TB, rs *auth.ResourceServer, change func(*mcpserver.Options)) (*mcpserver.Server, *http.Client) {
	t.Helper()
	opts := &mcpserver.Options{HTTP: mcpserver.HTTPOptions{Authenticate: rs.Authenticate, Authorize: rs.Authorize, AllowedHosts: []string{"api.example.com"}}}
	if change != nil {
		change(opts)
	}
	s, err := mcpserver.New(mcp.Implementation{Name: "guarded", Version: "1"}, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	err = mcpserver.AddFunc(s, &mcp.Tool{Name: "write"}, func(context.Context, struct{}) (string, error) { return "done", nil }, mcpserver.Scopes("files:write"))
	if err != nil {
		t.Fatal(err)
	}
	return s, memhttp.Serve(t, s.Handler())
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}`

const callBody = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write","arguments":{},` + modernMeta + `}}`

func callHeader(authorization string) http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {mcp.MethodCallTool}, "Mcp-Name": {"write"}}
	if authorization != "" {
		h.Set("Authorization", authorization)
	}
	return h
}

// post sends a request of 2026-07-28.
func post(t testing.TB, hc *http.Client, token, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = callHeader("")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if strings.Contains(body, mcp.MethodListen) {
		r.Header.Set("Mcp-Method", mcp.MethodListen)
		r.Header.Del("Mcp-Name")
	}
	resp, err := hc.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// SECA-24, SECA-7: a subscription ends when the token that opened it does, and the client may
// open it again with another.
func TestExpiredInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, hc := guarded(t, newIDP(login).server(t, nil), nil)
		resp := post(t, hc, token(object{"exp": time.Now().Add(time.Minute).Unix()}), `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+modernMeta+`}}`)
		if resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status)
		}
		start := time.Now()
		time.AfterFunc(time.Hour, func() { resp.Body.Close() }) // so that a stream that does not end fails the test
		text, _ := io.ReadAll(resp.Body)
		if took := time.Since(start); took < 89*time.Second || took > 91*time.Second || !strings.Contains(string(text), `"resultType":"complete"`) {
			t.Errorf("the stream ended after %v, want 90 s, with\n%s", took, text)
		}
	})
}

// SECA-24, SECA-23, AUTH-51: no token is in a log, an answer, or what a middleware sees, be it
// good or not.
func TestNoTokenIsShown(t *testing.T) {
	var log bytes.Buffer
	p := newIDP(login)
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	rs := p.server(t, func(o *auth.Options) { o.Logger = logger })
	var seen bytes.Buffer
	_, hc := guarded(t, rs, func(o *mcpserver.Options) {
		o.Logger = logger
		o.Middleware = []mcpserver.Middleware{func(ctx context.Context, in *mcpserver.Incoming, next mcpserver.Next) (json.RawMessage, error) {
			_ = json.NewEncoder(&seen).Encode(object{"in": in.Name, "meta": in.Meta, "p": in.Principal})
			return next(ctx)
		}}
	})
	good, narrow, bad := token(object{"scope": "mcp files:write"}), token(nil), token(object{"aud": "https://other.example"})
	for token, want := range map[string]int{good: 200, narrow: 403, bad: 401, "": 401} {
		resp := post(t, hc, token, callBody)
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("got %d, want %d: %s", resp.StatusCode, want, body)
		}
		all := log.String() + seen.String() + string(body) + resp.Header.Get("WWW-Authenticate")
		for _, part := range strings.Split(token, ".") {
			if part != "" && strings.Contains(all, part) {
				t.Errorf("a part of the token is shown in\n%s", all)
			}
		}
	}
	if !strings.Contains(seen.String(), `"Subject":"alice"`) {
		t.Errorf("the middleware has seen no principal: %s", seen.String())
	}
}

// FuzzAuthenticate: whatever the header is, it is refused in good order unless the issuer has
// signed it.
func FuzzAuthenticate(f *testing.F) {
	rs := newIDP(login).server(f, nil)
	good := token(nil)
	for _, seed := range []string{"", "Bearer", "Bearer x", "Bearer a.b.c", "Bearer " + good, "DPoP " + good, "Bearer " + tampered(good, `{"iss":1}`),
		"Bearer " + sign(object{"alg": "none", "kid": []int{1}}, claims(nil), nil), "Bearer " + b64([]byte(`{"alg":"ES256","typ":"JWT","kid":"ec","alg":"none"}`)) + ".e30.AA"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		r := request("")
		r.Header["Authorization"] = []string{header}
		p, err := rs.Authenticate(r)
		if (p == nil) == (err == nil) {
			t.Fatalf("got %+v and %v", p, err)
		}
		if status, _ := refused(t, err); err == nil && !strings.Contains(header, strings.Split(good, ".")[1]) || err != nil && status == 0 {
			t.Errorf("%q: got %+v, %v", header, p, err)
		}
	})
}

// nothing is a ResponseWriter that keeps nothing.
type nothing struct {
	header http.Header
	status int
}

func (w *nothing) Header() http.Header         { return w.header }
func (w *nothing) Write(p []byte) (int, error) { return len(p), nil }
func (w *nothing) WriteHeader(status int)      { w.status = status }

// BenchmarkCall is criterion 4: the part of a call above net/http, without and with a token
// that was verified before. Package compare of internal/tests has what net/http takes.
func BenchmarkCall(b *testing.B) {
	open, err := mcpserver.New(mcp.Implementation{Name: "open", Version: "1"}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer open.Close()
	if err := mcpserver.AddFunc(open, &mcp.Tool{Name: "write"}, func(context.Context, struct{}) (string, error) { return "done", nil }); err != nil {
		b.Fatal(err)
	}
	closed, _ := guarded(b, newIDP(login).server(b, nil), nil)
	good := "Bearer " + token(object{"scope": "mcp files:write", "exp": time.Now().Add(24 * time.Hour).Unix()})
	for _, tt := range []struct {
		name string
		h    http.Handler
	}{{"auth=off", open.Handler()}, {"auth=on", closed.Handler()}} {
		b.Run("handler/"+tt.name, func(b *testing.B) {
			body := strings.NewReader(callBody)
			r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", nil)
			r.Header, r.ContentLength = callHeader(""), int64(len(callBody))
			authorization := []string{good}
			w := &nothing{header: make(http.Header)}
			b.ReportAllocs()
			start := cpuTime(b)
			for b.Loop() {
				body.Reset(callBody)
				r.Body, r.Header["Authorization"], w.status = io.NopCloser(body), authorization, http.StatusOK
				clear(w.header)
				if tt.h.ServeHTTP(w, r); w.status != http.StatusOK {
					b.Fatal(w.status)
				}
			}
			b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N), "cpu-ns/op")
		})
		b.Run("tcp/"+tt.name, func(b *testing.B) {
			web := httptest.NewServer(tt.h)
			defer web.Close()
			b.ReportAllocs()
			start := cpuTime(b)
			for b.Loop() {
				r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, web.URL, strings.NewReader(callBody))
				if err != nil {
					b.Fatal(err)
				}
				r.Header = callHeader(good)
				resp, err := web.Client().Do(r)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				if resp.Body.Close(); resp.StatusCode != http.StatusOK {
					b.Fatal(resp.Status)
				}
			}
			b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkAuthenticate is the part of one request, with a token that was verified before and with
// one that is new (ES256).
func BenchmarkAuthenticate(b *testing.B) {
	rs := newIDP(login).server(b, nil)
	r := request(token(object{"exp": time.Now().Add(24 * time.Hour).Unix()}))
	for name, before := range map[string]func(){"known": func() {}, "new": rs.Forget} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				before()
				if _, err := rs.Authenticate(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
