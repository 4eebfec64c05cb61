package streamable_test

import (
	"errors"
	"fmt"
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

// SHL-10, SHL-20, SHL-50, SHL-51, SHL-53, SHL-60, SHL-61: what every message of a legacy session says in
// its headers.
func TestLegacyHeaders(t *testing.T) {
	for _, tt := range []struct {
		version mcp.Version
		header  string
	}{{"2024-11-05", ""}, {"2025-03-26", ""}, {"2025-06-18", "2025-06-18"}, {"2025-11-25", "2025-11-25"}} {
		t.Run(string(tt.version), func(t *testing.T) {
			var s *server
			bubble(t, legacy(func(w http.ResponseWriter, r *request) {
				if r.Kind == mcp.KindRequest {
					writeJSON(w, 200, result(r.ID))
				} else {
					w.WriteHeader(405)
				}
			}), func(k *kit) {
				s = k.server
				k.request(1, mcp.MethodInitialize)
				k.Speak(tt.version)
				k.notify(mcp.NotificationInitialized)
				k.ListenGET()
				k.request(2, "tools/list")
				k.send(mcp.Outgoing{Frame: mcp.AppendResult(nil, mcp.IntID(9), nil), Kind: mcp.KindResult, ID: mcp.IntID(9)})
			})
			var methods []string
			for i, r := range s.requests("") {
				methods = append(methods, r.Method)
				accept := r.Header.Get("Accept")
				session, version := r.Header.Get("Mcp-Session-Id"), r.Header.Get("Mcp-Protocol-Version")
				if i == 0 && (session != "" || version != "") {
					t.Errorf("initialize names session %q, version %q", session, version)
				}
				if i > 0 && (session != "session-secret" || version != tt.header) {
					t.Errorf("%s %s: session %q, version %q, want %q", r.Method, r.Body, session, version, tt.header)
				}
				switch r.Method {
				case "POST":
					if accept != "application/json, text/event-stream" || r.Header.Get("Content-Type") != "application/json" || mcp.IsBatch([]byte(r.Body)) {
						t.Errorf("POST: %v", r.Header)
					}
				case "GET":
					if accept != "text/event-stream" || r.Header.Get("Last-Event-Id") != "" || r.Body != "" {
						t.Errorf("GET: %v", r.Header)
					}
				}
				if r.Header.Get("Mcp-Method")+r.Header.Get("Mcp-Name")+r.Header.Get("Cookie") != "" {
					t.Errorf("%s: %v", r.Method, r.Header)
				}
			}
			slices.Sort(methods)
			if got := strings.Join(methods, " "); got != "DELETE GET POST POST POST POST" { // SHL-16
				t.Errorf("requests: %s", got)
			}
		})
	}
}

// SHL-50, SHL-55: an id that may not be one begins no session, and a server without one is as good.
func TestSessionIDs(t *testing.T) {
	for id, good := range map[string]bool{"": true, "a": true, "!~": true, "a b": false, "é": false, strings.Repeat("x", 4<<10): true, strings.Repeat("x", 4<<10+1): false} {
		t.Run(fmt.Sprintf("%.10q", id), func(t *testing.T) {
			bubble(t, func(w http.ResponseWriter, r *request) {
				w.Header()["Mcp-Session-Id"] = []string{id}
				writeJSON(w, 200, result(r.ID))
			}, func(k *kit) {
				k.request(1, mcp.MethodInitialize)
				if err := k.sink.failure(1); (err == nil) != good {
					t.Errorf("session id %.20q: got %v", id, err)
				}
				if got := k.SessionID(); got != id && good || got != "" && !good {
					t.Errorf("session id: got %.20q, want %.20q", got, id)
				}
			})
		})
	}
}

// SHL-52, SHL-61: 404 ends a session, whatever it answers; what the server has not carried out
// may be sent again.
func TestSessionLost(t *testing.T) {
	tests := []struct {
		name, kind, body string
		lost             bool
		status           int
	}{
		{"nothing", "", "", true, 404},
		{"text", "text/plain", "Session not found", true, 404},
		{"an error without an id", "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`, true, 404},
		{"an error with another id", "application/json", `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}`, true, 404},
		{"an error with our id", "application/json", `{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"Session not found"}}`, true, 404},
		{"a method that is not there", "application/json", `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"Method not found"}}`, false, 404}, // SHM-13
		// What servers say that are made after the examples of the TypeScript SDK, and others.
		{"400", "application/json", `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`, true, 400},
		{"400 in words", "text/plain", "Invalid or missing session ID", true, 400},
		{"400 for another reason", "text/plain", "no", false, 400},
		{"400 for what was asked", "application/json", `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"session is missing"}}`, false, 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s *server
			bubble(t, legacy(func(w http.ResponseWriter, r *request) {
				w.Header().Set("Content-Type", tt.kind)
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.body))
			}), func(k *kit) {
				s = k.server
				k.session()
				k.request(7, "tools/call")
				err := k.sink.failure(7)
				if tt.lost != errors.Is(err, call.ErrUnsent) {
					t.Errorf("failure: got %v", err)
				}
				losses := k.sink.losses()
				if tt.lost != (len(losses) == 1 && errors.Is(losses[0], streamable.ErrSession)) {
					t.Errorf("losses: got %v", losses)
				}
			})
			if deletes := len(s.requests("DELETE")); tt.lost != (deletes == 0) {
				t.Errorf("%d DELETEs", deletes)
			}
		})
	}
}

// No request overtakes notifications/initialized (LIFE-06); notifications, each a POST that is accepted with 202 (SHL-11), keep their order.
func TestOrder(t *testing.T) {
	bubble(t, legacy(func(w http.ResponseWriter, r *request) {
		if r.Kind == mcp.KindNotification {
			time.Sleep(time.Second / time.Duration(len(r.Body))) // the later the faster
			w.WriteHeader(202)
			return
		}
		writeJSON(w, 200, result(r.ID))
	}), func(k *kit) {
		answer := k.server.answer
		k.server.answer = func(w http.ResponseWriter, r *request) {
			if r.Message.Method == mcp.NotificationInitialized {
				time.Sleep(3 * time.Second)
			}
			answer(w, r)
		}
		k.request(1, mcp.MethodInitialize)
		k.Speak(mcp.LatestLegacy)
		k.notify(mcp.NotificationInitialized)
		k.request(2, "tools/list")
		k.request(3, "tools/list")
		want := []string{"initialize", "notifications/initialized"}
		for i := range 20 {
			m := "notifications/x" + strings.Repeat("x", i)
			k.notify(m)
			want = append(want, m)
		}
		if n := len(k.server.requests("")); n != 2 {
			t.Errorf("%d requests before the server has taken initialized, want 2", n)
		}
		time.Sleep(time.Minute)
		var got []string
		for _, r := range k.server.requests("") {
			if r.Message.Method != "tools/list" {
				got = append(got, r.Message.Method)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("order: got %q", got)
		}
		if n := len(k.sink.all()); n != 3 {
			t.Errorf("%d answers, want 3", n)
		}
	})
}

// CANC-02, CANC-11, SHL-15: a request is cancelled by a notification that does not overtake it; then its
// stream is closed.
func TestLegacyCancel(t *testing.T) {
	closed := make(chan string, 10)
	bubble(t, legacy(func(w http.ResponseWriter, r *request) {
		if r.Kind == mcp.KindNotification {
			w.WriteHeader(202)
			return
		}
		hang(r.Ctx)
		closed <- r.ID.String()
	}), func(k *kit) {
		k.session()
		for id := int64(10); id < 20; id++ {
			if err := k.Send(mcp.Outgoing{Frame: mcp.AppendRequest(nil, mcp.IntID(id), "tools/call", nil), Kind: mcp.KindRequest, ID: mcp.IntID(id), Method: "tools/call"}); err != nil {
				t.Fatal(err)
			}
			k.cancel(id) // at once
		}
		k.request(7, "tools/call")
		k.cancel(7)
		k.cancel(8) // unknown: nobody is told
		time.Sleep(time.Second)
		synctest.Wait()
		known := map[string]bool{}
		for _, r := range k.server.requests("POST")[2:] {
			if r.Kind == mcp.KindRequest {
				known[r.ID.String()] = true
				continue
			}
			_, id, _ := strings.Cut(string(r.Params), ":")
			if id = strings.TrimSuffix(id, "}"); !known[id] {
				t.Errorf("request %s was cancelled before it came", id)
			}
			delete(known, id)
		}
		if len(known) > 0 {
			t.Errorf("requests came and were not cancelled: %v", known)
		}
		if k.sink.fails != 0 || len(k.sink.all()) != 1 {
			t.Errorf("cancelled requests were ended: %v, %q", k.sink.failed, k.sink.all())
		}
		select {
		case <-closed:
		default:
			t.Error("no stream was closed")
		}
	})
}

// SHL-13, SHL-16, SHL-21, SHL-30: what comes on a request's stream is known to belong to it, what comes on
// the server's own stream to none. The stream is taken up again after retry, where it ended
// (SHL-22, SHL-41), and after it has been silent for long.
func TestOwnStream(t *testing.T) {
	const ask = `{"jsonrpc":"2.0","id":"s","method":"ping"}`
	const note = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	bubble(t, legacy(func(w http.ResponseWriter, r *request) {
		switch {
		case r.Kind == mcp.KindRequest:
			streamEvents(w, event("", ask)+event("", result(r.ID)))
		case r.Method == "POST":
			w.WriteHeader(202)
		case r.Header.Get("Last-Event-Id") == "":
			streamEvents(w, "retry: 7000\n\n"+event("a", note)+event("b", ask))
		case r.Header.Get("Last-Event-Id") == "b":
			streamEvents(w, event("c", note))
			hang(r.Ctx) // half open
		default:
			hang(r.Ctx)
		}
	}), func(k *kit) {
		k.session()
		k.request(7, "tools/call")
		k.ListenGET()
		k.ListenGET() // one is enough
		synctest.Wait()
		want := []string{"7: " + ask, "7: " + result(mcp.IntID(7)), ": " + note, ": " + ask}
		if got := k.sink.all()[1:]; !slices.Equal(got, want) {
			t.Errorf("frames: got %q, want %q", got, want)
		}
		time.Sleep(8 * time.Second)
		if got := k.sink.all(); len(got) != 6 || got[5] != ": "+note {
			t.Errorf("frames after a pause: got %q", got)
		}
		time.Sleep(6 * time.Minute)
		gets := k.server.requests("GET")
		if len(gets) != 3 || gets[1].At != 7*time.Second || gets[2].At != 14*time.Second+5*time.Minute || gets[2].Header.Get("Last-Event-Id") != "c" {
			t.Errorf("%d GETs, the last: %+v", len(gets), gets[len(gets)-1])
		}
	})
}

// WIRE-04, ROB-2: a message of the server's own stream that is too long is skipped, once.
func TestOwnStreamTooLong(t *testing.T) {
	const note = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	bubbleWith(t, streamable.Options{MaxMessage: 10_000}, legacy(func(w http.ResponseWriter, r *request) {
		switch {
		case r.Method == "POST":
			w.WriteHeader(202)
		case r.Header.Get("Last-Event-Id") == "":
			streamEvents(w, event("a", note)+event("b", `{"x":"`+strings.Repeat("x", 20_000)+`"}`))
		case r.Header.Get("Last-Event-Id") == "b":
			streamEvents(w, event("c", note))
			hang(r.Ctx)
		}
	}), func(k *kit) {
		k.session()
		k.ListenGET()
		time.Sleep(30 * time.Second)
		if got := k.sink.all()[1:]; len(got) != 2 {
			t.Errorf("frames: got %q", got)
		}
		if len(k.sink.skipped) != 1 || !strings.HasPrefix(k.sink.skipped[0], `{"x":"xxxx: `) {
			t.Errorf("skipped: got %q", k.sink.skipped)
		}
	})
}

// SHL-20, SHL-22, SHL-52, ROB-8: what ends the server's own stream, and how often it is tried.
func TestOwnStreamEnds(t *testing.T) {
	tests := []struct {
		name   string
		answer func(w http.ResponseWriter, n int)
		gets   int // at most, in an hour
		least  int
		lost   bool
	}{
		{"405", func(w http.ResponseWriter, n int) { w.WriteHeader(405) }, 1, 1, false},
		{"404 from the beginning", func(w http.ResponseWriter, n int) { w.WriteHeader(404) }, 1, 1, false},
		{"not a stream", func(w http.ResponseWriter, n int) { writeJSON(w, 200, "{}") }, 1, 1, false},
		{"401", func(w http.ResponseWriter, n int) { w.WriteHeader(401) }, 21, 18, false},
		{"5xx", func(w http.ResponseWriter, n int) { w.WriteHeader(503) }, 140, 90, false},
		{"ends at once", func(w http.ResponseWriter, n int) { stream(w) }, 140, 90, false},
		{"404 later", func(w http.ResponseWriter, n int) {
			if n == 1 {
				streamEvents(w, event("1", "{}"))
			} else {
				w.WriteHeader(404)
			}
		}, 2, 2, true},
		{"409 from the beginning", func(w http.ResponseWriter, n int) { w.WriteHeader(409) }, 1, 1, false},
		{"409 later", func(w http.ResponseWriter, n int) { // the TypeScript SDK, until it has seen the end of the stream before
			if n == 1 {
				streamEvents(w, event("1", "{}"))
			} else {
				w.WriteHeader(409)
			}
		}, 140, 90, false},
		{"an id that the server has forgotten", func(w http.ResponseWriter, n int) { // SHL-42: without it the stream may be had
			switch n {
			case 1:
				streamEvents(w, event("1", "{}"))
			case 2:
				w.WriteHeader(400)
			default:
				w.WriteHeader(405)
			}
		}, 3, 3, false},
		{"an id that no header can carry", func(w http.ResponseWriter, n int) {
			streamEvents(w, "retry: 30000\n\n"+event("\x01", "{}"))
		}, 121, 110, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, legacy(nil), func(k *kit) {
				answer := k.server.answer
				k.server.answer = func(w http.ResponseWriter, r *request) {
					switch r.Method {
					case "GET":
						tt.answer(w, len(k.server.requests("GET")))
					case "DELETE":
						w.WriteHeader(405) // SHL-53
					default:
						answer(w, r)
					}
				}
				k.session()
				k.ListenGET()
				time.Sleep(3 * time.Second)
				if n := len(k.server.requests("GET")); n >= 10 {
					t.Errorf("%d GETs in 3 s", n)
				}
				time.Sleep(time.Hour)
				if n := len(k.server.requests("GET")); n < tt.least || n > tt.gets {
					t.Errorf("%d GETs in an hour, want %d to %d", n, tt.least, tt.gets)
				}
				if losses := k.sink.losses(); (len(losses) == 1 && errors.Is(losses[0], streamable.ErrSession)) != tt.lost {
					t.Errorf("losses: %v", losses)
				}
			})
		})
	}
}

// SHL-21, SECA-13: an answer on the server's own stream ends the request's.
func TestAnswerElsewhere(t *testing.T) {
	gone := make(chan struct{}, 1)
	bubble(t, legacy(func(w http.ResponseWriter, r *request) {
		switch {
		case r.Kind == mcp.KindRequest:
			stream(w)
			hang(r.Ctx)
			gone <- struct{}{}
		case r.Method == "GET":
			stream(w)
			time.Sleep(time.Second)
			streamEvents(w, event("", result(mcp.IntID(7)))+event("", result(mcp.IntID(99))))
			hang(r.Ctx)
		}
	}), func(k *kit) {
		k.session()
		k.ListenGET()
		k.request(7, "tools/call")
		time.Sleep(2 * time.Second)
		if got := k.sink.all()[1:]; len(got) != 2 || k.sink.fails != 0 {
			t.Errorf("frames: %q, failed: %v", got, k.sink.failed)
		}
		select {
		case <-gone:
		default:
			t.Error("the request's stream is open still")
		}
	})
}

// SHL-20: the server's own stream is asked for once the server has taken initialized.
func TestOwnStreamWaits(t *testing.T) {
	bubble(t, func(w http.ResponseWriter, r *request) {
		switch {
		case r.Kind == mcp.KindRequest:
			writeJSON(w, 200, result(r.ID))
		case r.Method == "POST":
			time.Sleep(3 * time.Second)
			w.WriteHeader(202)
		default:
			w.WriteHeader(405)
		}
	}, func(k *kit) {
		k.request(1, mcp.MethodInitialize)
		k.Speak(mcp.LatestLegacy)
		k.notify(mcp.NotificationInitialized)
		k.ListenGET()
		time.Sleep(time.Minute)
		if gets := k.server.requests("GET"); len(gets) != 1 || gets[0].At != 3*time.Second {
			t.Errorf("%d GETs, want one after 3 s", len(gets))
		}
	})
}

// SHL-21: requests wait for the server's own stream, on which it may ask for what they
// need; but not for long.
func TestRequestsWaitForOwnStream(t *testing.T) {
	for _, tt := range []struct{ opens, goes time.Duration }{
		{0, 0}, {300 * time.Millisecond, 300 * time.Millisecond}, {time.Hour, time.Second},
	} {
		t.Run(tt.opens.String(), func(t *testing.T) {
			bubble(t, func(w http.ResponseWriter, r *request) {
				switch {
				case r.Kind == mcp.KindRequest:
					writeJSON(w, 200, result(r.ID))
				case r.Method == "POST":
					w.WriteHeader(202)
				default:
					select {
					case <-time.After(tt.opens):
						stream(w)
					case <-r.Ctx.Done():
					}
					hang(r.Ctx)
				}
			}, func(k *kit) {
				k.request(1, mcp.MethodInitialize)
				k.Speak(mcp.LatestLegacy)
				k.notify(mcp.NotificationInitialized)
				k.ListenGET()
				k.request(2, mcp.MethodCallTool)
				time.Sleep(2 * time.Second)
				for _, r := range k.server.requests("POST") {
					if r.Kind == mcp.KindRequest && r.ID == mcp.IntID(2) && r.At != tt.goes {
						t.Errorf("the call went after %v, want %v", r.At, tt.goes)
					}
				}
				if got := k.sink.all(); len(got) != 2 {
					t.Errorf("answers: %q", got)
				}
			})
		})
	}
}

// SHL-11: a notification that is accepted in another way than with 202 and nothing is accepted, and holds up nobody.
func TestAccepted(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter){
		"200":           func(w http.ResponseWriter) { w.WriteHeader(200) },
		"204":           func(w http.ResponseWriter) { w.WriteHeader(204) },
		"200 with JSON": func(w http.ResponseWriter) { writeJSON(w, 200, "{}") },
		"a stream":      stream,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w http.ResponseWriter, r *request) {
				if r.Kind == mcp.KindRequest {
					writeJSON(w, 200, result(r.ID))
					return
				}
				if answer(w); name == "a stream" {
					hang(r.Ctx)
				}
			}, func(k *kit) {
				k.request(1, mcp.MethodInitialize)
				k.Speak(mcp.LatestLegacy)
				k.notify(mcp.NotificationInitialized)
				k.request(2, "tools/list")
				time.Sleep(time.Second)
				if got := k.sink.all(); len(got) != 2 || strings.Contains(k.log.String(), "WARN") {
					t.Errorf("%d answers within a second, want 2\n%s", len(got), k.log)
				}
			})
		})
	}
}

// SHL-52, LIFE-11: a second handshake does not name the session of the first.
func TestSecondHandshake(t *testing.T) {
	var s *server
	bubble(t, legacy(nil), func(k *kit) {
		s = k.server
		k.request(1, mcp.MethodInitialize)
		k.request(2, mcp.MethodInitialize)
		if got := k.server.requests("POST")[1].Header.Get("Mcp-Session-Id"); got != "" {
			t.Errorf("the second handshake names the session %q", got)
		}
		k.Speak(mcp.V2026_07_28)
	})
	if n := len(s.requests("DELETE")); n != 0 { // SHM-10
		t.Errorf("%d DELETEs to a modern server", n)
	}
}
