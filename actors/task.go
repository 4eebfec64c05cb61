package actors

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/troupe-dev/troupe/internal/lazy"
)

// PanicError is a panic in a task.
type PanicError struct {
	Value any
	Stack []byte
}

// Error shows a value that is neither an error nor text by its type only, as
// [Failure.Error] does.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", shown(e.Value)) }

// Unwrap returns the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Panicked reports whether err is a panic, of a task ([PanicError]) or an actor ([Failure]).
func Panicked(err error) bool {
	if _, ok := errors.AsType[*Failure](err); ok {
		return true
	}
	_, ok := errors.AsType[*PanicError](err)
	return ok
}

// Guard runs f; a panic in it comes back as a [PanicError].
func Guard[T any](f func() (T, error)) (value T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &PanicError{Value: r, Stack: debug.Stack()}
		}
	}()
	return f()
}

// Task is work that an actor awaits. It is part of a [Work], brings what that has made to the
// incarnation that started it, and stands for it until then.
type Task struct {
	Node
	ctx  taskContext
	from *Context
	work Work  // nil once it has ended, and of AwaitAnswer
	msg  any   // nil if there is nothing to deliver
	err  error // a panic in the function that makes msg

	waits bool // it is expected to wait longer than it works
	fresh bool // its goroutine is one of its own

	next, prev *Task // in the list of the incarnation's tasks
}

// Cancel ends the context of the work.
func (t *Task) Cancel(cause error) { t.ctx.End(cause) }

func (t *Task) task() *Task { return t }

// Work is what [AwaitWork] does, with all that it needs and makes in one piece of memory: a pointer to
// a struct that embeds [Task].
type Work interface {
	// Run is work as that of [Await].
	Run(ctx context.Context) error
	// Ended makes a message of what Run returned, as done of Await.
	Ended(err error) any

	task() *Task
}

// scope is a context that ends with an incarnation. The tasks of Await have contexts
// of their own: as children of this one each would leave a map and a channel in it.
type scope struct {
	ctx context.Context
	end context.CancelCauseFunc
}

// begin takes a task into the incarnation's list.
func (c *Context) begin(t *Task) {
	if c.over {
		t.Cancel(ErrStopped)
		return
	}
	if t.next = c.tasks; t.next != nil {
		t.next.prev = t
	}
	c.tasks = t
}

// ended takes it out.
func (c *Context) ended(t *Task) {
	if t.next != nil {
		t.next.prev = t.prev
	}
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		c.tasks = t.next
	}
	t.next, t.prev = nil, nil
}

// Await runs work outside of the mailbox and sends what done makes of its result
// to the actor; nil sends nothing. The context of work ends with the actor's
// incarnation, and with the function that is returned; work must heed it. After a
// restart or stop the result is dropped. done runs on the task's goroutine, once
// work has returned, panicked ([PanicError]) or ended its goroutine; a panic in
// it is a failure of the actor, which would wait in vain.
func Await[T any](c *Context, work func(context.Context) (T, error), done func(T, error) any) (cancel context.CancelCauseFunc) {
	return await(c, false, &closures[T]{work: work, done: done}).Cancel
}

// AwaitWork is [Await] for work that has its memory already, and is expected to wait longer than it works: there may be
// thousands of it, and beyond 128 at once each has a fresh goroutine, whose stack is as small as the work lets it be.
// The goroutines of other tasks have had to grow before, which few need to do again.
func AwaitWork(c *Context, w Work) *Task { return await(c, true, w) }

func await(c *Context, waits bool, w Work) *Task {
	t := w.task()
	t.from, t.work, t.waits = c, w, waits
	c.begin(t)
	p := c.self.p
	p.sys.tasks.begin(p)
	t.fresh = p.sys.isFresh(waits)
	p.box.begin(t)
	return t
}

// CancelTask ends the work of [Await], [AwaitWork] or [AwaitAnswer] that ctx was given to, or comes from
// one that was: it does what the function that these return does, for the work itself. It
// reports false if ctx is of no such work.
func CancelTask(ctx context.Context, cause error) bool {
	task, ok := ctx.Value(taskKey{}).(*taskContext)
	if ok {
		task.End(cause)
	}
	return ok
}

// taskContext is the context of a task, by which it can be ended.
type taskContext struct{ lazy.Context }

type taskKey struct{}

// Value implements context.Context.
func (c *taskContext) Value(key any) any {
	if key == (taskKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// closures is the work of Await. What it works with is here and not on its stack, which
// others wait on, too.
type closures[T any] struct {
	Task
	work  func(context.Context) (T, error)
	done  func(T, error) any
	value T
}

// Run implements [Work].
func (w *closures[T]) Run(ctx context.Context) (err error) {
	w.value, err = w.work(ctx)
	return err
}

// Ended implements [Work].
func (w *closures[T]) Ended(err error) any {
	defer w.forget()
	return w.done(w.value, err)
}

// forget drops what the function that ends the work need not hold.
func (w *closures[T]) forget() {
	var none T
	w.work, w.done, w.value = nil, nil, none
}

// run implements runner: the worker goes on with the actor, if that is idle.
func (t *Task) run() (then runner) {
	p := t.from.self.p
	defer p.sys.taskEnded(p, t.waits) // also where the function at its end exits
	t.err = errGoexit
	defer t.over(&then)
	t.err = t.work.Run(&t.ctx)
	return nil
}

// over is deferred: work has returned, panicked or ended its goroutine.
func (t *Task) over(then *runner) {
	err := t.err
	if r := recover(); r != nil {
		err = &PanicError{Value: r, Stack: debug.Stack()}
	}
	t.msg, t.err = Guard(func() (any, error) { return t.work.Ended(err), nil })
	t.Cancel(nil)
	t.work = nil
	if t.fresh || err == errGoexit { // its stack is small, or it ends
		t.from.self.Send(t)
	} else {
		*then = t.from.self.post(t)
	}
}

// Go runs work outside of the mailbox; it is [Await] for work without a result.
// A panic in it is logged.
func (c *Context) Go(work func(ctx context.Context)) {
	ctx := c.Work()
	c.self.p.sys.run(c.self.p, func() { work(ctx) })
}

// Work returns the context of the actor's tasks: it ends with the incarnation,
// its cause being the failure or [ErrStopped].
func (c *Context) Work() context.Context {
	if c.work == nil {
		ctx, end := context.WithCancelCause(context.Background())
		c.work = &scope{ctx, end}
		if c.over {
			end(ErrStopped)
		}
	}
	return c.work.ctx
}

// Go runs f on a goroutine of the system. Owner names who answers for its end:
// it is what [System.Shutdown] reports if f does not return. A panic in f is
// logged with its stack. After Shutdown f still runs, but Shutdown does not wait for it.
func (s *System) Go(owner string, f func()) { s.run(owner, f) }

// run runs f for owner, a text or a process.
func (s *System) run(owner any, f func()) { s.runJob(owner, job{runner: function(f)}) }

func (s *System) runJob(owner any, j job) { s.workers.run(s.begin(owner, j)) }

// begin makes a job a task of owner.
func (s *System) begin(owner any, j job) job {
	s.tasks.begin(owner)
	j.system, j.owner, j.fresh = s, owner, s.isFresh(j.waits)
	return j
}

// isFresh counts a task that is expected to wait, and reports whether it is to have a fresh goroutine.
func (s *System) isFresh(waits bool) bool { return waits && s.waits.Add(1) > maxIdleWorkers }

// taskEnded counts a task of owner out.
func (s *System) taskEnded(owner any, waits bool) {
	if waits {
		s.waits.Add(-1)
	}
	s.tasks.end(owner)
}

// GoBlocking is [System.Go] for what is expected to wait longer than it works: see
// [AwaitWork].
func (s *System) GoBlocking(owner string, f func()) {
	s.runJob(owner, job{runner: function(f), waits: true})
}

// Go runs f as [System.Go] does, and the actor answers for its end. The zero Ref
// panics.
func (r Ref) Go(f func()) { r.p.sys.run(r.p, f) }

func (s *System) endTask(j *job) {
	if r := recover(); r != nil {
		err := &PanicError{Value: r, Stack: debug.Stack()}
		s.log.Error("a task panicked", "owner", ownerName(j.owner), "error", err, "stack", string(err.Stack))
	}
	s.taskEnded(j.owner, j.waits)
}

func ownerName(owner any) string {
	if p, ok := owner.(*process); ok {
		return p.path()
	}
	name, _ := owner.(string)
	return name
}
