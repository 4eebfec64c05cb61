package elicit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/actors/elicit"
	"github.com/troupe-dev/troupe/mcp"
)

// errNeeded is what the server answers until somebody has visited its page (URL-40).
var errNeeded = &mcp.Error{Code: -32042, Message: "visit a page"}

// page is a server whose tools want a page visited; each call is named after its page.
type page struct {
	sink mcp.Sink

	mu      sync.Mutex
	visited map[string]bool
	sent    int
}

func (p *page) Close() error { return nil }

func (p *page) Send(m mcp.Outgoing) error {
	if m.Kind != mcp.KindRequest {
		return nil
	}
	p.mu.Lock()
	p.sent++
	visited := p.visited[m.Name]
	p.mu.Unlock()
	if visited {
		p.sink.Frame(mcp.AppendResult(nil, m.ID, []byte(`{}`)))
	} else {
		p.sink.Frame(mcp.AppendError(nil, m.ID, errNeeded))
	}
	return nil
}

// visit makes the server content with calls for id, and lets it say so.
func (p *page) visit(table *elicit.Table, id string) {
	p.mu.Lock()
	p.visited[id] = true
	p.mu.Unlock()
	table.Complete(id)
}

func (p *page) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent
}

// request is a call that waits for the page of its name.
func request(table *elicit.Table, id string) *call.Request {
	return &call.Request{Method: mcp.MethodCallTool, Name: id, Follow: func(a call.Answer) call.Step {
		if !errors.Is(a.Err, errNeeded) {
			return call.Step{}
		}
		return call.Step{Wait: func(resume func(call.Step)) func(error) {
			p, err := table.Open(id)
			if err != nil {
				resume(call.Step{Outcome: &call.Outcome{Err: err}})
				return nil
			}
			abort := p.Wait(func(err error) {
				if err != nil {
					resume(call.Step{Outcome: &call.Outcome{Err: err}})
				} else {
					resume(call.Step{Retry: &call.Retry{}})
				}
			})
			return func(error) { abort() }
		}}
	}}
}

// waiting is a table with calls that wait for the pages "a" and "b".
type waiting struct {
	*elicit.Table
	conn    *conn.Conn
	page    *page
	sys     *actors.System
	replies map[string][]*call.Call
}

func newWaiting(t *testing.T, each int, trace func(actors.TraceEvent)) *waiting {
	t.Helper()
	sys, err := actors.NewSystem(&actors.Options{Trace: trace})
	if err != nil {
		t.Fatal(err)
	}
	w := &waiting{sys: sys, page: &page{visited: map[string]bool{}}, replies: map[string][]*call.Call{}}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := sys.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if n := sys.Census().Live(); n != 0 {
			t.Errorf("actors left: %+v", sys.Census().Actors)
		}
	})
	w.conn = conn.New(sys, conn.Options{
		Name: "peer",
		Dial: func(_ context.Context, _ uint64, sink mcp.Sink) (mcp.Link, error) {
			w.page.sink = sink
			return w.page, nil
		},
		Negotiate: func(_ context.Context, s *conn.Session) error {
			s.Agree(mcp.V2025_11_25, nil)
			return nil
		},
	})
	w.Table = elicit.New(w.conn.SpawnChild, elicit.Options{})
	if err := w.conn.StartConnect(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range each {
		for _, id := range []string{"a", "b"} {
			w.replies[id] = append(w.replies[id], w.conn.Begin(request(w.Table, id), nil))
		}
	}
	synctest.Wait()
	return w
}

func (w *waiting) want(t *testing.T, id string, done bool, want error) {
	t.Helper()
	for i, r := range w.replies[id] {
		_, err := r.Result()
		if r.Completed() != done || !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("call %d for %q: done %v with %v, want %v with %v", i, id, r.Completed(), err, done, want)
		}
	}
}

// URL-41: all calls that wait for a page are sent again when it was visited; a kill
// or panic of the actor that stands for it ends exactly the calls that wait for it.
func TestCallsThatWait(t *testing.T) {
	ends := map[string]func(w *waiting, p *elicit.Pending) error{
		"kill":   func(_ *waiting, p *elicit.Pending) error { p.Ref().Stop(); return elicit.ErrFailed },
		"panic":  func(_ *waiting, p *elicit.Pending) error { p.Ref().Send(blowUp{}); return elicit.ErrFailed },
		"cancel": func(_ *waiting, p *elicit.Pending) error { p.Cancel(nil); return elicit.ErrCancelled },
		"expiry": func(*waiting, *elicit.Pending) error { time.Sleep(time.Hour); return elicit.ErrExpired },
		"retry": func(w *waiting, p *elicit.Pending) error { // URL-17: the server knows, but did not say so
			w.page.mu.Lock()
			w.page.visited["a"] = true
			w.page.mu.Unlock()
			p.Retry()
			return nil
		},
		"lost connection": func(w *waiting, p *elicit.Pending) error { // survives it
			w.page.sink.Lost(nil)
			time.Sleep(time.Minute)
			w.page.visit(w.Table, "a")
			return nil
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWaiting(t, 5, func(ev actors.TraceEvent) {
					if _, ok := ev.Message.(blowUp); ok {
						panic("injected")
					}
				})
				if w.Len() != 2 || w.page.count() != 10 || w.sys.Census().Live(actors.KindElicitation) != 2 {
					t.Fatalf("%d pending and %d requests, want 2 and 10", w.Len(), w.page.count())
				}
				if name != "expiry" {
					w.want(t, "a", false, nil)
				}
				want := end(w, w.Pending("a"))
				synctest.Wait()
				w.want(t, "a", true, want)
				if name == "expiry" {
					return
				}
				w.want(t, "b", false, nil)
				w.page.visit(w.Table, "b")
				synctest.Wait()
				w.want(t, "b", true, nil)
				if n := w.sys.Census().Live(actors.KindElicitation); n != 0 || w.Len() != 0 {
					t.Errorf("left: %d actors, %d pending", n, w.Len())
				}
			})
		})
	}
}

type blowUp struct{}

// The whole way of a call through a page is messages, in order.
func TestTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracer := &actors.Tracer{Keep: func(ev actors.TraceEvent) bool {
			switch ev.Message.(type) {
			case actors.Started, actors.Stopping:
				return false
			}
			return ev.Actor.Kind() == actors.KindCall || ev.Actor.Kind() == actors.KindElicitation
		}}
		w := newWaiting(t, 0, tracer.Record)
		reply := w.conn.Begin(request(w.Table, "a"), nil)
		synctest.Wait()
		time.Sleep(30 * time.Minute) // TIME-05: the call's clocks stand still
		w.page.visit(w.Table, "a")
		synctest.Wait()
		if _, err := reply.Result(); !reply.Completed() || err != nil {
			t.Errorf("outcome: %v, %v", reply.Completed(), err)
		}
		want := []string{
			"call begin", "call response", "elicitation open", "elicitation completed",
			"call resumed", "call followed", "call response",
		}
		if got := tracer.Lines(); !slices.Equal(got, want) {
			t.Errorf("got  %v\nwant %v", strings.Join(got, ", "), strings.Join(want, ", "))
		}
	})
}

// Pages that are visited, given up and completed twice or too early, over a server
// that forgets: each call has one outcome, and nothing is left.
func TestChaos(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting(t, 0, nil)
		var wg sync.WaitGroup
		outcomes := make([]error, 400)
		for i := range outcomes {
			id := fmt.Sprint(i % 50)
			wg.Go(func() {
				time.Sleep(time.Duration(i%7) * time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(20+i%90)*time.Second)
				defer cancel()
				_, outcomes[i] = w.conn.Do(ctx, request(w.Table, id))
			})
			wg.Go(func() {
				time.Sleep(time.Duration(i%61) * time.Second)
				p := w.Pending(id)
				switch {
				case i%3 == 0:
					w.page.visit(w.Table, id)
				case p == nil:
					w.Complete(id)
				case i%3 == 1:
					p.Retry()
				case i%6 == 2:
					p.Ref().Stop()
				default:
					p.Cancel(nil)
				}
			})
		}
		wg.Wait()
		kinds := map[string]int{}
		for i, err := range outcomes {
			switch {
			case err == nil:
				kinds["result"]++
			case errors.Is(err, elicit.ErrCancelled), errors.Is(err, elicit.ErrFailed):
				kinds["given up"]++
			case errors.Is(err, context.DeadlineExceeded):
				kinds["left"]++
			case errors.Is(err, call.ErrTooManyAttempts):
				kinds["endless"]++
			default:
				t.Errorf("call %d: %v", i, err)
			}
		}
		t.Log(kinds)
		if kinds["result"] == 0 || kinds["given up"] == 0 {
			t.Errorf("got %v, want some of each kind", kinds)
		}
		time.Sleep(2 * time.Hour)
		if n := w.sys.Census().Live(actors.KindElicitation, actors.KindCall); n != 0 || w.Len() != 0 || w.conn.Stats().Pending != 0 {
			t.Errorf("left: %d actors, %d pending, %+v", n, w.Len(), w.conn.Stats())
		}
	})
}
