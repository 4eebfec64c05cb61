package streamable_test

import (
	"compress/gzip"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/httpguard"
	"github.com/troupe-dev/troupe/mcpclient/internal/streamable"
)

// WIRE-04, ROB-3, ROB-8: a server that answers nothing fills neither memory nor the process.
func TestLines(t *testing.T) {
	bubbleWith(t, streamable.Options{MaxRequests: 2, MaxMessage: 1000}, func(w http.ResponseWriter, r *request) {
		hang(r.Ctx)
	}, func(k *kit) {
		k.Speak(mcp.LatestLegacy)
		sent, busy := 0, 0
		for id := int64(1); id <= 5000; id++ {
			err := k.Send(mcp.Outgoing{Frame: mcp.AppendRequest(nil, mcp.IntID(id), "tools/call", nil), Kind: mcp.KindRequest, ID: mcp.IntID(id), Method: "tools/call"})
			switch {
			case err == nil:
				sent++
			case errors.Is(err, call.ErrBusy):
				busy++
			default:
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := len(k.server.requests("")); n != 2 || sent != 4098 || busy != 5000-4098 {
			t.Errorf("%d under way, %d taken, %d refused", n, sent, busy)
		}
		for id := int64(5); id <= 4098; id++ {
			k.cancel(id) // has not left: nobody is told
		}
		k.cancel(1)
		k.cancel(2)
		time.Sleep(3 * time.Second)
		for _, r := range k.server.requests("") {
			if id, _ := r.ID.Int64(); id > 4 {
				t.Errorf("a request that was withdrawn has left: %s", r.Body)
			}
		}
		big := mcp.Outgoing{Frame: make([]byte, 1001), Kind: mcp.KindRequest, ID: mcp.IntID(9999)}
		if err := k.Send(big); !errors.Is(err, call.ErrTooLong) {
			t.Errorf("a request that is too long: got %v", err)
		}
		refused := 0
		for range 2000 {
			if err := k.Send(mcp.Outgoing{Frame: []byte("{}"), Kind: mcp.KindNotification, Method: "x"}); errors.Is(err, call.ErrBusy) {
				refused++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if refused < 900 {
			t.Errorf("%d of 2000 notifications were refused", refused)
		}
	})
}

// A message that has not left this process is known not to be carried out, and a server that cannot
// be reached ends the link.
func TestUnreachable(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	synctest.Test(t, func(t *testing.T) {
		s := newSink()
		u, _ := url.Parse("http://mcp.test/")
		var running sync.WaitGroup
		client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			time.Sleep(time.Second)
			return nil, refused
		}}}
		l := streamable.New(streamable.Options{URL: u, Client: client, Sink: s, Go: func(_ string, f func()) { running.Go(f) }})
		if err := l.Send(mcp.Outgoing{Frame: []byte("{}"), Kind: mcp.KindRequest, ID: mcp.IntID(1)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if err := s.failure(1); !errors.Is(err, call.ErrUnsent) || !errors.Is(err, refused) {
			t.Errorf("failure: got %v", err)
		}
		if got := s.losses(); len(got) != 1 || !errors.Is(got[0], refused) {
			t.Errorf("losses: got %v", got)
		}
		l.Close()
		running.Wait()
	})
}

// ROB-7, SHL-53, SHL-60: Close ends everything, whatever the server does, and what was queued gets a moment.
func TestClose(t *testing.T) {
	bubble(t, legacy(func(w http.ResponseWriter, r *request) {
		if r.Kind == mcp.KindNotification {
			time.Sleep(500 * time.Millisecond)
			w.WriteHeader(202)
			return
		}
		if n, ok := r.ID.Int64(); ok && n%2 == 0 {
			streamEvents(w, event("1", ""))
		}
		hang(r.Ctx) // the DELETE too
	}), func(k *kit) {
		k.session()
		k.ListenGET()
		for id := int64(10); id < 50; id++ {
			k.request(id, "tools/call")
		}
		if err := k.Send(mcp.Outgoing{Frame: []byte(`{"jsonrpc":"2.0","method":"notifications/last"}`), Kind: mcp.KindNotification, Method: "notifications/last"}); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		var both sync.WaitGroup
		both.Go(func() { k.Close() })
		k.Close()
		both.Wait()
		if took := time.Since(begin); took != 2500*time.Millisecond {
			t.Errorf("Close took %v, want what is queued (0.5 s) and the DELETE (2 s)", took)
		}
		if n := len(k.server.requests("DELETE")); n != 1 {
			t.Errorf("%d DELETEs", n)
		}
		if err := k.Send(mcp.Outgoing{Frame: []byte("{}"), Kind: mcp.KindRequest, ID: mcp.IntID(99)}); err == nil {
			t.Error("a closed link takes requests")
		}
		if k.sink.fails > 0 {
			t.Errorf("failures after Close: %v", k.sink.failed)
		}
	})
}

// ROB-8, TIME-02: a server that sends its answer byte by byte, or is half open, holds nothing beyond what the
// call's own limits allow: their end ends the stream.
func TestSlowServer(t *testing.T) {
	drip := func(text string) func(w http.ResponseWriter, r *request) {
		return func(w http.ResponseWriter, r *request) {
			for _, c := range []byte(text) {
				if _, err := w.Write([]byte{c}); err != nil || r.Ctx.Err() != nil {
					return
				}
				w.(http.Flusher).Flush()
				time.Sleep(time.Second)
			}
			hang(r.Ctx)
		}
	}
	tests := map[string]func(w http.ResponseWriter, r *request){
		"no answer": func(w http.ResponseWriter, r *request) { hang(r.Ctx) },
		"json": func(w http.ResponseWriter, r *request) {
			w.Header().Set("Content-Type", "application/json")
			drip(strings.Repeat(" ", 1000))(w, r)
		},
		"stream": func(w http.ResponseWriter, r *request) {
			stream(w)
			drip(strings.Repeat(":", 1000))(w, r)
		},
		"error page": func(w http.ResponseWriter, r *request) {
			w.WriteHeader(500)
			drip(strings.Repeat("x", 1000))(w, r)
		},
	}
	for name, answer := range tests {
		t.Run(name, func(t *testing.T) {
			gone := make(chan struct{}, 1)
			bubble(t, func(w http.ResponseWriter, r *request) {
				answer(w, r)
				gone <- struct{}{}
			}, func(k *kit) {
				k.Speak(mcp.V2026_07_28)
				k.request(7, "tools/call")
				time.Sleep(30 * time.Second)
				if name == "error page" {
					if err := k.sink.failure(7); err == nil || !strings.Contains(err.Error(), "xxxx") {
						t.Errorf("failure: got %v", err)
					}
				}
				k.cancel(7)
				time.Sleep(2 * time.Second)
				select {
				case <-gone:
				default:
					t.Error("the server works on")
				}
			})
		})
	}
}

// A notification that the server does not take holds up the next for half a minute at most.
func TestStuckNotification(t *testing.T) {
	bubble(t, legacy(func(w http.ResponseWriter, r *request) {
		if r.Message.Method == "notifications/stuck" {
			hang(r.Ctx)
		}
		w.WriteHeader(202)
	}), func(k *kit) {
		k.session()
		k.notify("notifications/stuck")
		k.notify("notifications/next")
		time.Sleep(31 * time.Second)
		posts := k.server.requests("POST")
		if last := posts[len(posts)-1]; last.Message.Method != "notifications/next" || last.At != 30*time.Second {
			t.Errorf("the last: %s at %v", last.Message.Method, last.At)
		}
	})
}

// SECA-9: a body that grows without measure when it is decompressed.
func TestBomb(t *testing.T) {
	for _, kind := range []string{"application/json", "text/event-stream", "text/html"} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(w http.ResponseWriter, r *request) {
				w.Header().Set("Content-Type", kind)
				w.Header().Set("Content-Encoding", "gzip")
				z, _ := gzip.NewWriterLevel(w, gzip.BestCompression)
				zeros := make([]byte, 1<<20)
				for range 64 {
					if _, err := z.Write(zeros); err != nil {
						return
					}
				}
				z.Close()
			}, func(k *kit) {
				k.Speak(mcp.V2026_07_28)
				k.request(7, "tools/call")
				err := k.sink.failure(7)
				_, large := errors.AsType[*httpguard.TooLargeError](err)
				if !large && !errors.Is(err, httpguard.ErrBomb) && kind != "text/html" || err == nil {
					t.Errorf("failure: got %v", err)
				}
			})
		})
	}
}
