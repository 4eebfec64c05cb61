// subscription.go: the actor that keeps one subscription to notices.
//
//	            acknowledged               result, cancelled by the server, refused
//	opening ─────────────────▶ listening ─────────────────────────────────────────▶ (stopped)
//	   ▲ ▲                       │  │ set: a second stream takes over
//	   │ └───────────────────────│──┘ once it is acknowledged
//	   │ due                     │ broken
//	   └──────── pausing ◀───────┘

package watch

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// subscription is touched by its own goroutine only.
type subscription struct {
	listen *Listen

	current, next *stream // acknowledged; not yet. Both may be nil
	retry         *actors.Timer
	broken        int  // in a row
	missed        bool // a stream broke that had been acknowledged
}

// maxRefusals bounds how often in a row a server may refuse with an error that need
// not come again.
const maxRefusals = 5

// Messages.
type (
	set         struct{} // Listen.wish is another one
	closeWanted struct{}
	acked       struct {
		stream   *stream
		accepted mcp.SubscriptionFilter
	}
	heard struct {
		stream *stream
		notice Notice
	}
	streamEnded struct {
		stream *stream
		err    error
	}
	retryDue struct{}
)

var errReplaced = errors.New("another subscription has taken its place")

// Receive implements [actors.Actor].
func (a *subscription) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		a.retry = c.NewTimer(retryDue{})
		self := c.Self()
		a.listen.ref.Store(&self)
		if a.listen.closed.Load() || a.listen.over.Completed() {
			c.Stop()
		} else {
			a.open(c)
		}
	case closeWanted:
		c.Stop()
	case set:
		if a.next != nil {
			a.drop(a.next)
			a.next = nil
			a.open(c)
		} else if a.current != nil {
			a.open(c)
		} // else it is asked for after the pause
	case *acked:
		a.acknowledged(m)
	case *heard:
		a.heard(m)
	case *streamEnded:
		a.ended(c, m)
	case retryDue:
		if a.next == nil {
			a.open(c)
		}
	}
}

// open sends a request whose answer is the end of the subscription. It has no time
// limit (SUB-12, TIME-04), and is not sent again by the connection: what was
// missed has to be told.
func (a *subscription) open(c *actors.Context) {
	st := &stream{listen: a.listen, filter: *a.listen.wish.Load()}
	a.next = st
	do := a.listen.table.opts.Do
	params, err := mcp.Marshal(&mcp.ListenParams{Notifications: &st.filter})
	if err != nil {
		a.stop(c, err)
		return
	}
	req := &call.Request{Method: mcp.MethodListen, Params: params, Idle: -1, Max: -1, Tag: st}
	st.cancel = actors.Await(c, func(ctx context.Context) (struct{}, error) {
		_, err := do(ctx, req)
		return struct{}{}, err
	}, func(_ struct{}, err error) any { return &streamEnded{st, err} })
}

// drop closes a stream of which nothing more is wanted (SUB-07).
func (a *subscription) drop(st *stream) {
	a.listen.table.forget(func(other *stream) bool { return other == st })
	st.cancel(errReplaced)
}

func (a *subscription) acknowledged(m *acked) {
	st := m.stream
	if st != a.next {
		return // given up meanwhile, or acknowledged already
	}
	if a.current != nil {
		a.drop(a.current)
	}
	a.current, a.next = st, nil
	st.accepted, st.acked, st.since = m.accepted, true, time.Now()
	a.listen.notify(Notice{Kind: Acknowledged, Accepted: m.accepted, Missing: without(&st.filter, &m.accepted)})
	if a.missed {
		a.missed = false
		a.listen.notify(Notice{Kind: Missed})
	}
}

func (a *subscription) heard(m *heard) {
	m.stream.queued.Add(-1)
	if m.stream != a.current {
		return
	}
	if announces(&m.stream.accepted, &m.notice) { // SUB-04
		a.listen.notify(m.notice)
	}
	if m.stream.dropped.Swap(false) {
		a.listen.notify(Notice{Kind: Missed})
	}
}

// ended is told when the request of a stream has its outcome.
func (a *subscription) ended(c *actors.Context, m *streamEnded) {
	st, opts := m.stream, a.listen.table.opts
	opts.Logger.Debug("a subscription's stream has ended", "acknowledged", st.acked, "error", m.err)
	a.listen.table.forget(func(other *stream) bool { return other == st })
	switch st {
	case a.current:
		a.current = nil
		a.missed = true
		if time.Since(st.since) >= opts.Stable {
			a.broken = 0
		}
	case a.next:
		a.next = nil
	default:
		return // it was dropped
	}
	switch refused := refusal(m.err); {
	case a.next != nil: // another is on its way already
	case m.err == nil, errors.Is(m.err, errEndedByPeer): // the response, the notice, or both (SUB-08)
		a.stop(c, nil)
	case refused && (final(m.err) || a.broken+1 >= maxRefusals), errors.Is(m.err, call.ErrClosed), opts.Permanent(m.err):
		a.stop(c, m.err)
	default: // if there is a stream with an older filter, it goes on meanwhile
		a.pause()
	}
}

// refusal reports whether the server, or what stands before it, has answered the
// request with an error.
func refusal(err error) bool {
	if e, ok := errors.AsType[*call.TransportError](err); ok {
		return e.Status >= 400 && e.Status < 500
	}
	_, ok := errors.AsType[*mcp.Error](err)
	return ok
}

// final reports whether a refusal will come again.
func final(err error) bool {
	if e, ok := errors.AsType[*call.TransportError](err); ok {
		return e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed
	}
	return slices.ContainsFunc([]*mcp.Error{
		mcp.ErrMethodNotFound, mcp.ErrInvalidParams, mcp.ErrInvalidRequest, mcp.ErrMissingClientCapability, mcp.ErrUnsupportedVersion,
	}, func(e *mcp.Error) bool { return errors.Is(err, e) })
}

// pause waits before the next stream, longer each time (SUB-09).
func (a *subscription) pause() {
	o := a.listen.table.opts
	d := min(o.MinBackoff<<min(a.broken, 20), o.MaxBackoff)
	a.broken++
	a.retry.Set(d - time.Duration(rand.Int64N(int64(d/4)+1)))
}

// stop ends the subscription for good.
func (a *subscription) stop(c *actors.Context, err error) {
	a.listen.end(err)
	c.Stop()
}

// announces reports whether a notice is of a kind that was agreed on.
func announces(f *mcp.SubscriptionFilter, n *Notice) bool {
	switch n.Kind {
	case ToolsChanged:
		return f.ToolsListChanged
	case PromptsChanged:
		return f.PromptsListChanged
	case ResourcesChanged:
		return f.ResourcesListChanged
	case ResourceUpdated:
		return slices.ContainsFunc(f.ResourceSubscriptions, func(uri string) bool { return covers(uri, n.URI) })
	case TaskChanged:
		return slices.Contains(f.TaskIDs, n.Task.ID)
	}
	return false
}
