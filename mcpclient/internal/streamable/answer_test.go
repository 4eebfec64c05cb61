package streamable_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/streamable"
)

// SHL-12, SHM-06, SHM-07, SHM-12, SHM-13, SHM-14, SHL-18, BASE-08, SECA-6, SECA-13: what becomes
// of every kind of answer to request 7.
func TestAnswers(t *testing.T) {
	const ok = `{"jsonrpc":"2.0","id":7,"result":{"ok":true}}`
	const note = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`
	const refusal = `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no"}}`
	const (
		asJSON   = "application/json"
		asStream = "text/event-stream"
	)
	tests := []struct {
		name    string
		version mcp.Version
		status  int
		kind    string
		body    string
		want    []string // frames
		fails   string   // a part of the error; "" for none
		is      error
	}{
		{"an object", "2025-11-25", 200, asJSON, ok, []string{ok}, "", nil},
		{"an object, modern", "2026-07-28", 200, asJSON, ok, []string{ok}, "", nil},
		{"parameters", "2025-11-25", 200, "Application/JSON; charset=utf-8", ok, []string{ok}, "", nil},
		{"a stream", "2025-11-25", 200, asStream, event("", ok), []string{ok}, "", nil},
		{"a stream with notifications", "2026-07-28", 200, asStream, event("", note) + event("", ok), []string{note, ok}, "", nil},
		{"two answers", "2026-07-28", 200, asStream, event("", ok) + event("", refusal), []string{ok}, "", nil},
		{"an error", "2025-11-25", 200, asJSON, refusal, []string{refusal}, "", nil},
		{"an error with its status", "2026-07-28", 400, asJSON, refusal, []string{refusal}, "", nil},
		{"an unknown method", "2026-07-28", 404, asJSON, refusal, []string{refusal}, "", nil},
		{"an answer with 500", "2026-07-28", 500, asJSON, ok, []string{ok}, "", nil},
		{"an error without an id", "2025-11-25", 400, asJSON, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"bad"},"id":null}`, nil, "HTTP status 400: Bad Request: bad (-32600)", mcp.ErrInvalidRequest},
		{"an error without an id, 200", "2025-11-25", 200, asJSON, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"bad"}}`, nil, "bad (-32600)", mcp.ErrInvalidRequest},
		{"another's id", "2025-11-25", 200, asJSON, strings.Replace(ok, "7", "8", 1), nil, "another request's", call.ErrInvalidResponse},
		{"the id as a string", "2025-11-25", 200, asJSON, strings.Replace(ok, "7", `"7"`, 1), nil, "another request's", call.ErrInvalidResponse},
		{"another's id on the stream", "2026-07-28", 200, asStream, event("", strings.Replace(ok, "7", "8", 1)) + event("", ok), []string{ok}, "", nil},
		{"another's malformed answer", "2026-07-28", 200, asStream, event("", `{"jsonrpc":"2.0","id":8,"result":[]}`) + event("", ok), []string{ok}, "", nil},
		{"its own malformed answer", "2026-07-28", 200, asJSON, `{"jsonrpc":"2.0","id":7,"result":[]}`, []string{`{"jsonrpc":"2.0","id":7,"result":[]}`}, "", nil},
		{"junk on the stream", "2026-07-28", 200, asStream, event("", "what?") + event("", ok), []string{"what?", ok}, "", nil},
		{"not JSON", "2025-11-25", 200, asJSON, "<html>", []string{"<html>"}, "invalid JSON", call.ErrInvalidResponse},
		{"nothing", "2025-11-25", 200, asJSON, "", []string{""}, "invalid JSON", call.ErrInvalidResponse},
		{"only a notification", "2025-11-25", 200, asJSON, note, []string{note}, "without an answer", call.ErrInvalidResponse},
		{"accepted", "2025-11-25", 202, "", "", nil, "neither JSON nor an event stream", call.ErrInvalidResponse},
		{"a page", "2025-11-25", 200, "text/html", "<html>", nil, `its type is "text/html"`, call.ErrInvalidResponse},
		{"a stream that ends", "2026-07-28", 200, asStream, event("", note), []string{note}, "without an answer", nil},
		{"a stream that ends at once", "2025-11-25", 200, asStream, "", nil, "without an answer", nil},
		{"a batch", "2025-03-26", 200, asJSON, "[" + note + "," + ok + "]", []string{note, ok}, "", nil},
		{"a batch on the stream", "2025-03-26", 200, asStream, event("", "["+ok+"]"), []string{ok}, "", nil}, // WIRE-12
		{"a batch with another's answer", "2025-03-26", 200, asJSON, "[" + strings.Replace(ok, "7", "8", 1) + "]", nil, "another request's", call.ErrInvalidResponse},
		{"an empty batch", "2025-03-26", 200, asJSON, "[]", nil, "empty batch", call.ErrInvalidResponse},
		{"a batch where there are none", "2025-06-18", 200, asJSON, "[" + ok + "]", []string{"[" + ok + "]"}, "invalid", call.ErrInvalidResponse},
		{"other events", "2026-07-28", 200, asStream, "event: ping\ndata: {}\n\n:comment\n\nid: 1\ndata:\n\n" + event("", ok), []string{ok}, "", nil}, // WIRE-10, WIRE-11
		{"404 without a body", "2026-07-28", 404, "", "", nil, "HTTP status 404: Not Found", nil},
		{"404 without a session", "2025-11-25", 404, "text/plain", "no such\x1b[31m\r\nthing", nil, `Not Found: "no such`, nil}, // SHL-52
		{"500", "2026-07-28", 500, "text/html", strings.Repeat("long ", 10_000), nil, "Internal Server Error: \"long long", nil},
		{"415", "2025-11-25", 415, "", "", nil, "Unsupported Media Type", nil},
		{"a redirect", "2025-11-25", 307, "", "", nil, "to http://elsewhere.test, which is not followed", nil}, // SECA-22
		{"a question that cannot be read", "2025-11-25", 200, asStream, event("", `{"jsonrpc":"2.0","id":7,"method":"ping","x":}`) + event("", ok), []string{`{"jsonrpc":"2.0","id":7,"method":"ping","x":}`, ok}, "", nil},
		{"401", "2025-11-25", 401, asJSON, refusal, nil, "Unauthorized: no (-32602)", mcp.ErrInvalidParams},
		{"403", "2026-07-28", 403, "", "", nil, "Forbidden", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(w http.ResponseWriter, r *request) {
				if tt.kind != "" {
					w.Header().Set("Content-Type", tt.kind)
				} else {
					w.Header()["Content-Type"] = nil
				}
				w.Header().Set("Location", "http://elsewhere.test/")
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.body))
			}, func(k *kit) {
				k.Speak(tt.version)
				k.request(7, "tools/call")
				var want []string
				for _, f := range tt.want {
					want = append(want, "7: "+f)
				}
				if got := k.sink.all(); !slices.Equal(got, want) {
					t.Errorf("frames: got %q, want %q", got, want)
				}
				err := k.sink.failure(7)
				if (err != nil) != (tt.fails != "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
					t.Errorf("failure: got %v, want %q", err, tt.fails)
				}
				if tt.is != nil && !errors.Is(err, tt.is) {
					t.Errorf("failure: got %v, want it to be %v", err, tt.is)
				}
				if err != nil && len(err.Error()) > 2<<10 {
					t.Errorf("the error has %d bytes", len(err.Error())) // ROB-3
				}
				if n := len(k.server.requests("")); n != 1 {
					t.Errorf("%d requests, want 1", n) // SHL-43
				}
				if e, ok := errors.AsType[*call.TransportError](err); ok && tt.status/100 != 2 && e.Status != tt.status {
					t.Errorf("status: got %d, want %d", e.Status, tt.status)
				}
			})
		})
	}
}

// ROB-3, SECA-9, WIRE-04: what is too large is refused, and does not end the others.
func TestTooLarge(t *testing.T) {
	const most = 10_000
	long := strings.Repeat("x", most)
	tests := []struct {
		name   string
		answer func(w http.ResponseWriter)
		want   string
	}{
		{"by its header", func(w http.ResponseWriter) { writeJSON(w, 200, `{"x":"`+long+`"}`) }, "longer than 10000 bytes"},
		{"by its body", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.(http.Flusher).Flush()
			for range 1000 {
				if _, err := w.Write([]byte(long)); err != nil {
					return
				}
			}
		}, "longer than 10000 bytes"},
		{"an event", func(w http.ResponseWriter) { streamEvents(w, "data: "+long+long+"\n\n") }, "longer than 10000 bytes"},
		{"an endless line", func(w http.ResponseWriter) {
			streamEvents(w, "data: ")
			for range 1000 {
				if _, err := w.Write([]byte(long)); err != nil {
					return
				}
			}
		}, "longer than 10000 bytes"},
		{"an error page", func(w http.ResponseWriter) {
			w.WriteHeader(500)
			for range 1000 {
				if _, err := w.Write([]byte(long)); err != nil {
					return
				}
			}
		}, "Internal Server Error"},
		{"an encoding", func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "br")
			writeJSON(w, 200, "?")
		}, `encoding "br"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubbleWith(t, streamable.Options{MaxMessage: most}, func(w http.ResponseWriter, r *request) {
				if r.ID == mcp.IntID(7) {
					tt.answer(w)
				} else {
					writeJSON(w, 200, result(r.ID))
				}
			}, func(k *kit) {
				k.Speak(mcp.V2026_07_28)
				k.request(7, "tools/call")
				if err := k.sink.failure(7); err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("failure: got %v, want %q", err, tt.want)
				}
				k.request(8, "tools/call")
				if got := k.sink.all(); len(got) != 1 || got[0] != "8: "+result(mcp.IntID(8)) {
					t.Errorf("another request: got %q", got)
				}
			})
		})
	}
}

// SECA-27, SHL-50: the session id, the values of headers and the query of the URL are in
// no log and no error, also if the server repeats them.
func TestSecrets(t *testing.T) {
	o := streamable.Options{Header: http.Header{"Authorization": {"Bearer header-secret"}, "mcp-session-id": {"mine"}}}
	bubbleWith(t, o, legacy(func(w http.ResponseWriter, r *request) {
		if r.Header.Get("Authorization") != "Bearer header-secret" {
			t.Error("the configured header is missing")
		}
		if got := r.Header.Values("Mcp-Session-Id"); len(got) != 1 || got[0] != "session-secret" {
			t.Errorf("session: got %q", got)
		}
		http.Error(w, "session-secret and header-secret are not welcome at /mcp?key=query-secret", 500)
	}), func(k *kit) {
		k.session()
		k.request(7, "tools/call")
		k.notify("notifications/roots/list_changed")
		k.ListenGET()
		time.Sleep(time.Minute)
		err := k.sink.failure(7)
		if err == nil || !strings.Contains(err.Error(), "*** and *** are not welcome at /mcp?***") {
			t.Errorf("failure: got %v", err)
		}
		k.Close()
		for _, secret := range []string{"session-secret", "header-secret", "query-secret"} {
			if strings.Contains(err.Error()+k.log.String(), secret) {
				t.Errorf("%s is told: %v\n%s", secret, err, k.log)
			}
		}
	})
}

// SHL-43, ROB-8: a server that is busy is asked again when it said, and no more than a few times.
func TestBusy(t *testing.T) {
	tests := []struct {
		name   string
		status int
		after  string
		method string
		want   []time.Duration // when requests came
	}{
		{"too many", 429, "2", "tools/call", []time.Duration{0, 2 * time.Second, 4 * time.Second}},
		{"unavailable", 503, "1", "tools/call", []time.Duration{0, time.Second, 2 * time.Second}},
		{"does not say when", 429, "", "tools/call", []time.Duration{0}},
		{"much later", 429, "3600", "tools/call", []time.Duration{0}},
		{"nonsense", 503, "-7", "tools/call", []time.Duration{0}},
		{"broken", 500, "1", "tools/call", []time.Duration{0}},
		{"a probe", 503, "1", mcp.MethodDiscover, []time.Duration{0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(w http.ResponseWriter, r *request) {
				if tt.after != "" {
					w.Header().Set("Retry-After", tt.after)
				}
				w.WriteHeader(tt.status)
			}, func(k *kit) {
				k.Speak(mcp.V2026_07_28)
				k.request(7, tt.method)
				time.Sleep(time.Hour)
				synctest.Wait()
				var got []time.Duration
				for _, r := range k.server.requests("POST") {
					got = append(got, r.At)
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("requests at %v, want %v", got, tt.want)
				}
				if e, ok := errors.AsType[*call.TransportError](k.sink.failure(7)); !ok || e.Status != tt.status {
					t.Errorf("failure: got %v", k.sink.failure(7))
				}
			})
		})
	}
}

// SHM-13: the beginning of an error page is shown, also if the page says that it is long; a redirect within
// the origin names its target.
func TestErrorPages(t *testing.T) {
	tests := []struct {
		name   string
		answer func(w http.ResponseWriter)
		want   string
	}{
		{"a long page", func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "50000")
			w.WriteHeader(502)
			_, _ = w.Write([]byte("<html>Bad Gateway" + strings.Repeat(" ", 49983)))
		}, `"<html>Bad Gateway`},
		{"a slash", func(w http.ResponseWriter) {
			w.Header().Set("Location", "/mcp/?key=query-secret")
			w.WriteHeader(307)
		}, "redirect (307) to http://mcp.test/mcp/, which is not followed: only a GET"},
		{"nowhere", func(w http.ResponseWriter) { w.WriteHeader(302) }, "to an address that it does not name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(w http.ResponseWriter, _ *request) { tt.answer(w) }, func(k *kit) {
				k.request(7, "tools/call")
				if err := k.sink.failure(7); err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("failure: got %v, want %q", err, tt.want)
				}
			})
		})
	}
}

// ROB-7: a page that does not end holds nothing up.
func TestEndlessPage(t *testing.T) {
	bubble(t, func(w http.ResponseWriter, r *request) {
		w.Header().Set("Content-Type", "text/html")
		w.(http.Flusher).Flush()
		hang(r.Ctx)
	}, func(k *kit) {
		k.request(7, "tools/call")
		if err := k.sink.failure(7); !errors.Is(err, call.ErrInvalidResponse) {
			t.Errorf("failure: got %v, want it at once", err)
		}
	})
}
