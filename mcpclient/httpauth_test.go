package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// tokens are what a server accepts, and what a helper gives out.
type tokens struct {
	mu    sync.Mutex
	good  string
	given string
	asked int
}

func (k *tokens) set(good, given string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.good, k.given = good, given
}

func (k *tokens) times() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked
}

func (k *tokens) headers(context.Context) (map[string]string, error) {
	time.Sleep(10 * time.Millisecond) // a helper takes its time
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked++
	return map[string]string{"Authorization": "Bearer " + k.given}, nil
}

// guarded lets in who has the token of now; the rest gets two challenges.
func (k *tokens) guarded(next func(http.ResponseWriter, *posted)) func(http.ResponseWriter, *posted) {
	return func(w http.ResponseWriter, r *posted) {
		k.mu.Lock()
		good := r.Header.Get("Authorization") == "Bearer "+k.good
		k.mu.Unlock()
		if !good {
			w.Header().Add("Www-Authenticate", `Bearer realm="a, b"`)
			w.Header().Add("Www-Authenticate", `DPoP algs="ES256"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next(w, r)
	}
}

// A 401 asks HeadersFunc once more, and the refused request is sent again: POST (AUTH-04).
// Many that are refused at once ask once. Headers that are refused again are an error
// with the challenges as they came.
func TestHeadersAreRenewed(t *testing.T) {
	for era, web := range map[string]func(func(http.ResponseWriter, *posted)) func(http.ResponseWriter, *posted){"legacy": legacyWeb, "modern": modernWeb} {
		t.Run(era, func(t *testing.T) {
			keys := &tokens{good: "one-secret", given: "one-secret"}
			webBubble(t, keys.guarded(web(okWeb)), func(t *testing.T, s *webServer, opts *Options) {
				srv := webAt("/mcp")
				srv.HeadersFunc, srv.Headers = keys.headers, map[string]string{"X-Static": "1"}
				c, err := Dial(t.Context(), srv, opts)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				call := func() error {
					_, err := c.CallTool(t.Context(), "t", nil, nil)
					return err
				}
				if err := call(); err != nil || keys.times() != 1 {
					t.Fatalf("the first call: got %v, asked %d times", err, keys.times())
				}
				keys.set("two-secret", "two-secret")
				var all sync.WaitGroup
				for range 20 {
					all.Go(func() {
						if err := call(); err != nil {
							t.Errorf("a call after the token has changed: got %v", err)
						}
					})
				}
				all.Wait()
				if n := keys.times(); n != 2 {
					t.Errorf("asked %d times, want once more", n)
				}
				for _, r := range s.all() {
					if r.Header.Get("X-Static") != "1" || r.HTTP == "POST" && r.Header.Get("Content-Type") != "application/json" {
						t.Errorf("%s: %v", r.Method, r.Header)
					}
				}
				time.Sleep(time.Minute)
				s.forget()
				keys.set("three", "still-wrong")
				err = call()
				denied, ok := errors.AsType[*AuthRequiredError](err)
				if !ok || !slices.Equal(denied.Challenges, []string{`Bearer realm="a, b"`, `DPoP algs="ES256"`}) || strings.Contains(err.Error(), "still-wrong") {
					t.Errorf("refused for good: got %v, %+v", err, denied)
				}
				if n := len(s.all()); n != 2 || keys.times() != 3 {
					t.Errorf("%d requests and asked %d times, want 2 and 3", n, keys.times())
				}
				_ = call() // at once: the helper is left alone
				if keys.times() != 3 {
					t.Errorf("asked %d times, want 3", keys.times())
				}
				time.Sleep(time.Minute)
				keys.set("three", "three")
				if err := call(); err != nil || c.Status().Generation != 1 {
					t.Errorf("once the helper knows: got %v in generation %d", err, c.Status().Generation)
				}
			})
		})
	}
}

// The event stream of a legacy session: a 401 renews the headers and opens it again, and
// while that does not help the status says so, as for a 403 (SHL-20). The DELETE that ends
// the session is authorized too (SHL-53).
func TestEventStreamIsAuthorized(t *testing.T) {
	keys := &tokens{good: "one", given: "one"}
	var mu sync.Mutex
	opened, ended, status := 0, 0, 0
	answer := keys.guarded(func(w http.ResponseWriter, r *posted) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.HTTP == "GET" && status != 0:
			w.WriteHeader(status)
		case r.HTTP == "GET":
			opened++
			sayStream(w)
			mu.Unlock()
			select {
			case <-r.Ctx.Done():
			case <-time.After(time.Minute): // the server cuts it
			}
			mu.Lock()
		case r.HTTP == "DELETE":
			ended++
		default:
			legacyWeb(okWeb)(w, r)
		}
	})
	webBubble(t, answer, func(t *testing.T, s *webServer, opts *Options) {
		var log syncBuilder
		opts.Logger = logTo(&log)
		srv := webAt("/mcp")
		srv.HeadersFunc = keys.headers
		c, err := Dial(t.Context(), srv, opts)
		if err != nil {
			t.Fatal(err)
		}
		look := func(when string, opens, times int, warned bool) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if opened != opens || keys.times() != times || len(c.Status().Warnings) > 0 != warned {
				t.Errorf("%s: opened %d times, asked %d times, warnings %q; want %d, %d, %v", when, opened, keys.times(), c.Status().Warnings, opens, times, warned)
			}
		}
		time.Sleep(time.Second)
		look("at first", 1, 1, false)
		keys.set("two", "two")
		time.Sleep(65 * time.Second)
		look("after a 401", 2, 2, false)
		keys.set("three", "two")
		time.Sleep(65 * time.Second)
		mu.Lock()
		n := opened
		mu.Unlock()
		if w := c.Status().Warnings; n != 2 || len(w) != 1 || !strings.Contains(w[0], "401") && !strings.Contains(w[0], "authorization") {
			t.Errorf("while it is refused: opened %d times, warnings %q", n, w)
		}
		time.Sleep(time.Hour)
		if gets := strings.Count(s.seen(), "GET"); gets > 60 {
			t.Errorf("%d GETs in an hour", gets)
		}
		keys.set("three", "three")
		time.Sleep(10 * time.Minute)
		if w := c.Status().Warnings; len(w) != 0 {
			t.Errorf("once the token is good again: warnings %q", w)
		}
		mu.Lock()
		status = 403
		mu.Unlock()
		time.Sleep(10 * time.Minute)
		if w := c.Status().Warnings; len(w) != 1 || !strings.Contains(w[0], "refuses access") {
			t.Errorf("after a 403: warnings %q", w)
		}
		if n := strings.Count(log.String(), "refuses its event stream"); n != 2 {
			t.Errorf("%d log entries, want 2:\n%s", n, log.String())
		}
		keys.set("four", "four")
		c.Close()
		mu.Lock()
		defer mu.Unlock()
		if ended != 1 {
			t.Errorf("the session was ended %d times", ended)
		}
	})
}

// A stream of an answer that broke is taken up again with new headers (SHL-41).
func TestResumeIsAuthorized(t *testing.T) {
	keys := &tokens{good: "one", given: "one"}
	answer := keys.guarded(func(w http.ResponseWriter, r *posted) {
		switch {
		case r.Method == mcp.MethodCallTool:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "id: 1\nretry: 10\ndata:\n\n")
			keys.set("two", "two")
		case r.HTTP == "GET" && r.Header.Get("Last-Event-Id") == "1":
			sayStream(w, `{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`, `{"jsonrpc":"2.0","id":3,"result":{"content":[]}}`)
		default:
			legacyWeb(okWeb)(w, r)
		}
	})
	webBubble(t, answer, func(t *testing.T, _ *webServer, opts *Options) {
		srv := webAt("/mcp")
		srv.HeadersFunc = keys.headers
		c, err := Dial(t.Context(), srv, opts)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.CallTool(t.Context(), "t", nil, nil); err != nil || keys.times() != 2 {
			t.Errorf("CallTool: got %v, asked %d times", err, keys.times())
		}
	})
}

// guardedOld is a server of HTTP+SSE that wants a token.
func (k *tokens) guardedOld() func(http.ResponseWriter, *posted) {
	var mu sync.Mutex
	var to http.ResponseWriter
	return k.guarded(func(w http.ResponseWriter, r *posted) {
		if r.HTTP == "GET" {
			mu.Lock()
			to = w
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: endpoint\ndata: /messages\n\n")
			w.(http.Flusher).Flush()
			mu.Unlock()
			<-r.Ctx.Done()
			return
		}
		w.WriteHeader(202)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.Method == mcp.MethodInitialize:
			sayStream(to, handshakeOf(r.ID))
		case r.Kind == mcp.KindRequest:
			sayStream(to, `{"jsonrpc":"2.0","id":`+r.ID.String()+`,"result":{"content":[],"tools":[]}}`)
		}
	})
}

// HTTP+SSE: its stream and its POSTs (SSE-02, SSE-03).
func TestOldTransportIsAuthorized(t *testing.T) {
	keys := &tokens{good: "two", given: "one"}
	webBubble(t, keys.guardedOld(), func(t *testing.T, _ *webServer, opts *Options) {
		srv := webAt("/sse")
		srv.Transport = TransportSSE
		srv.HeadersFunc = func(ctx context.Context) (map[string]string, error) {
			h, err := keys.headers(ctx)
			keys.set(keys.good, keys.good) // from the second time on
			return h, err
		}
		c, err := Dial(t.Context(), srv, opts)
		if err != nil || keys.times() != 2 {
			t.Fatalf("Dial: got %v, asked %d times", err, keys.times())
		}
		defer c.Close()
		time.Sleep(time.Minute)
		keys.set("three", "three")
		if _, err := c.CallTool(t.Context(), "t", nil, nil); err != nil || keys.times() != 3 {
			t.Errorf("CallTool: got %v, asked %d times", err, keys.times())
		}
	})
}

// patientPerson is an Authorizer whose person logs in after a minute.
type patientPerson struct {
	keys  *tokens
	asked atomic.Int32
}

func (p *patientPerson) For(*Server) (Auth, error) { return p, nil }

func (p *patientPerson) Authorize(_ context.Context, req *http.Request) error {
	p.keys.mu.Lock()
	defer p.keys.mu.Unlock()
	req.Header.Set("Authorization", "Bearer "+p.keys.given)
	return nil
}

func (p *patientPerson) Denied(context.Context, *http.Request, int, http.Header) (bool, error) {
	return false, &loginError{p}
}

type loginError struct{ *patientPerson }

func (e *loginError) Error() string { return "a person has to log in" }

func (e *loginError) Wait(resume func(error)) (leave func()) {
	e.asked.Add(1)
	timer := time.AfterFunc(time.Minute, func() {
		e.keys.mu.Lock()
		e.keys.given = e.keys.good
		e.keys.mu.Unlock()
		resume(nil)
	})
	return func() { timer.Stop() }
}

// HTTP+SSE: a handshake and a call that are refused until a person logs in wait for that, and are
// made again, as over Streamable HTTP (AUTH-22, SSE-03).
func TestOldTransportWaitsForLogin(t *testing.T) {
	p := &patientPerson{keys: &tokens{good: "one", given: "none"}}
	webBubble(t, p.keys.guardedOld(), func(t *testing.T, _ *webServer, opts *Options) {
		srv := webAt("/sse")
		srv.Transport = TransportSSE
		opts.Authorizer = p
		c, err := Dial(t.Context(), srv, opts)
		if err != nil || p.asked.Load() == 0 {
			t.Fatalf("Dial: got %v, asked %d times", err, p.asked.Load())
		}
		defer c.Close()
		synctest.Wait() // the connection and Dial wait for a login each, and both have gone on
		p.asked.Store(0)
		p.keys.set("two", "one")
		begun := time.Now()
		if _, err := c.CallTool(t.Context(), "t", nil, nil); err != nil || p.asked.Load() != 1 || time.Since(begun) < time.Minute {
			t.Errorf("CallTool: got %v after %v, asked %d times", err, time.Since(begun), p.asked.Load())
		}
	})
}
