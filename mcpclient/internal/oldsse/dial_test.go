package oldsse

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcpclient/internal/httpguard"
)

// SSE-02, SSE-04, ROB-6, SECA-22, SEC-10
func TestEndpoint(t *testing.T) {
	tests := []struct{ stream, said, want string }{
		{"http://a/sse", "/messages?s=1", "http://a/messages?s=1"},
		{"http://a/x/sse?y", "messages?s=1", "http://a/x/messages?s=1"},
		{"http://a/sse", "?s=1", "http://a/sse?s=1"},
		{"http://a/sse", "http://a/m", "http://a/m"},
		{"http://a/sse", "http://A:80/m", "http://A:80/m"},
		{"http://a/sse", "//a/m", "http://a/m"},
		{"http://a/sse", "/m#frag", "http://a/m"},
		{"https://a:8443/sse", "https://a:8443/m", "https://a:8443/m"},
		{"unix:///s.sock#/sse", "/m?s=1", "unix:///s.sock#/m?s=1"},
		{"unix:///s.sock#/x/sse", "m", "unix:///s.sock#/x/m"},
		{"unix:///s.sock", "http://localhost/m", "unix:///s.sock#/m"},
		{"http://a/sse", "", ""},
		{"http://a/sse", "http://b/m", ""},
		{"http://a/sse", "http://a.b/m", ""},
		{"http://a/sse", "http://a:81/m", ""},
		{"http://a/sse", "https://a/m", ""},
		{"https://a/sse", "http://a/m", ""},
		{"http://a/sse", "//b/m", ""},
		{"http://a/sse", "///b/m", "http://a///b/m"},
		{"http://a/sse", "\\\\b\\m", "http://a/%5C%5Cb%5Cm"},
		{"http://a/sse", "http://a@b/m", ""},
		{"http://a/sse", "http://user@a/m", ""},
		{"http://a/sse", "http://u:p@a/m", ""},
		{"http://a/sse", "file:///etc/passwd", ""},
		{"http://a/sse", "javascript:alert(1)", ""},
		{"http://a/sse", "unix:///s.sock#/m", ""},
		{"http://a/sse", "http://a/\r\nX: y", ""},
		{"http://a/sse", "http://%61/m", ""},
		{"http://a/sse", "/" + strings.Repeat("x", 10_000), ""},
		{"http://localhost/sse", "http://127.0.0.1/m", ""},
		{"unix:///s.sock#/sse", "http://evil/m", ""},
		{"unix:///s.sock#/sse", "unix:///other.sock#/m", ""},
		{"unix:///s.sock#/sse", "https://localhost/m", ""},
		{"unix:///s.sock#/sse", "//evil/m", ""},
	}
	for _, tt := range tests {
		stream, err := url.Parse(tt.stream)
		if err != nil {
			t.Fatal(err)
		}
		u, err := endpoint(stream, tt.said)
		got := ""
		if err == nil {
			got = u.String()
		}
		if got != tt.want || (err != nil) != (tt.want == "") || err != nil && !errors.Is(err, ErrEndpoint) {
			t.Errorf("endpoint(%s, %.60q): got %q, %v, want %q", tt.stream, tt.said, got, err, tt.want)
		}
	}
}

func FuzzEndpoint(f *testing.F) {
	f.Add("http://a/sse", "/messages?s=1")
	f.Add("unix:///a#/b", "//x/y")
	f.Add("https://[::1]/", "https://[::1]:443/%2f")
	f.Fuzz(func(t *testing.T, stream, said string) {
		base, err := httpguard.ParseURL(stream)
		if err != nil {
			return
		}
		u, err := endpoint(base, said)
		if err != nil {
			return
		}
		again, err := httpguard.ParseURL(u.String())
		if err != nil || !httpguard.SameOrigin(base, again) {
			t.Errorf("endpoint(%q, %q): got %q, %v, which is elsewhere", stream, said, u, err)
		}
	})
}

// SECA-22, ROB-6: no other server gets anything, whatever the stream says.
func TestEndpointElsewhere(t *testing.T) {
	var other atomic.Int32
	evil := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { other.Add(1) }))
	defer evil.Close()
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/redirected":
			http.Redirect(w, r, evil.URL, http.StatusTemporaryRedirect)
		case r.Method == http.MethodPost:
			http.Redirect(w, r, evil.URL+"/m", http.StatusTemporaryRedirect)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			said := evil.URL + "/m?session=" + key
			if r.URL.Path == "/good" {
				said = "/m?session=" + key
			}
			w.Write([]byte("event: endpoint\ndata: " + said + "\n\n"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	defer home.Close()
	client := httpguard.NewClient(nil)
	defer client.CloseIdleConnections()
	for path, want := range map[string]bool{"/": false, "/redirected": false, "/good": true} {
		u, _ := url.Parse(home.URL + path)
		s := new(sink)
		var tasks sync.WaitGroup
		l, err := Dial(t.Context(), Options{
			URL: u, Client: client, Sink: s, Go: func(_ string, f func()) { tasks.Go(f) },
			Header: http.Header{"Authorization": {"Bearer canary"}},
		})
		if (err == nil) != want {
			t.Errorf("Dial %s: got %v, want success: %v", path, err, want)
		}
		if err != nil {
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("Dial %s: the error holds a secret: %v", path, err)
			}
			continue
		}
		l.Send(ask(1)) // is redirected
		l.Close()
		tasks.Wait()
		_, failed, _ := s.all()
		if _, ok := errors.AsType[*httpguard.RedirectError](failed["1"]); !ok || strings.Contains(failed["1"].Error(), "canary") {
			t.Errorf("a POST that is redirected: got %v, want a RedirectError", failed["1"])
		}
	}
	if n := other.Load(); n > 0 {
		t.Errorf("the other server got %d requests, want none", n)
	}
}

// SSE-10: what is no event stream is told apart.
func TestDialRefused(t *testing.T) {
	denied := errors.New("denied")
	stream := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			w.Write([]byte(text))
		}
	}
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   error
	}{
		{"404", http.NotFound, ErrNoStream},
		{"405", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(405) }, ErrNoStream},
		{"401", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", "Bearer canary-token")
			w.WriteHeader(401)
		}, denied},
		{"403", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, denied},
		{"202", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202) }, ErrNoStream},
		{"HTML", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) }, ErrNoStream},
		{"JSON", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Write([]byte("{}"))
		}, ErrNoStream},
		{"an empty stream", stream(""), ErrEndpoint},
		{"a cut endpoint", stream(begin[:len(begin)-1]), ErrEndpoint},
		{"a message first", stream("data: {}\n\n" + begin), ErrEndpoint},
		{"an empty endpoint", stream("event: endpoint\ndata:\n\n"), ErrEndpoint},
		{"many other events", stream(strings.Repeat("event: x\ndata: y\n\n", 1000)), ErrEndpoint},
		{"unknown encoding", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			stream(begin)(w, r)
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := dialHandler(t, tt.answer, func(o *Options) {
					o.Denied = func(_ int, _ []string, challenge string, err error) error {
						return errors.Join(denied, errors.New(challenge), err)
					}
				})
				if k.err == nil || tt.want != nil && !errors.Is(k.err, tt.want) {
					t.Errorf("got %v, want %v", k.err, tt.want)
				}
			})
		})
	}
}

// dialHandler is dial to any handler.
func dialHandler(t *testing.T, h http.Handler, change func(*Options)) *kit {
	t.Helper()
	return dial(t, new(server), func(o *Options) {
		o.Client = serve(t, h)
		if change != nil {
			change(o)
		}
	})
}

// ROB-8, slow loris and half-open: every wait has an end.
func TestDialTakesTooLong(t *testing.T) {
	tests := map[string]func(w *writer){
		"no header":    nil,
		"no event":     func(w *writer) { w.say(""); w.wait() },
		"half a line":  func(w *writer) { w.say("event: endp"); w.wait() },
		"half":         func(w *writer) { w.say(begin[:len(begin)-1]); w.wait() },
		"only comment": func(w *writer) { drip(w, ": x\n\n") },
		"slow loris":   func(w *writer) { drip(w, begin) },
	}
	for name, get := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{get: get}
				var h http.Handler = s
				if get == nil {
					h = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
				}
				start := time.Now()
				k := dialHandler(t, h, nil)
				if d := time.Since(start); d > defaultEndpoint+time.Second || !errors.Is(k.err, ErrEndpoint) {
					t.Errorf("got %v after %v, want ErrEndpoint after %v", k.err, d, defaultEndpoint)
				}
			})
		})
	}
}

// drip says one byte a second, again and again.
func drip(w *writer, s string) {
	for i := 0; w.ctx.Err() == nil; i++ {
		if w.say(s[i%len(s):i%len(s)+1]) != nil {
			return
		}
		select {
		case <-time.After(time.Second):
		case <-w.ctx.Done():
		}
	}
}

func TestDialCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		var tasks sync.WaitGroup
		u, _ := url.Parse("http://server.test/")
		silent := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		_, err := Dial(ctx, Options{URL: u, Client: silent, Sink: new(sink), Go: func(_ string, f func()) { tasks.Go(f) }})
		if !errors.Is(err, why) {
			t.Errorf("got %v, want the cause %v", err, why)
		}
		tasks.Wait()
	})
}

// The link lives on when the context of Dial ends.
func TestContextOfDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := new(server)
		sink := new(sink)
		var tasks sync.WaitGroup
		u, _ := url.Parse("http://server.test/")
		l, err := Dial(ctx, Options{URL: u, Client: serve(t, s), Sink: sink, Go: func(_ string, f func()) { tasks.Go(f) }})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(time.Hour)
		l.Send(ask(1))
		synctest.Wait()
		if _, failed, lost := sink.all(); len(failed)+len(lost) > 0 || len(s.posts()) != 1 {
			t.Errorf("got failed %v, lost %v, %d posts", failed, lost, len(s.posts()))
		}
		l.Close()
		tasks.Wait()
	})
}

// A redirect at home moves what a relative endpoint is relative to.
func TestDialRedirected(t *testing.T) {
	var got atomic.Value
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			got.Store(r.URL.Path)
		case r.URL.Path == "/sse":
			http.Redirect(w, r, "/v2/sse", http.StatusPermanentRedirect)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			w.Write([]byte("event: endpoint\ndata: messages\n\n"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	defer home.Close()
	client := httpguard.NewClient(nil)
	defer client.CloseIdleConnections()
	u, _ := url.Parse(home.URL + "/sse")
	var tasks sync.WaitGroup
	l, err := Dial(t.Context(), Options{URL: u, Client: client, Sink: new(sink), Go: func(_ string, f func()) { tasks.Go(f) }})
	if err != nil {
		t.Fatal(err)
	}
	l.Send(ask(1))
	l.Close()
	tasks.Wait()
	if got.Load() != "/v2/messages" {
		t.Errorf("the POST went to %v, want /v2/messages", got.Load())
	}
}
