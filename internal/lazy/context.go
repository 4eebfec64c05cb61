// Package lazy has a context for work that is done often and seldom waits: its channel, and its place
// among the contexts of package context, are made once something asks for them.
package lazy

import (
	"context"
	"sync"
	"time"
)

// Context is a context that is ended by [Context.End], and with its parent. It is part of what uses
// it, and must not be copied. Its zero value has no parent.
type Context struct {
	Parent context.Context // nil for none; set before the first use

	mu    sync.Mutex
	over  bool
	cause error
	last  func()          // called at the end; nil for nothing
	whole context.Context // what this one stands for; nil before it is needed
	end   context.CancelCauseFunc
}

var _ context.Context = (*Context)(nil)

// asked is a context that has ended, and notes for which value it is asked.
type asked struct {
	context.Context
	key any
}

func (*asked) Err() error { return context.Canceled }

func (a *asked) Value(key any) any {
	a.key = key
	return nil
}

// inner is the key by which package context finds its own contexts in others.
var inner = func() any {
	a := asked{Context: context.Background()}
	_ = context.Cause(&a)
	return a.key
}()

// Deadline implements [context.Context].
func (c *Context) Deadline() (deadline time.Time, ok bool) {
	if c.Parent == nil {
		return deadline, false
	}
	return c.Parent.Deadline()
}

// Done implements [context.Context].
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all().Done()
}

// Err implements [context.Context].
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.whole != nil:
		return c.whole.Err()
	case c.over:
		return context.Canceled
	case c.Parent != nil:
		return c.Parent.Err()
	}
	return nil
}

// Value implements [context.Context].
func (c *Context) Value(key any) any {
	if key == inner {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.all().Value(key)
	}
	if c.Parent == nil {
		return nil
	}
	return c.Parent.Value(key)
}

// all makes the context that this one stands for. It is called under the lock.
func (c *Context) all() context.Context {
	if c.whole == nil {
		parent := c.Parent
		if parent == nil {
			parent = context.Background()
		}
		c.whole, c.end = context.WithCancelCause(parent)
		if c.over {
			c.end(c.cause)
		}
	}
	return c.whole
}

// End ends the context. The first end counts, as with [context.CancelCauseFunc].
func (c *Context) End(cause error) {
	if last := c.close(cause); last != nil {
		last()
	}
}

func (c *Context) close(cause error) (last func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil
	}
	if c.Parent != nil && c.Parent.Err() != nil {
		c.all() // which has ended with it
	}
	if last, c.last = c.last, nil; c.whole != nil {
		c.end(cause) // under the lock: who sees the end sees its cause
	}
	c.over, c.cause = true, cause
	return last
}

// OnEnd has last called by the end, on the goroutine of that, and reports whether it will be: there
// can be one such function, in a context without a parent that has not ended.
func (c *Context) OnEnd(last func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.last != nil || c.Parent != nil {
		return false
	}
	c.last = last
	return true
}

// Forget takes the function of OnEnd back, and reports whether it was there.
func (c *Context) Forget() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	had := c.last != nil
	c.last = nil
	return had
}
