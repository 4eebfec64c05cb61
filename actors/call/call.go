package call

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
)

// maxSends bounds how often one attempt is sent again and again for lost
// connections, maxAttempts how often a call is sent at all, and how often in a row
// it waits without being sent.
const (
	maxSends    = 3
	maxAttempts = 64
)

// Call is one logical request under way, and the handle of who began it: what belongs
// to the request and not to the actor that works on it. Its address is its identity, so
// that nothing meant for it can reach the next request of the same actor.
type Call struct {
	table *Table
	req   *Request
	reply actors.Reply[Result]
	begin begin // sent once

	answer response // the first answer; nearly always the only one

	progress   *progressQueue // nil unless its caller takes progress
	completion *completion    // nil unless there is a function to call with the outcome
	cancelled  atomic.Bool    // Cancel was called
	wire       atomic.Int32   // what became of the newest attempt, see wireState
	holds      atomic.Int32   // how many keep its clocks still

	// Guarded by the table's lock.
	actor      *actor // that works on it; nil before and after
	attempt    int32  // how often it was given an id
	answered   bool   // answer is in use
	begun      bool   // its actor knows of it, or will before anything else reaches it
	follows    bool   // what it waits to send is not what it had sent
	prepared   bool   // its request's Before was called, or is about to be
	id         int64  // of the newest attempt; 0 when it awaits no answer
	token      int64  // that attempt's progress token
	in         *queue // that it stands in, nil if in none
	prev, next *Call
	giveUp     *cancel // it was cancelled before begun
	more       *more   // nil for most; set by its actor
}

// more is what only a call needs that is held, lost or retried.
type more struct {
	// Guarded by the table's lock.
	retry *Retry // what takes the place of the request's parts; nil at first
	notOn uint64 // the generation that it is not sent on; 0 if it may be on any

	// Its actor's alone.
	wait  *wait         // what it waits for between two attempts; nil for nothing
	next  *Retry        // what it goes on with after pause; nil when parked
	pause time.Duration // when it goes on by itself, 0 for never
	since time.Duration // when its clocks were stopped
}

// wait is one Wait of a call. Its address is its identity.
type wait struct {
	clocks bool
	token  bool        // progress is still taken
	called atomic.Bool // resume was
	result Result      // the answer before it
	err    error
	abort  func(error)
}

// Cancel ends the call with cause unless it has its outcome already, and
// withdraws it from the wire. It does not wait. Nil is [context.Canceled].
func (c *Call) Cancel(cause error) {
	if cause == nil {
		cause = context.Canceled
	}
	if c.cancelled.CompareAndSwap(false, true) {
		c.giveUpWith(&cancel{call: c, cause: cause})
	}
}

// Done returns a channel that is closed when the call has its outcome.
func (c *Call) Done() <-chan struct{} { return c.reply.Done() }

// Completed reports whether the call has its outcome.
func (c *Call) Completed() bool { return c.reply.Completed() }

// Result returns the outcome; before there is one, zero values.
func (c *Call) Result() (Result, error) { return c.reply.Result() }

// Wait returns the outcome. When ctx ends before, it cancels the call, and returns
// whichever outcome comes first.
func (c *Call) Wait(ctx context.Context) (Result, error) {
	return c.WaitWithin(ctx, context.Background())
}

// WaitWithin is [Call.Wait] for a caller that has two contexts: the first to end counts.
func (c *Call) WaitWithin(ctx, outer context.Context) (Result, error) {
	if c.reply.Completed() { // answered before the frame was out: no channel is made
		c.progress.drain(c.req)
		return c.reply.Result()
	}
	done, ended, over := c.reply.Done(), ctx.Done(), outer.Done()
	if ended == over { // one channel less to wait for
		over = nil
	}
	for {
		select {
		case <-done:
			c.progress.drain(c.req)
			return c.reply.Result()
		case <-c.progress.more():
			c.progress.drain(c.req)
		case <-ended:
			c.Cancel(context.Cause(ctx))
			<-done // the actor, or its table, gives it at once
		case <-over:
			c.Cancel(context.Cause(outer))
			<-done
		}
	}
}

// reason is what the peer is told about a call that ends without an answer. It
// gives nothing of the caller's away (LOG-06).
func reason(err error) string {
	switch {
	case errors.Is(err, ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return "timed out"
	case errors.Is(err, ErrClosed):
		return "closing"
	}
	return "cancelled"
}

// giveUpWith sends the call's cancel message, or ends a call that has no actor yet.
func (c *Call) giveUpWith(m *cancel) {
	t := c.table
	t.mu.Lock()
	var ref actors.Ref
	if c.begun && c.actor != nil {
		ref = c.actor.Ref()
	}
	c.giveUp = m // its actor is told once it knows of the call
	t.mu.Unlock()
	ref.Send(m)
}

// moreLocked returns the call's more.
func (c *Call) moreLocked() *more {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	return c.needMore()
}

// needMore is called under the lock, by the call's actor.
func (c *Call) needMore() *more {
	if c.more == nil {
		c.more = new(more)
	}
	return c.more
}

// completion calls a function with the outcome of a call, and before it OnProgress: in
// order and one at a time, on goroutines of the system.
type completion struct {
	done  func(Result, error)
	leave func() bool // the context is not watched any more; nil without one

	mu      sync.Mutex // guards what follows: the call's actor writes, and a task of the system reads
	running bool       // a task runs
	news    bool       // there is more than the task has passed on
	ended   bool       // the reply has the outcome
}

// complete gives the call its outcome, if it has none.
func (c *Call) complete(result Result, err error) {
	if !c.reply.Complete(result, err) {
		return
	}
	if c.completion != nil {
		c.completion.wake(c, true)
	}
	if tag, ok := c.req.Tag.(interface{ Ended() }); ok {
		tag.Ended()
	}
}

// wake has a task pass on what there is.
func (s *completion) wake(c *Call, ended bool) {
	s.mu.Lock()
	s.news, s.ended = true, s.ended || ended
	idle := !s.running
	s.running = true
	s.mu.Unlock()
	if idle {
		c.table.sys.Go("the outcome of a call", func() { s.pass(c) })
	}
}

// pass passes on until there is nothing more.
func (s *completion) pass(c *Call) {
	returned := false
	defer func() {
		if !returned { // its caller's function has ended the goroutine
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
			s.running, returned = false, true
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		if ended { // OnProgress may end its goroutine, done too
			returned = true
			if s.leave != nil {
				s.leave()
			}
			s.done(c.reply.Result())
			return
		}
	}
}

var errGoexit = errors.New("OnProgress ended its goroutine")

// Wire states. The attempt stands in the higher bits, so that a writer that still
// holds an older attempt changes nothing.
//
//	unwritten ──claim──▶ writing ──wrote──▶ written
//	    │ withdraw          │ withdraw
//	    ▼                   ▼
//	withdrawn           recalled: its writer takes it back
const (
	unwritten int32 = iota
	writing
	written
	withdrawn
	recalled
	wireStates
)

func wireState(attempt, state int32) int32 { return attempt*wireStates + state }

// claim reports whether the attempt may be written now: once, and not after it
// was withdrawn.
func (c *Call) claim(attempt int32) bool {
	return c.wire.CompareAndSwap(wireState(attempt, unwritten), wireState(attempt, writing))
}

// wrote says that a claimed attempt was written, and reports false if the call has
// ended meanwhile, so that it is to be taken back.
func (c *Call) wrote(attempt int32) bool {
	return c.wire.CompareAndSwap(wireState(attempt, writing), wireState(attempt, written)) ||
		c.wire.Load() != wireState(attempt, recalled)
}

// unsent keeps an attempt that was not written from being written, and reports
// whether it was not.
func (c *Call) unsent(attempt int32) bool {
	if c.wire.CompareAndSwap(wireState(attempt, unwritten), wireState(attempt, withdrawn)) {
		return true
	}
	now := c.wire.Load()
	return now != wireState(attempt, written) && now != wireState(attempt, writing)
}

// beingWritten reports whether a writer has claimed the attempt and not yet said what became of it.
func (c *Call) beingWritten(attempt int32) bool { return c.wire.Load() == wireState(attempt, writing) }

// withdraw is unsent for a call that has ended: it reports whether there is
// nothing to take back from the peer, or the writer does so. The notification
// must not overtake the request (CANC-02).
func (c *Call) withdraw(attempt int32) bool {
	return c.unsent(attempt) || !cancellable(c.req) ||
		c.wire.CompareAndSwap(wireState(attempt, writing), wireState(attempt, recalled))
}

// cancellable reports whether the peer may be told that the request is withdrawn:
// never of initialize (CANC-04), and before both sides have agreed on a version
// only pings and the handshake belong on the wire (LIFE-07).
func cancellable(req *Request) bool { return !req.Early && req.Method != mcp.MethodInitialize }
