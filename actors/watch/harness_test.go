package watch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/watch"
	"github.com/troupe-dev/troupe/mcp"
)

// sent is one request that a peer got, after so much time.
type sent struct {
	at     time.Duration
	method string
	params string
}

// peer answers requests in place of a connection. Its time is that of the bubble.
type peer struct {
	t      testing.TB
	sys    *actors.System
	begun  time.Time
	answer func(ctx context.Context, req *call.Request) (string, error)

	mu   sync.Mutex
	sent []sent
	refs []actors.Ref // of what was started
}

// newPeer returns a peer in a system that is shut down, with nothing left, when the
// test ends. It is for use in a bubble.
func newPeer(t testing.TB, answer func(ctx context.Context, req *call.Request) (string, error)) *peer {
	t.Helper()
	sys, err := actors.NewSystem(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := sys.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if c := sys.Census(); c.Live() != 0 || len(c.Tasks) != 0 {
			t.Errorf("left over: %+v", c)
		}
	})
	return &peer{t: t, sys: sys, begun: time.Now(), answer: answer}
}

// do carries out a request as a connection does.
func (p *peer) do(ctx context.Context, req *call.Request) (call.Result, error) {
	p.mu.Lock()
	p.sent = append(p.sent, sent{time.Since(p.begun), req.Method, string(req.Params)})
	answer := p.answer
	p.mu.Unlock()
	type outcome struct {
		text string
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		text, err := answer(ctx, req)
		done <- outcome{text, err}
	}()
	var timeout <-chan time.Time
	if req.Max > 0 {
		timeout = time.After(req.Max)
	}
	select {
	case out := <-done:
		return call.Result{Raw: json.RawMessage(out.text)}, out.err
	case <-ctx.Done():
		return call.Result{}, context.Cause(ctx)
	case <-timeout:
		return call.Result{}, &call.TimeoutError{Method: req.Method, After: req.Max}
	}
}

func (p *peer) spawn(spec actors.Spec, then func(actors.Ref, error)) {
	ref, err := p.sys.Spawn(spec)
	p.mu.Lock()
	p.refs = append(p.refs, ref)
	p.mu.Unlock()
	then(ref, err)
}

// methods returns what was asked for, in short.
func (p *peer) methods() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, s := range p.sent {
		out = append(out, strings.TrimPrefix(s.method, "tasks/"))
	}
	return strings.Join(out, " ")
}

// times returns when a method was asked for.
func (p *peer) times(method string) []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []time.Duration
	for _, s := range p.sent {
		if s.method == method {
			out = append(out, s.at)
		}
	}
	return out
}

func (p *peer) tasks(change func(*watch.Options)) *watch.Tasks {
	o := watch.Options{Do: p.do, Spawn: p.spawn}
	if change != nil {
		change(&o)
	}
	return watch.NewTasks(o)
}

// never is an answer that does not come.
func never(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "", context.Cause(ctx)
}

// core is a core task, extension one of the extension; more is what it has beside.
func core(status, more string) string {
	return fmt.Sprintf(`{"taskId":"t1","status":%q,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":60000,"pollInterval":1000%s}`, status, more)
}

func extension(status, more string) string {
	return fmt.Sprintf(`{"resultType":"complete","taskId":"t1","status":%q,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":60000,"pollIntervalMs":1000%s}`, status, more)
}

// seed is what a task was created with.
func seed(t testing.TB, g watch.Generation, status string) *watch.State {
	t.Helper()
	if g == watch.Core {
		s, err := g.Decode([]byte(core(status, "")))
		if err != nil {
			t.Fatal(err)
		}
		return &s
	}
	return &watch.State{ID: "t1", Status: status, TTL: time.Minute, Poll: time.Second}
}

// waiting is a waiter whose outcome can be looked at.
type waiting struct {
	watch.Waiter
	done chan call.Outcome
}

func newWaiter() *waiting {
	w := &waiting{done: make(chan call.Outcome, 10)}
	w.Resume = func(out call.Outcome) { w.done <- out }
	return w
}

// outcome waits for it, an hour at most.
func (w *waiting) outcome(t testing.TB) call.Outcome {
	t.Helper()
	select {
	case out := <-w.done:
		return out
	case <-time.After(time.Hour):
		t.Fatal("no outcome within an hour")
		return call.Outcome{}
	}
}

// watched lets a new waiter wait for t1.
func watched(t testing.TB, ts *watch.Tasks, g watch.Generation, s *watch.State) (*waiting, func(), *watch.Task) {
	t.Helper()
	w := newWaiter()
	task, leave, err := ts.Watch(g, "t1", s, "tag", &w.Waiter)
	if err != nil {
		t.Fatalf("Watch: %v", err)
	}
	return w, leave, task
}

var errCut = errors.New("cut")

func invalid() error { return mcp.Errorf(mcp.CodeInvalidParams, "no such task") }
