package actors

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// AwaitAnswer is [Await] for work that does not keep a goroutine while it waits: work
// begins something and returns, and answer is called at its end, on any goroutine. The
// first answer counts; done is called on its goroutine. The context ends with the
// incarnation, with the function that is returned, and with the answer. Work that
// panics or ends its goroutine before there is an answer has given one by that; work
// that only returns has promised that answer will be called.
func AwaitAnswer[T any](c *Context, work func(ctx context.Context, answer func(T, error)), done func(T, error) any) (cancel context.CancelCauseFunc) {
	t := &question[T]{done: done}
	t.ctx.taskContext.Context, t.ctx.taskContext.cancel = context.WithCancelCause(context.Background())
	t.taskDone = taskDone{from: c, cancel: t.ctx.end}
	c.begin(&t.taskDone)
	c.self.p.sys.run(c.self.p, func() { t.run(work) })
	return t.cancel
}

// AfterDone has f called when ctx ends, unless stop is called before, which reports whether it
// prevents that. It is [context.AfterFunc], but for a context of [AwaitAnswer] it takes
// neither memory nor a goroutine: f is called where the context ends, and must not block.
func AfterDone(ctx context.Context, f func()) (stop func() bool) {
	if c, ok := ctx.(*answerContext); ok && c.onEnd(f) {
		return c.forget
	}
	return context.AfterFunc(ctx, f)
}

// answerContext is the context of a question. It keeps one function to be called at its
// end; for more there is the context in it.
type answerContext struct {
	taskContext
	mu   sync.Mutex
	over bool
	last func() // nil if there is none
}

// Value implements context.Context.
func (c *answerContext) Value(key any) any {
	if key == (taskKey{}) {
		return context.CancelCauseFunc(c.end)
	}
	return c.taskContext.Value(key)
}

func (c *answerContext) onEnd(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.last != nil {
		return false
	}
	c.last = f
	return true
}

func (c *answerContext) forget() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	had := c.last != nil
	c.last = nil
	return had
}

func (c *answerContext) end(cause error) {
	c.cancel(cause)
	c.mu.Lock()
	last := c.last
	c.over, c.last = true, nil
	c.mu.Unlock()
	if last != nil {
		last()
	}
}

// question is work whose answer is awaited.
type question[T any] struct {
	taskDone
	ctx      answerContext
	done     func(T, error) any
	answered atomic.Bool
}

func (t *question[T]) run(work func(context.Context, func(T, error))) {
	var none T
	begun := false
	defer func() {
		if r := recover(); r != nil {
			t.answer(none, &PanicError{Value: r, Stack: debug.Stack()})
		} else if !begun {
			t.answer(none, errGoexit)
		}
	}()
	work(&t.ctx, t.answer)
	begun = true
}

// answer brings the first answer to the actor.
func (t *question[T]) answer(value T, err error) {
	if !t.answered.CompareAndSwap(false, true) {
		return
	}
	t.msg, t.err = Guard(func() (any, error) { return t.done(value, err), nil })
	t.done = nil
	t.ctx.end(nil)
	t.from.self.Send(&t.taskDone)
}
