package oldsse

import (
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// SSE-01, SSE-02, SSE-03, SSE-12, WIRE-01
func TestExchange(t *testing.T) {
	for _, status := range []int{200, 201, 202, 204} {
		synctest.Test(t, func(t *testing.T) {
			answers := make(chan string, 1)
			k := mustDial(t, &server{
				get: func(w *writer) {
					w.say(": welcome\n\n" + begin)
					for {
						select {
						case a := <-answers:
							w.say("event: message\r\ndata: " + a + "\r\n\r\n")
						case <-w.ctx.Done():
							return
						}
					}
				},
				post: func(w http.ResponseWriter, p *posted) {
					w.WriteHeader(status)
					io.WriteString(w, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}") // has no meaning here
					answers <- `{"re":` + p.Body + `}`
				},
			})
			out := ask(1)
			if err := k.link.Send(out); err != nil {
				t.Fatal(err)
			}
			want := `{"re":` + string(out.Frame) + `}`
			out.Frame[0] = 'X' // the caller's again
			synctest.Wait()
			frames, failed, lost := k.all()
			if !reflect.DeepEqual(frames, []string{want}) || len(failed) > 0 || len(lost) > 0 {
				t.Errorf("status %d: got frames %q, failed %v, lost %v, want %q", status, frames, failed, lost, want)
			}
			posts := k.posts()
			if len(posts) != 1 || posts[0].URL != "/messages?session="+key {
				t.Fatalf("got posts %v", posts)
			}
			h := posts[0].Header
			if h.Get("Content-Type") != "application/json" || h.Get("Authorization") != "Bearer canary-token" {
				t.Errorf("got headers %v", h)
			}
			for name := range h {
				if strings.HasPrefix(strings.ToLower(name), "mcp-") {
					t.Errorf("got the header %s, which this transport does not have", name)
				}
			}
		})
	}
}

// WIRE-11, SSE-02: what is no message is not passed on, and the endpoint stays.
func TestOtherEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := mustDial(t, &server{get: func(w *writer) {
			w.say("retry: 5\n\nevent: hello\ndata: x\n\n" + begin)
			w.say("id: 1\ndata:\n\nevent: ping\ndata: x\n\nevent: endpoint\ndata: http://evil.test/\n\nretry: 1\n\n: c\n\ndata: {}\n\n")
			w.say("data: [{},{}]\n\n") // WIRE-12: a batch is one frame
			w.wait()
		}})
		synctest.Wait()
		k.link.Send(ask(1))
		synctest.Wait()
		frames, _, lost := k.all()
		if !reflect.DeepEqual(frames, []string{"{}", "[{},{}]"}) || len(lost) > 0 {
			t.Errorf("got frames %q, lost %v", frames, lost)
		}
		if p := k.posts(); len(p) != 1 || p[0].URL != "/messages?session="+key {
			t.Errorf("got posts %v, want one to the first endpoint", p)
		}
	})
}

// Messages come in order, also when the server is slow to say 202.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := mustDial(t, &server{post: func(w http.ResponseWriter, p *posted) {
			time.Sleep(time.Duration(len(p.Body)%7) * 10 * time.Millisecond)
			w.WriteHeader(202)
		}})
		var want []string
		for i := range 200 {
			m := ask(i)
			want = append(want, string(m.Frame))
			if err := k.link.Send(m); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		if got := k.bodies(); !reflect.DeepEqual(got, want) {
			t.Errorf("got %d messages in the wrong order: %v", len(got), got)
		}
	})
}

// A server that answers the POST only when the call is done, and asks something
// before that, gets its answer.
func TestSlowPostDoesNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered := make(chan struct{})
		k := mustDial(t, &server{post: func(w http.ResponseWriter, p *posted) {
			if strings.Contains(p.Body, `"result"`) {
				close(answered)
			}
			select {
			case <-answered:
			case <-p.ctx.Done():
			}
			w.WriteHeader(202)
		}})
		k.link.Send(ask(1))
		k.link.Send(mcp.Outgoing{Frame: mcp.AppendResult(nil, mcp.IntID(9), nil), Kind: mcp.KindResult, ID: mcp.IntID(9)})
		begin := time.Now()
		<-answered
		if d := time.Since(begin); d > 2*passTime {
			t.Errorf("the answer came after %v, want at most %v", d, 2*passTime)
		}
		time.Sleep(time.Minute)
		if _, failed, _ := k.all(); len(failed) > 0 {
			t.Errorf("got failures %v", failed)
		}
	})
}

// POSTs that are never answered are bounded in number and time, and so is what waits
// behind them (ROB-3, WIRE-04).
func TestPostsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := mustDial(t, &server{post: func(_ http.ResponseWriter, p *posted) { <-p.ctx.Done() }})
		sent, busy := 0, error(nil)
		for busy == nil {
			if busy = k.link.Send(ask(sent)); busy == nil {
				sent++
			}
		}
		if !errors.Is(busy, call.ErrBusy) || sent < maxQueue || sent > maxQueue+maxPosts {
			t.Errorf("got %v after %d messages, want ErrBusy after %d", busy, sent, maxQueue)
		}
		time.Sleep(postTime / 2)
		if n := len(k.posts()); n != maxPosts {
			t.Errorf("got %d POSTs at once, want %d", n, maxPosts)
		}
		time.Sleep(postTime)
		if _, failed, lost := k.all(); len(failed) < maxPosts || len(lost) > 0 {
			t.Errorf("got %d failures and %v, want at least %d and no end", len(failed), lost, maxPosts)
		}
		start := time.Now()
		k.link.Close()
		if d := time.Since(start); d > drainTime+endTime {
			t.Errorf("Close took %v", d)
		}
	})
}

func TestTooLongToSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := mustDial(t, new(server))
		m := ask(1)
		m.Frame = make([]byte, defaultMessage+1)
		if err := k.link.Send(m); !errors.Is(err, call.ErrTooLong) {
			t.Errorf("Send of %d bytes: got %v, want ErrTooLong", len(m.Frame), err)
		}
	})
}

// A POST that fails ends its own request and nothing else (SSE-07).
func TestPostFails(t *testing.T) {
	tests := []struct {
		name  string
		post  func(w http.ResponseWriter)
		check func(error) bool
	}{
		{"400", func(w http.ResponseWriter) { http.Error(w, "bad session "+key, 400) }, isStatus(400)},
		{"404 at once", func(w http.ResponseWriter) { http.Error(w, "no", 404) }, isStatus(404)},
		{"500", func(w http.ResponseWriter) { http.Error(w, "Bearer canary-token \x1b[31m", 500) }, isStatus(500)},
		{"a large page", func(w http.ResponseWriter) { w.WriteHeader(502); w.Write(make([]byte, 10<<20)) }, isStatus(502)},
		{"an endless page", func(w http.ResponseWriter) {
			w.WriteHeader(503)
			for _, err := w.Write([]byte("x")); err == nil; _, err = w.Write([]byte("x")) {
				w.(http.Flusher).Flush()
				time.Sleep(time.Second)
			}
		}, isStatus(503)},
		{"cut", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, func(err error) bool {
			return errors.Is(err, io.EOF) && !errors.Is(err, call.ErrUnsent)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := mustDial(t, &server{
					get: func(w *writer) {
						w.say(begin)
						time.Sleep(time.Hour)
						w.say("data: {}\n\n")
						w.wait()
					},
					post: func(w http.ResponseWriter, p *posted) {
						if strings.Contains(p.Body, `"id":1`) {
							tt.post(w)
						}
					},
				})
				k.link.Send(ask(1))
				k.link.Send(ask(2))
				time.Sleep(2 * time.Hour)
				frames, failed, lost := k.all()
				if len(failed) != 1 || !tt.check(failed["1"]) || len(lost) > 0 || len(frames) != 1 {
					t.Errorf("got failed %v, lost %v, frames %q, want the first request failed and the rest as ever", failed, lost, frames)
				}
				if n := len(k.bodies()); n != 2 {
					t.Errorf("got %d messages, want 2: none is repeated", n)
				}
				if text := failed["1"].Error(); len(text) > 3*shownOfPage || strings.Contains(text, "\x1b") {
					t.Errorf("the error has %d bytes: %.200q", len(text), text)
				}
			})
		})
	}
}

func isStatus(status int) func(error) bool {
	return func(err error) bool {
		e, ok := errors.AsType[*call.TransportError](err)
		return ok && e.Status == status && e.Method == "m"
	}
}

// SSE-05, SSE-07: a session that the server no longer knows ends the link, and the
// request may be sent again in the next.
func TestSessionGone(t *testing.T) {
	for _, status := range []int{404, 410} {
		synctest.Test(t, func(t *testing.T) {
			first := true
			k := mustDial(t, &server{post: func(w http.ResponseWriter, _ *posted) {
				if !first {
					http.Error(w, "unknown session "+key, status)
				}
				first = false
			}})
			k.link.Send(ask(1))
			synctest.Wait()
			k.link.Send(ask(2))
			synctest.Wait()
			_, failed, lost := k.all()
			if len(lost) != 1 || !errors.Is(lost[0], ErrSession) || !errors.Is(failed["2"], call.ErrUnsent) {
				t.Errorf("status %d: got failed %v, lost %v, want ErrUnsent and ErrSession", status, failed, lost)
			}
		})
	}
}

// A notification that is refused is logged; nothing else ends.
func TestNotificationFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := mustDial(t, &server{post: func(w http.ResponseWriter, _ *posted) { http.Error(w, key, 400) }})
		k.link.Send(notice("notifications/x"))
		synctest.Wait()
		if _, failed, lost := k.all(); len(failed)+len(lost) > 0 || !strings.Contains(k.logs.String(), "notifications/x") {
			t.Errorf("got failed %v, lost %v, logs %q", failed, lost, k.logs.String())
		}
	})
}

// SSE-05
func TestStreamEnds(t *testing.T) {
	tests := []struct {
		name, rest string
		clean      bool
	}{
		{"in order", "data: {}\n\n", true},
		{"in the middle of an event", "data: {}\n", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := mustDial(t, &server{get: func(w *writer) { w.say(begin + tt.rest) }})
				synctest.Wait()
				_, _, lost := k.all()
				if len(lost) != 1 || (lost[0] == nil) != tt.clean {
					t.Errorf("got lost %v, want once, in order: %v", lost, tt.clean)
				}
				k.link.Close()
				if _, _, lost := k.all(); len(lost) != 1 {
					t.Errorf("after Close: got lost %v, want once", lost)
				}
			})
		})
	}
}

// ROB-7: closing is final.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		more := make(chan struct{})
		k := mustDial(t, &server{get: func(w *writer) {
			w.say(begin)
			<-more
			w.say("data: {}\n\n")
		}})
		k.link.Send(ask(1)) // what was sent before is still POSTed
		k.link.Close()
		close(more)
		synctest.Wait()
		frames, failed, lost := k.all()
		if len(frames)+len(failed) > 0 || !reflect.DeepEqual(lost, []error{nil}) || len(k.posts()) != 1 {
			t.Errorf("got frames %q, failed %v, lost %v, %d posts", frames, failed, lost, len(k.posts()))
		}
		if err := k.link.Send(ask(2)); err == nil {
			t.Error("Send after Close: got no error")
		}
		k.link.Close()
	})
}

// Close from inside the sink must not wait for itself for ever.
func TestCloseFromSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan struct{})
		more := make(chan struct{})
		k := mustDial(t, &server{get: func(w *writer) {
			w.say(begin)
			<-more
			w.say("data: {}\n\n")
			w.wait()
		}})
		k.sink.mu.Lock()
		k.react = func(string) { k.link.Close(); close(closed) }
		k.sink.mu.Unlock()
		close(more)
		<-closed
	})
}

// When as many POSTs hang as may, what waits goes on with the first that ends, and not only
// with the last that began.
func TestPostsThatHangGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first sync.Once
		end := make(chan struct{})
		k := mustDial(t, &server{post: func(w http.ResponseWriter, p *posted) {
			mine := (<-chan struct{})(nil)
			first.Do(func() { mine = end })
			select {
			case <-mine:
			case <-p.ctx.Done():
			}
		}})
		for n := range maxPosts + 10 {
			k.link.Send(ask(n))
		}
		time.Sleep(time.Minute)
		if n := len(k.posts()); n != maxPosts {
			t.Fatalf("got %d POSTs, want %d", n, maxPosts)
		}
		close(end)
		synctest.Wait()
		if n := len(k.posts()); n != maxPosts+1 {
			t.Errorf("got %d POSTs after one has ended, want %d", n, maxPosts+1)
		}
	})
}
