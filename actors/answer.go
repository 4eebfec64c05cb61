package actors

import (
	"context"
	"runtime/debug"
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
	t.from = c
	c.begin(&t.Task)
	c.self.p.sys.run(c.self.p, func() { t.begin(work) })
	return t.Cancel
}

// AfterDone has f called when ctx ends, unless stop is called before, which reports whether it
// prevents that. It is [context.AfterFunc], but for the context of a task it takes
// neither memory nor a goroutine: f is called where the context ends, and must not block.
func AfterDone(ctx context.Context, f func()) (stop func() bool) {
	if c, ok := ctx.(*taskContext); ok && c.OnEnd(f) {
		return c.Forget
	}
	return context.AfterFunc(ctx, f)
}

// question is work whose answer is awaited.
type question[T any] struct {
	Task
	done     func(T, error) any
	answered atomic.Bool
}

func (t *question[T]) begin(work func(context.Context, func(T, error))) {
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
	t.Cancel(nil)
	t.from.self.Send(&t.Task)
}
