package streamable_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/httpguard"
	"github.com/troupe-dev/troupe/mcpclient/internal/streamable"
)

// waits stand for the system's.
type waits struct {
	refuse bool

	mu        sync.Mutex
	open      *wait // the only one
	cancelled int
}

type wait struct {
	of    *waits
	ready func()
	limit *time.Timer
	late  bool
}

func (s *waits) whenReadable(_ string, _ syscall.Conn, within time.Duration, ready func()) (streamable.Wait, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse {
		return nil, false
	}
	if s.open != nil {
		panic("a connection has two waits")
	}
	w := &wait{of: s, ready: ready}
	w.limit = time.AfterFunc(within, func() {
		if w.late = true; w.take() {
			ready()
		}
	})
	s.open = w
	return w, true
}

// take ends a wait that is open.
func (w *wait) take() bool {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	if w.of.open != w {
		return false
	}
	w.of.open = nil
	w.limit.Stop()
	return true
}

func (w *wait) Late() bool { return w.late }

func (w *wait) Cancel() bool {
	if !w.take() {
		return false
	}
	w.of.cancelled++
	return true
}

func (w *wait) Wake() {
	if w.take() {
		go w.ready()
	}
}

func (s *waits) parked() *wait {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// pushed is a server whose GET streams write what comes from a channel; "" ends one.
func pushed(events chan string) func(http.ResponseWriter, *request) {
	return legacy(func(w http.ResponseWriter, r *request) {
		if r.Method != http.MethodGet {
			w.WriteHeader(http.StatusOK)
			return
		}
		stream(w)
		for {
			select {
			case e := <-events:
				if e == "" {
					return
				}
				streamEvents(w, e)
			case <-r.Ctx.Done():
				return
			}
		}
	})
}

// parkedKit runs f with a link whose stream is parked, after the event with id 1.
func parkedKit(t *testing.T, f func(k *kit, s *waits, events chan string)) {
	t.Helper()
	s := new(waits)
	var events chan string
	bubbleWith(t, streamable.Options{WhenReadable: s.whenReadable}, func(w http.ResponseWriter, r *request) { pushed(events)(w, r) }, func(k *kit) {
		events = make(chan string)
		k.session()
		k.ListenGET()
		time.Sleep(100 * time.Millisecond)
		if s.parked() == nil {
			t.Fatal("a new stream is not parked soon")
		}
		events <- event("1", `{"jsonrpc":"2.0","method":"first"}`)
		s.parked().Wake()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s.parked() == nil || k.goroutines.Load() != 0 {
			t.Fatalf("a stream on which nothing comes has %d goroutines", k.goroutines.Load())
		}
		if k.HasAlarm() {
			t.Error("a parked stream has a timer")
		}
		f(k, s, events)
	})
	if s.open != nil {
		t.Error("a wait outlives its link")
	}
}

func (k *kit) want(frames ...string) {
	k.t.Helper()
	synctest.Wait()
	for i, f := range frames {
		frames[i] = fmt.Sprintf(`: {"jsonrpc":"2.0","method":%q}`, f)
	}
	if got := k.sink.all()[1:]; !slices.Equal(got, frames) { // without the handshake
		k.t.Errorf("frames: got %q, want %q", got, frames)
	}
}

// A stream on which nothing comes has no goroutine, and misses nothing: the next event wakes
// it, and so does the first part of one, with which it is not parked again.
func TestParked(t *testing.T) {
	parkedKit(t, func(k *kit, s *waits, events chan string) {
		events <- event("", `{"jsonrpc":"2.0","method":"second"}`)
		s.parked().Wake()
		k.want("first", "second")
		if s.parked() != nil {
			t.Error("parked while more may follow")
		}
		time.Sleep(2 * time.Second)
		events <- ": a comment\n\n"
		s.parked().Wake()
		time.Sleep(100 * time.Millisecond)
		events <- "data: {\"jsonrpc\":\"2.0\","
		if s.parked() == nil {
			t.Fatal("not parked soon after a comment")
		}
		s.parked().Wake()
		time.Sleep(time.Minute)
		if s.parked() != nil {
			t.Error("parked within an event")
		}
		events <- "\"method\":\"third\"}\n\n"
		k.want("first", "second", "third")
		time.Sleep(2 * time.Second)
		if s.parked() == nil {
			t.Error("not parked after the end of the event")
		}
		if n := len(k.server.requests("GET")); n != 1 {
			t.Errorf("got %d GETs, want 1", n)
		}
	})
}

// The end of a parked stream is the end of any: another is opened, behind its last event.
func TestParkedStreamEnds(t *testing.T) {
	parkedKit(t, func(k *kit, s *waits, events chan string) {
		events <- ""
		s.parked().Wake()
		time.Sleep(3 * time.Second)
		gets := k.server.requests("GET")
		if len(gets) != 2 || gets[1].Header.Get("Last-Event-Id") != "1" {
			t.Fatalf("got %d GETs, want a second one behind event 1", len(gets))
		}
		if s.parked() == nil {
			t.Fatal("the second stream is not parked")
		}
		events <- event("", `{"jsonrpc":"2.0","method":"second"}`)
		s.parked().Wake()
		k.want("first", "second")
	})
}

// A half-open connection is found out also while it is parked.
func TestParkedTooLong(t *testing.T) {
	parkedKit(t, func(k *kit, s *waits, events chan string) {
		first := k.server.requests("GET")[0].Ctx
		time.Sleep(4 * time.Minute)
		if first.Err() != nil {
			t.Error("the connection was given up early")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := len(k.server.requests("GET")); n != 2 || first.Err() == nil {
			t.Errorf("got %d GETs, the first has ended: %v; want 2", n, first.Err())
		}
		if s.parked() == nil {
			t.Error("the second stream is not parked")
		}
	})
}

// Close ends a parked stream, without waking it.
func TestParkedStreamCloses(t *testing.T) {
	parkedKit(t, func(k *kit, s *waits, _ chan string) {
		get := k.server.requests("GET")[0].Ctx
		k.Close()
		synctest.Wait()
		if get.Err() == nil || s.cancelled != 1 || k.goroutines.Load() != 0 {
			t.Errorf("the GET has ended: %v, %d waits were cancelled, %d goroutines are left", get.Err(), s.cancelled, k.goroutines.Load())
		}
	})
}

// Where the system waits for no connection a goroutine does.
func TestNotParked(t *testing.T) {
	s := &waits{refuse: true}
	var events chan string
	bubbleWith(t, streamable.Options{WhenReadable: s.whenReadable}, func(w http.ResponseWriter, r *request) { pushed(events)(w, r) }, func(k *kit) {
		events = make(chan string)
		k.session()
		k.ListenGET()
		time.Sleep(time.Minute)
		events <- event("", `{"jsonrpc":"2.0","method":"first"}`)
		k.want("first")
	})
}

// The kit's system waits for connections of TCP and of TLS.
func TestParkedInTheSystem(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a goroutine waits for each stream here")
	}
	sys, err := actors.NewSystem(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Shutdown(context.Background())
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %t", secure), func(t *testing.T) {
			parked := make(chan bool, 10)
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet {
					w.WriteHeader(http.StatusAccepted)
					return
				}
				stream(w)
				for range 3 {
					select {
					case <-parked:
						streamEvents(w, event("", `{"jsonrpc":"2.0","method":"x"}`))
					case <-r.Context().Done():
						return
					}
				}
				<-r.Context().Done()
			})
			server := httptest.NewUnstartedServer(h)
			o := httpguard.Options{}
			if !secure {
				server.Start()
			} else {
				server.StartTLS()
				roots := x509.NewCertPool()
				roots.AddCert(server.Certificate())
				o.TLS = &tls.Config{RootCAs: roots}
			}
			t.Cleanup(server.Close)
			u, _ := url.Parse(server.URL)
			sink, came := newSink(), make(chan string, 3)
			sink.react = func(frame string) { came <- frame }
			l := streamable.New(streamable.Options{
				URL: u, Client: httpguard.NewClient(&o), Sink: sink, Go: sys.Go, Name: "x",
				WhenReadable: func(owner string, conn syscall.Conn, within time.Duration, ready func()) (streamable.Wait, bool) {
					w := sys.NewReadWait(owner, conn, ready)
					ok := w.BeginWithin(within)
					parked <- ok
					if !ok {
						t.Error("the system does not wait for the connection")
					}
					return w, ok
				},
			})
			l.Speak(mcp.V2025_11_25)
			l.ListenGET()
			for range 3 {
				<-came
			}
			l.Close()
		})
	}
}
