package streams

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/mcp"
)

// SHL-13: over a socket a sender writes what it will wait for itself, as long as the socket
// takes it; the order of events is that of the calls.
func TestSendHere(t *testing.T) {
	k := &streamKit{t: t, version: mcp.V2025_11_25, posted: make(chan *Stream, 1), served: make(chan error, 1)}
	k.set = NewSet(Options{
		KeepAlive: time.Hour, Retry: time.Second, MaxEvents: 1000, MaxBytes: 1 << 20, Logger: slog.New(slog.DiscardHandler), Go: func(f func()) { k.tasks.Go(f) },
	})
	k.streams = k.set.NewSession()
	server := httptest.NewServer(k)
	defer server.Close()
	defer k.set.Close()
	k.client = server.Client()
	resp, err := k.client.Post(server.URL, "application/json", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	s, r := <-k.posted, k.read(resp)
	r.prime()
	large := strings.Repeat("x", ownRoom)
	for n := range 20 {
		s.SendHere([]byte(nthMessage(n)))
		r.want(nthMessage(n))
		s.Send([]byte(nthMessage(100 + n)))
		s.SendHere([]byte(nthMessage(200 + n)))
		r.want(nthMessage(100+n), nthMessage(200+n))
	}
	s.mutex().Lock()
	room := s.conn.(*handlerConn).room
	s.mutex().Unlock()
	if room == ownRoom {
		t.Error("no sender has written")
	}
	s.SendHere([]byte(large)) // the goroutine of the connection writes it
	r.want(large)
	s.mutex().Lock()
	after := s.conn.(*handlerConn).room
	s.mutex().Unlock()
	if after != room {
		t.Errorf("a sender may write %d bytes after a large message, want %d", after, room)
	}

	const each = 50
	var senders sync.WaitGroup
	for range 4 {
		senders.Go(func() {
			for n := range each {
				s.SendHere([]byte(nthMessage(n)))
			}
		})
	}
	senders.Wait()
	s.Finish([]byte(nthMessage(1000)))
	seen := make(map[string]int)
	for range 4 * each {
		seen[string(r.next().Data)]++
	}
	for n := range each {
		if seen[nthMessage(n)] != 4 {
			t.Errorf("message %d: came %d times, want 4", n, seen[nthMessage(n)])
		}
	}
	r.want(nthMessage(1000))
	r.wantEnd()
	s.SendHere([]byte("late"))
	if err := <-k.served; err != nil {
		t.Errorf("serve: got %v, want nil", err)
	}
}

// WIRE-13: over HTTP/2 a stream outlasts its silence, although the deadlines of writes would end it.
func TestStreamQuietHTTP2(t *testing.T) {
	inStreams(t, func(o *Options) { o.KeepAlive = time.Hour }, func(t *testing.T, k *streamKit) {
		k.client = memhttp.ServeHTTP2(t, k)
		resp := k.do(http.MethodPost, "")
		if resp.ProtoMajor != 2 {
			t.Fatalf("got %s, want HTTP/2", resp.Proto)
		}
		s, r := <-k.posted, k.read(resp)
		r.prime()
		for n := range 3 {
			time.Sleep(10 * writeTime)
			s.SendHere([]byte(nthMessage(n)))
			r.want(nthMessage(n))
		}
		s.Finish([]byte(nthMessage(100)))
		r.want(nthMessage(100))
		r.wantEnd()
	})
}

// heldResponse holds its writes up while gate is not nil.
type heldResponse struct {
	httptest.ResponseRecorder
	mu      sync.Mutex
	gate    chan error
	writing int // goroutines that write
}

func (w *heldResponse) Write(data []byte) (int, error) {
	w.mu.Lock()
	gate := w.gate
	w.writing++
	if w.writing > 1 {
		panic("two goroutines write")
	}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.writing--
		w.mu.Unlock()
	}()
	if gate != nil {
		if err := <-gate; err != nil {
			return 0, err
		}
	}
	return w.ResponseRecorder.Write(data)
}

func (w *heldResponse) hold(gate chan error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gate = gate
}

// While a sender writes, the goroutine of the handler neither writes nor returns: the response
// would be over.
func TestSendHereHoldsTheHandler(t *testing.T) {
	for name, fails := range map[string]error{"written": nil, "failed": errors.New("broken pipe")} {
		t.Run(name, func(t *testing.T) {
			inStreams(t, nil, func(t *testing.T, k *streamKit) {
				w := &heldResponse{ResponseRecorder: *httptest.NewRecorder()}
				s := k.set.Plain()
				c := newHandlerConn(s, w, httptest.NewRequest(http.MethodPost, "/", nil))
				c.room = ownRoom
				if err := s.attach(c, time.Time{}); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := make(chan error, 1)
				go func() { done <- c.Run(ctx) }()
				synctest.Wait()
				gate := make(chan error)
				w.hold(gate)
				go s.SendHere([]byte("a"))
				synctest.Wait()
				s.Send([]byte("b")) // wakes the handler's goroutine, which waits on
				synctest.Wait()
				w.hold(nil)
				if fails == nil {
					gate <- nil
					synctest.Wait()
					if got := w.Body.String(); got != "data: a\n\ndata: b\n\n" {
						t.Fatalf("the stream: got %q, want a and then b", got)
					}
					gate = make(chan error)
					w.hold(gate)
					go s.SendHere([]byte("c"))
					synctest.Wait()
					cancel() // the client has gone
					synctest.Wait()
				}
				select {
				case err := <-done:
					t.Fatalf("the handler has returned %v while a sender writes", err)
				default:
				}
				gate <- fails
				if err := <-done; !errors.Is(err, errGone) {
					t.Errorf("Run: got %v, want %v", err, errGone)
				}
				if s.Open() {
					t.Error("the stream goes on without its connection")
				}
				s.SendHere([]byte("d"))
			})
		})
	}
}
