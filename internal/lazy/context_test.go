package lazy_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/lazy"
)

var errWhy, errLater = errors.New("why"), errors.New("later")

type key struct{}

// What a context is asked for before its end changes nothing of how it ends.
func TestEnd(t *testing.T) {
	looks := map[string]func(context.Context){
		"nothing": func(context.Context) {},
		"done":    func(ctx context.Context) { ctx.Done() },
		"cause":   func(ctx context.Context) { _ = context.Cause(ctx) },
		"value":   func(ctx context.Context) { ctx.Value(key{}) },
	}
	parents := map[string]func(*testing.T) (context.Context, func(error)){
		"no parent": func(*testing.T) (context.Context, func(error)) { return nil, nil },
		"cancel":    func(*testing.T) (context.Context, func(error)) { return withCancel(context.Background()) },
		"lazy":      func(*testing.T) (context.Context, func(error)) { c := new(lazy.Context); return c, c.End },
		"value of lazy": func(*testing.T) (context.Context, func(error)) {
			c := new(lazy.Context)
			return context.WithValue(c, key{}, 1), c.End
		},
	}
	for look, ask := range looks {
		for name, make := range parents {
			t.Run(look+"/"+name, func(t *testing.T) {
				parent, end := make(t)
				c := &lazy.Context{Parent: parent}
				ask(c)
				if c.Err() != nil || context.Cause(c) != nil {
					t.Fatalf("before the end: %v, %v", c.Err(), context.Cause(c))
				}
				c.End(errWhy)
				c.End(errLater)
				ended(t, c, errWhy)
				if parent == nil {
					return
				}
				c = &lazy.Context{Parent: parent}
				ask(c)
				end(errWhy)
				ended(t, c, errWhy)
				c.End(errLater)
				ended(t, c, errWhy)
			})
		}
	}
}

func withCancel(parent context.Context) (context.Context, func(error)) {
	ctx, cancel := context.WithCancelCause(parent)
	return ctx, cancel
}

func ended(t *testing.T, ctx context.Context, why error) {
	t.Helper()
	if err := ctx.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("Err: got %v", err)
	}
	if got := context.Cause(ctx); got != why {
		t.Errorf("Cause: got %v, want %v", got, why)
	}
	select {
	case <-ctx.Done():
	default:
		t.Error("Done is open after the end")
	}
}

// Contexts that come from one end with it, and with its cause.
func TestChildren(t *testing.T) {
	c := new(lazy.Context)
	child, cancel := context.WithTimeout(context.WithValue(c, key{}, 1), time.Hour)
	defer cancel()
	grandchild := &lazy.Context{Parent: child}
	if _, ok := grandchild.Deadline(); !ok || grandchild.Value(key{}) != 1 {
		t.Error("a deadline or a value of the parent is lost")
	}
	after := make(chan struct{})
	context.AfterFunc(grandchild, func() { close(after) })
	c.End(errWhy)
	<-after
	ended(t, child, errWhy)
	ended(t, grandchild, errWhy)
	late, cancel := context.WithCancel(c)
	defer cancel()
	ended(t, late, errWhy)
}

// The end of a parent by its deadline is no cancel.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c := &lazy.Context{Parent: parent}
		<-c.Done()
		if c.End(errLater); c.Err() != context.DeadlineExceeded || context.Cause(c) != context.DeadlineExceeded {
			t.Errorf("got %v, %v", c.Err(), context.Cause(c))
		}
		c = &lazy.Context{Parent: parent}
		if c.End(errLater); c.Err() != context.DeadlineExceeded {
			t.Errorf("ended before it was asked: got %v", c.Err())
		}
	})
}

// Whoever sees the end sees its cause.
func TestConcurrentEnd(t *testing.T) {
	for range 50 {
		c := new(lazy.Context)
		child := &lazy.Context{Parent: c}
		var wg sync.WaitGroup
		for _, ctx := range []context.Context{c, child} {
			wg.Go(func() {
				for ctx.Err() == nil {
					_ = ctx.Value(key{})
				}
				if context.Cause(ctx) != errWhy {
					t.Error("the end has another cause")
				}
			})
			wg.Go(func() {
				if <-ctx.Done(); context.Cause(ctx) != errWhy {
					t.Error("the end of Done has another cause")
				}
			})
		}
		wg.Go(func() { c.End(errWhy) })
		wg.Wait()
		child.End(errLater)
		ended(t, child, errWhy)
	}
}

func TestOnEnd(t *testing.T) {
	c, calls := new(lazy.Context), 0
	last := func() { calls++ }
	if !c.OnEnd(last) || c.OnEnd(last) {
		t.Error("there is room for one function")
	}
	if !c.Forget() || c.Forget() || !c.OnEnd(last) {
		t.Error("the function is taken back once")
	}
	c.End(nil)
	c.End(nil)
	if calls != 1 || c.OnEnd(last) || c.Forget() {
		t.Errorf("called %d times, or taken after the end", calls)
	}
	if child := (&lazy.Context{Parent: t.Context()}); child.OnEnd(last) {
		t.Error("a context that may end with its parent has taken a function")
	}
}

// One that nothing waits for costs nothing.
func TestAllocations(t *testing.T) {
	type work struct {
		ctx, inside lazy.Context
	}
	if n := testing.AllocsPerRun(100, func() {
		w := new(work)
		w.inside.Parent = &w.ctx
		if w.inside.Err() == nil {
			w.inside.End(nil)
		}
		w.ctx.End(errWhy)
	}); n > 1 {
		t.Errorf("got %v allocations", n)
	}
}
