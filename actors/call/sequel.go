package call

import (
	"context"
	"errors"
	"sync"

	"github.com/troupe-dev/troupe/actors"
)

// sequel is what comes of a call that nobody waits for: its progress and then its
// outcome, in order and one at a time, on goroutines of the system.
type sequel struct {
	done  func(Result, error)
	leave func() bool // the context is not watched any more

	mu      sync.Mutex
	running bool // somebody tells
	news    bool // there is more than was told
	ended   bool // the reply has the outcome
}

// goCall is a call with what [Table.Go] needs for it.
type goCall struct {
	Call
	own    actors.Reply[Result]
	sequel sequel
}

// Go carries out a request that nobody waits for: thousands may be under way, none of
// which holds a goroutine. Done is called once, on a goroutine of the system, and so is
// OnProgress, before it. When ctx ends the call is cancelled, and the error is the cause
// of ctx. The request is the table's from now on. A panic in OnProgress ends the call and
// is its error, an [*actors.PanicError].
func (t *Table) Go(ctx context.Context, req *Request, done func(Result, error)) {
	g := &goCall{Call: Call{table: t, req: req}, sequel: sequel{done: done}}
	c := &g.Call
	c.reply, c.then = &g.own, &g.sequel
	if req.OnProgress != nil {
		c.progress = new(progressQueue)
	}
	c.then.leave = actors.AfterDone(ctx, func() { c.Cancel(context.Cause(ctx)) })
	if ctx.Err() != nil {
		c.complete(Result{}, context.Cause(ctx))
		return
	}
	t.start(c)
}

// complete gives the call its outcome, if it has none.
func (c *Call) complete(result Result, err error) {
	if c.reply.Complete(result, err) && c.then != nil {
		c.then.wake(c, true)
	}
}

// wake has somebody tell what there is.
func (s *sequel) wake(c *Call, ended bool) {
	s.mu.Lock()
	s.news, s.ended = true, s.ended || ended
	idle := !s.running
	s.running = true
	s.mu.Unlock()
	if idle {
		c.table.sys.Go("the outcome of a call", func() { s.tell(c) })
	}
}

// tell tells until there is nothing more.
func (s *sequel) tell(c *Call) {
	told := false
	defer func() {
		if !told { // its caller's function has ended the goroutine
			c.Cancel(errGoexit)
			s.mu.Lock()
			s.running = false
			s.mu.Unlock()
			s.wake(c, false)
		}
	}()
	for {
		s.mu.Lock()
		s.news = false
		ended := s.ended
		s.mu.Unlock()
		if _, err := actors.Guard(func() (struct{}, error) { c.progress.drain(c.req); return struct{}{}, nil }); err != nil {
			c.Cancel(err)
		}
		s.mu.Lock()
		if !ended && !s.news {
			s.running, told = false, true
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		if ended { // it runs on, for all others
			told = true
			s.leave()
			s.done(c.reply.Result())
			return
		}
	}
}

var errGoexit = errors.New("OnProgress ended its goroutine")
