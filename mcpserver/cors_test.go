package mcpserver_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// fromPage sends a request as a browser does for a page.
func fromPage(t *testing.T, client *http.Client, method, url, origin, body string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if origin != "" {
		req.Header.Set("Origin", origin)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

const inspector = "http://localhost:6274"

// bothHandlers runs f for the handlers of both transports.
func bothHandlers(t *testing.T, opts *mcpserver.Options, f func(t *testing.T, url string, client *http.Client)) {
	t.Helper()
	webBubble(t, opts, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
		f(t, "http://localhost/mcp", client)
	})
	sseBubble(t, opts, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) { f(t, oldURL, client) })
}

// SECA-2: a browser lets a page of a listed origin send what clients send, and no other
// page: neither one elsewhere nor one of this machine that was not listed. It asks
// without saying who the user is.
func TestPreflight(t *testing.T) {
	opts := &mcpserver.Options{HTTP: mcpserver.HTTPOptions{AllowedOrigins: []string{inspector, "https://app.example"}, Authenticate: principals}}
	bothHandlers(t, opts, func(t *testing.T, url string, client *http.Client) {
		ask := func(origin string, header ...string) *http.Response {
			return fromPage(t, client, http.MethodOptions, url, origin, "", append([]string{"Access-Control-Request-Method", "POST"}, header...)...)
		}
		for _, origin := range []string{inspector, "https://app.example"} {
			got := ask(origin, "Access-Control-Request-Headers", "content-type,authorization,mcp-protocol-version,mcp-session-id,mcp-param-region,last-event-id,cookie,x-evil,mcp-param-")
			h := got.Header
			if got.StatusCode != http.StatusNoContent || h.Get("Access-Control-Allow-Origin") != origin || h.Get("Vary") != "Origin" ||
				h.Get("Access-Control-Allow-Methods") != "GET, POST, DELETE" || h.Get("Access-Control-Allow-Credentials") != "" ||
				h.Get("Access-Control-Allow-Headers") != "content-type, authorization, mcp-protocol-version, mcp-session-id, mcp-param-region, last-event-id" {
				t.Errorf("%s: got %d, %v", origin, got.StatusCode, h)
			}
		}
		if got := ask(inspector, "Access-Control-Request-Headers", strings.Repeat("x,", 1000)+"accept").Header.Get("Access-Control-Allow-Headers"); got != "" {
			t.Errorf("very many headers: got %q", got)
		}
		for _, origin := range []string{"https://evil.example", "null", "http://app.example", "https://app.example:444", "http://localhost:9999", "http://localhost", ""} {
			got := ask(origin)
			for name := range got.Header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%q: got %s: %s", origin, name, got.Header.Get(name))
				}
			}
			if got.StatusCode != http.StatusForbidden && got.StatusCode != http.StatusMethodNotAllowed {
				t.Errorf("%q: got status %d", origin, got.StatusCode)
			}
		}
	})
}

// A page may read every answer, refusals too, the id of its session among them: and
// streams.
func TestPageReadsAnswers(t *testing.T) {
	opts := &mcpserver.Options{HTTP: mcpserver.HTTPOptions{AllowedOrigins: []string{inspector}}}
	check := func(t *testing.T, what string, got *http.Response, status int) {
		t.Helper()
		if got.StatusCode != status || got.Header.Get("Access-Control-Allow-Origin") != inspector ||
			!strings.Contains(got.Header.Get("Access-Control-Expose-Headers"), "Mcp-Session-Id") {
			t.Errorf("%s: got %d, %v", what, got.StatusCode, got.Header)
		}
	}
	const accept = "application/json, text/event-stream"
	webBubble(t, opts, func(t *testing.T, _ *mcpserver.Server, client *http.Client, _ *gate) {
		const url = "http://localhost/mcp"
		opened := fromPage(t, client, http.MethodPost, url, inspector, initialize(mcp.V2025_11_25), "Content-Type", "application/json", "Accept", accept)
		check(t, "initialize", opened, http.StatusOK)
		id := opened.Header.Get("Mcp-Session-Id")
		check(t, "no JSON", fromPage(t, client, http.MethodPost, url, inspector, "{", "Content-Type", "text/plain"), http.StatusUnsupportedMediaType)
		check(t, "no session", fromPage(t, client, http.MethodGet, url, inspector, "", "Accept", accept, "Mcp-Session-Id", "nobody"), http.StatusNotFound)
		check(t, "another method", fromPage(t, client, http.MethodPut, url, inspector, ""), http.StatusMethodNotAllowed)
		check(t, "the stream", fromPage(t, client, http.MethodGet, url, inspector, "", "Accept", "text/event-stream", "Mcp-Session-Id", id), http.StatusOK)
		modern := fromPage(t, client, http.MethodPost, url, inspector, call(mcp.V2026_07_28, 1, "echo", `{"text":"a"}`), "Content-Type", "application/json", "Accept", accept,
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "echo")
		check(t, "a modern call", modern, http.StatusOK)
		if text, err := io.ReadAll(modern.Body); err != nil || !strings.Contains(string(text), `"a"`) {
			t.Errorf("a modern call: got %s, %v", text, err)
		}
		// Nobody else is told anything of this: not a program, nor a page of this machine
		// that was not listed, though its requests are taken.
		for _, origin := range []string{"", "http://localhost:9999"} {
			got := fromPage(t, client, http.MethodPost, url, origin, initialize(mcp.V2025_11_25), "Content-Type", "application/json", "Accept", accept)
			if got.StatusCode != http.StatusOK || got.Header.Get("Access-Control-Allow-Origin") != "" || got.Header.Get("Vary") != "" {
				t.Errorf("origin %q: got %d, %v", origin, got.StatusCode, got.Header)
			}
		}
	})
	sseBubble(t, opts, func(t *testing.T, _ *mcpserver.Server, client *http.Client, _ *gate) {
		check(t, "the old stream", fromPage(t, client, http.MethodGet, oldURL, inspector, "", "Accept", "text/event-stream"), http.StatusOK)
	})
}

// The real thing writes the same header on the connections it takes over.
func TestPageReadsHijackedStream(t *testing.T) {
	s, _ := newServer(t, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{AllowedOrigins: []string{inspector}}})
	web := httptest.NewServer(s.SSEHandler())
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	got := fromPage(t, web.Client(), http.MethodGet, web.URL, inspector, "", "Accept", "text/event-stream")
	if got.StatusCode != http.StatusOK || got.Header.Get("Access-Control-Allow-Origin") != inspector {
		t.Errorf("got %d, %v", got.StatusCode, got.Header)
	}
}
