package mcpclient

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/negotiate"
)

// ERA-02, ERA-04, ERA-05, ERA-06, ERA-07, ERA-09, ERA-13, MOD-02, MOD-03, SHM-13, HDR-01: every answer to the probe has a
// verdict. The server is a dual one that answers the probe as it is told, and the handshake.
func TestHTTPProbe(t *testing.T) {
	const id = `{"jsonrpc":"2.0","id":%s,`
	tests := []struct {
		name   string
		status int
		kind   string
		body   string
		want   string // the version, or a part of the error
		sends  string // of discover and initialize
	}{
		{"a result", 200, "j", id + `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}}`, "2026-07-28", "d"},
		{"a result without its type", 200, "j", id + `"result":{"supportedVersions":["2025-11-25","2026-07-28"],"capabilities":{}}}`, "2026-07-28", "d"},
		{"legacy versions only", 200, "j", id + `"result":{"resultType":"complete","supportedVersions":["2025-11-25"],"capabilities":{}}}`, "2025-11-25", "di"},
		{"another result", 200, "j", id + `"result":{"ok":true}}`, "2025-11-25", "di"},
		{"unsupported, modern common", 400, "j", id + `"error":{"code":-32022,"message":"","data":{"supported":["2026-07-28"],"requested":"x"}}}`, " (-32022)", "dd"},
		{"unsupported, legacy common", 400, "j", id + `"error":{"code":-32022,"message":"","data":{"supported":["2025-11-25"],"requested":"2026-07-28"}}}`, "2025-11-25", "di"},
		{"unsupported, nothing common", 400, "j", id + `"error":{"code":-32022,"message":"","data":{"supported":["2030-01-01"],"requested":"2026-07-28"}}}`, "no common", "d"},
		{"header mismatch", 400, "j", id + `"error":{"code":-32020,"message":"headers"}}`, "headers (-32020)", "d"},
		{"header mismatch without an id", 400, "j", `{"jsonrpc":"2.0","error":{"code":-32020,"message":"headers"}}`, "headers (-32020)", "d"},
		{"capability missing", 400, "j", id + `"error":{"code":-32021,"message":"caps","data":{"requiredCapabilities":{"sampling":{}}}}}`, "caps (-32021)", "d"},
		{"method not found", 404, "j", id + `"error":{"code":-32601,"message":"no"}}`, "2025-11-25", "di"},
		{"method not found, 200", 200, "j", id + `"error":{"code":-32601,"message":"no"}}`, "2025-11-25", "di"},
		{"not initialized", 400, "j", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"not initialized"}}`, "2025-11-25", "di"},
		{"invalid request", 400, "j", id + `"error":{"code":-32600,"message":"no"}}`, "2025-11-25", "di"},
		{"invalid params", 200, "s", id + `"error":{"code":-32602,"message":"no"}}`, "2025-11-25", "di"},
		{"another code", 200, "j", id + `"error":{"code":7,"message":"no"}}`, "2025-11-25", "di"},
		{"400", 400, "", "", "2025-11-25", "di"},
		{"404", 404, "", "", "2025-11-25", "di"},
		{"405", 405, "", "", "2025-11-25", "di"},
		{"406", 406, "h", "<html>", "2025-11-25", "di"},
		{"422", 422, "h", "{}", "2025-11-25", "di"},
		{"a page", 200, "h", "<html>", "2025-11-25", "di"},
		{"202", 202, "", "", "2025-11-25", "di"},
		{"junk", 200, "j", "what?", "2025-11-25", "di"},
		{"another's answer", 200, "j", `{"jsonrpc":"2.0","id":"x","result":{"supportedVersions":["2026-07-28"],"capabilities":{}}}`, "2025-11-25", "di"},
		{"silence", 0, "", "", "2025-11-25", "di"},
		{"401", 401, "j", id + `"error":{"code":-32000,"message":"no token"}}`, `the server wants authorization (Bearer realm="x"): Unauthorized: no token`, "d"},
		{"403", 403, "", "", "the server refuses access", "d"},
		{"500", 500, "h", "oops", "oops", "d"},
		{"500 with an error", 500, "j", `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"no"}}`, "2025-11-25", "di"}, // SHM-13
		{"Python SDK", 400, "j", `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request: Unsupported protocol version: 2026-07-28"}}`, "2025-11-25", "di"},
		{"400 in words", 400, "h", "Unsupported protocol version", "2025-11-25", "di"},
		{"method not found, without an id", 404, "j", `{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no"}}`, "2025-11-25", "di"},
		{"503", 503, "", "", "Service Unavailable", "d"},
		{"429", 429, "", "", "Too Many Requests", "d"},
		{"cut off", 200, "cut", "", "connection lost", "d"},
		{"a stream that ends", 200, "s", "", "connection lost", "d"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			legacy := legacyWeb(okWeb)
			webBubble(t, func(w http.ResponseWriter, r *posted) {
				if r.Method != mcp.MethodDiscover {
					legacy(w, r)
					return
				}
				if r.Header.Get("Mcp-Protocol-Version") != string(r.Version) || r.Version != mcp.V2026_07_28 {
					t.Errorf("the probe is of %s, its header of %s", r.Version, r.Header.Get("Mcp-Protocol-Version"))
				}
				body := strings.ReplaceAll(tt.body, "%s", r.ID.String())
				w.Header()["Content-Type"] = map[string][]string{"j": {"application/json"}, "s": {"text/event-stream"}, "h": {"text/html"}, "cut": {"application/json"}, "": nil}[tt.kind]
				w.Header().Set("Www-Authenticate", `Bearer realm="x"`)
				switch {
				case tt.status == 0:
					<-r.Ctx.Done()
					return
				case tt.kind == "s" && body != "":
					body = "data: " + body + "\n\n"
				}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, body)
				if tt.kind == "cut" {
					w.(http.Flusher).Flush()
					panic(http.ErrAbortHandler)
				}
			}, func(t *testing.T, s *webServer, opts *Options) {
				c, err := Dial(t.Context(), webAt("/mcp"), opts)
				switch {
				case err != nil && !strings.Contains(err.Error(), tt.want):
					t.Errorf("Dial: got %v, want %s", err, tt.want)
				case err == nil:
					if info, _ := c.Info(t.Context()); string(info.Version) != tt.want {
						t.Errorf("version: got %s, want %s", info.Version, tt.want)
					}
					closeIn(t, c, 3*time.Second)
				}
				if denied := tt.status == 401 || tt.status == 403; errors.Is(err, ErrAuthRequired) != denied || errors.Is(err, conn.ErrPermanent) != (denied || tt.want == "no common") {
					t.Errorf("Dial: %v is permanent: %v", err, errors.Is(err, conn.ErrPermanent))
				}
				sends := ""
				for _, p := range s.all() {
					switch p.Method {
					case mcp.MethodDiscover:
						sends += "d"
					case mcp.MethodInitialize:
						sends += "i"
					}
				}
				if sends != tt.sends {
					t.Errorf("sent %q, want %q", sends, tt.sends)
				}
			})
		})
	}
}

// ERA-01, ERA-02, ERA-14: a verdict is shared by all who speak to the endpoint and not by others; one that has
// become wrong costs nothing but the attempt.
func TestHTTPVerdict(t *testing.T) {
	var modern atomic.Bool
	old, current := legacyWeb(okWeb), modernWeb(okWeb)
	webBubble(t, func(w http.ResponseWriter, r *posted) {
		if modern.Load() {
			current(w, r)
		} else {
			old(w, r)
		}
	}, func(t *testing.T, s *webServer, opts *Options) {
		dial := func(name, path string) (*Info, string) {
			before := len(s.all())
			server := webAt(path)
			server.Name = name
			c, err := Dial(t.Context(), server, opts)
			if err != nil {
				t.Fatal(err)
			}
			defer closeIn(t, c, time.Second)
			info, _ := c.Info(t.Context())
			var sent []string
			for _, p := range s.all()[before:] {
				if p.Kind == mcp.KindRequest {
					sent = append(sent, p.Method)
				}
			}
			return info, strings.Join(sent, " ")
		}
		for _, tt := range []struct{ name, path, want string }{
			{"a", "/mcp", "server/discover initialize"},
			{"b", "/mcp?key=1", "initialize"},
			{"c", "/other", "server/discover initialize"},
		} {
			if _, sent := dial(tt.name, tt.path); sent != tt.want {
				t.Errorf("%s at %s: sent %s, want %s", tt.name, tt.path, sent, tt.want)
			}
		}
		modern.Store(true)
		if info, sent := dial("a", "/mcp"); info.Era != mcp.EraModern || sent != "initialize server/discover" {
			t.Errorf("an upgraded server: %v, sent %s", info.Era, sent)
		}
		time.Sleep(2 * negotiate.EraLife)
		modern.Store(false)
		if info, sent := dial("a", "/mcp"); info.Era != mcp.EraLegacy || sent != "server/discover initialize" {
			t.Errorf("a downgraded server: %v, sent %s", info.Era, sent)
		}
	})
}

// ERA-01, ERA-02, ERA-06: a server that is replaced by one of the other era while it is in use costs one call.
func TestHTTPEraChanges(t *testing.T) {
	refusing := func(code int, id, text string) func(http.ResponseWriter, *posted) {
		return func(w http.ResponseWriter, r *posted) {
			say(w, 400, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q,"data":{"supported":["2025-11-25"],"requested":""}}}`, strings.ReplaceAll(id, "own", r.ID.String()), code, text))
		}
	}
	tests := []struct {
		name          string
		before, after func(http.ResponseWriter, *posted)
		refuse        func(http.ResponseWriter, *posted) // the first call after
		heals         bool
	}{
		{"TypeScript SDK", modernWeb(okWeb), legacyWeb(okWeb), refusing(-32000, "null", "Bad Request: Server not initialized"), true},
		{"Python SDK", modernWeb(okWeb), legacyWeb(okWeb), refusing(-32600, `"server-error"`, "Bad Request: Missing session ID"), true},
		{"unsupported version", modernWeb(okWeb), legacyWeb(okWeb), refusing(-32022, "own", "no"), true},
		{"upgraded", legacyWeb(okWeb), modernWeb(okWeb), refusing(-32020, "own", "Mcp-Method is missing"), true},
		{"a refusal of one call", modernWeb(okWeb), legacyWeb(okWeb), refusing(-32600, "null", "blocked"), false},
		{"an answer", modernWeb(okWeb), legacyWeb(okWeb), refusing(-32602, "own", "no such session"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var changed, refused atomic.Bool
			webBubble(t, func(w http.ResponseWriter, r *posted) {
				switch {
				case !changed.Load():
					tt.before(w, r)
				case r.Method == "x/y" && refused.CompareAndSwap(false, true):
					tt.refuse(w, r)
				default:
					tt.after(w, r)
				}
			}, func(t *testing.T, s *webServer, opts *Options) {
				c, err := Dial(t.Context(), webAt("/"), opts)
				if err != nil {
					t.Fatal(err)
				}
				before, _ := c.Info(t.Context())
				changed.Store(true)
				if _, err := c.Request(t.Context(), "x/y", nil, nil); err == nil {
					t.Error("the first request: got no error")
				}
				if _, err := c.Request(t.Context(), "x/y", nil, nil); err != nil {
					t.Errorf("the next request: %v", err)
				}
				if after, _ := c.Info(t.Context()); (after.Era != before.Era) != tt.heals {
					t.Errorf("era: %v, then %v", before.Era, after.Era)
				}
				closeIn(t, c, 3*time.Second)
			})
		})
	}
}

// ERA-05, ROB-8: a server that is busy is left alone for as long as it says, within a bound, and then found.
func TestHTTPRetryAfter(t *testing.T) {
	for after, want := range map[string]time.Duration{"7": 7 * time.Second, "9999": 30 * time.Second} {
		t.Run(after, func(t *testing.T) {
			var n atomic.Int32
			good := modernWeb(okWeb)
			webBubble(t, func(w http.ResponseWriter, r *posted) {
				if n.Add(1) == 1 {
					w.Header().Set("Retry-After", after)
					w.WriteHeader(503)
					return
				}
				good(w, r)
			}, func(t *testing.T, s *webServer, opts *Options) {
				opts.Lazy = true
				c, err := Dial(t.Context(), webAt("/"), opts)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := c.Info(t.Context()); err == nil {
					t.Error("Info: the first attempt should fail")
				}
				if err := c.conn.Connect(t.Context()); err != nil {
					if err = c.conn.Connect(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if got := s.all()[1].At; got != want {
					t.Errorf("the next attempt came after %v, want %v", got, want)
				}
				closeIn(t, c, time.Second)
			})
		})
	}
}

// SSE-10, SSE-12, ERA-05: a server that refuses the handshake by POST is tried by HTTP+SSE.
func TestOldTransportFallback(t *testing.T) {
	tests := []struct {
		name      string
		status    int // to a POST at the stream's address
		transport string
		protocol  string
		want      string // the version, or a part of the error
		seen      string
	}{
		{"405", 405, "", "", "2025-11-25", "server/discover initialize GET initialize initialized"},
		{"404", 404, "auto", "", "2025-11-25", "server/discover initialize GET initialize initialized"},
		{"400", 400, "", "legacy", "2025-11-25", "initialize GET initialize initialized"},
		{"415", 415, "", "", "Unsupported Media Type", "server/discover initialize"},
		{"500", 500, "", "", "Internal Server Error", "server/discover"},
		{"401", 401, "", "", "wants authorization", "server/discover"},
		{"pinned http", 405, "http", "", "Method Not Allowed", "server/discover initialize"},
		{"pinned sse", 405, "sse", "", "2025-11-25", "GET initialize initialized"},
		{"pinned modern", 405, "", "modern", "not a modern one", "server/discover"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			webBubble(t, nil, func(t *testing.T, s *webServer, opts *Options) {
				s.answer = oldWeb(make(chan string, 10), tt.status)
				server := webAt("/sse")
				server.Transport, server.Protocol = tt.transport, tt.protocol
				for round := range 2 {
					c, err := Dial(t.Context(), server, opts)
					if err != nil && !strings.Contains(err.Error(), tt.want) {
						t.Errorf("Dial: got %v, want %s", err, tt.want)
					}
					if err == nil {
						info, _ := c.Info(t.Context())
						if string(info.Version) != tt.want {
							t.Errorf("version: got %s, want %s", info.Version, tt.want)
						}
						closeIn(t, c, 3*time.Second)
						synctest.Wait() // the server's end of its stream, which would take the next one's answer
					}
					want := tt.seen
					if round == 1 && err == nil { // from then on
						want = "GET initialize initialized"
					}
					if got := s.seen(); got != want {
						t.Errorf("round %d: requests: %s, want %s", round, got, want)
					}
					s.forget()
				}
			})
		})
	}
}

// oldWeb is a server of HTTP+SSE at /sse that answers a POST there with status.
func oldWeb(events chan string, status int) func(http.ResponseWriter, *posted) {
	return func(w http.ResponseWriter, r *posted) {
		switch {
		case r.HTTP == "POST" && r.Path == "/sse":
			w.WriteHeader(status)
		case r.HTTP == "POST":
			if r.Kind == mcp.KindRequest {
				events <- handshakeOf(r.ID)
			}
			w.WriteHeader(202)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "event: endpoint\ndata: /messages?session=1\n\n")
			w.(http.Flusher).Flush()
			for {
				select {
				case e := <-events:
					sayStream(w, e)
				case <-r.Ctx.Done():
					return
				}
			}
		}
	}
}

// SSE-10: what speaks neither is told so, with both reasons.
func TestNeitherTransport(t *testing.T) {
	webBubble(t, func(w http.ResponseWriter, r *posted) { w.WriteHeader(404) }, func(t *testing.T, s *webServer, opts *Options) {
		_, err := Dial(t.Context(), webAt("/"), opts)
		if err == nil || !strings.Contains(err.Error(), "neither Streamable HTTP") || !strings.Contains(err.Error(), "HTTP+SSE") {
			t.Errorf("Dial: got %v", err)
		}
	})
}

// ERA-02, ERA-08: a modern server that is slow to wake up is asked again, once it has refused the handshake.
func TestHTTPSlowModern(t *testing.T) {
	var n atomic.Int32
	current := modernWeb(okWeb)
	webBubble(t, func(w http.ResponseWriter, r *posted) {
		if n.Add(1) == 1 {
			<-r.Ctx.Done()
			return
		}
		current(w, r)
	}, func(t *testing.T, s *webServer, opts *Options) {
		c, err := Dial(t.Context(), webAt("/"), opts)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.seen(); got != "server/discover initialize server/discover" {
			t.Errorf("requests: %s", got)
		}
		closeIn(t, c, time.Second)
	})
}
