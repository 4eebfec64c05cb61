package mcpclient

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/watch"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/listening"
)

// Notice is one thing that a [Subscription] tells.
type Notice struct {
	Kind NoticeKind
	URI  string // of the resource; may lie below the one that was subscribed to
	Task *TaskState
	// Accepted is what the server announces, Missing what it was asked for and does not.
	Accepted, Missing mcp.SubscriptionFilter
	Err               error
}

func noticeOf(n *watch.Notice) Notice {
	out := Notice{Kind: NoticeKind(n.Kind), URI: n.URI, Accepted: n.Accepted, Missing: n.Missing, Err: n.Err}
	if n.Task != nil {
		task := stateOf(n.Task)
		out.Task = &task
	}
	return out
}

// NoticeKind says what a [Notice] tells.
type NoticeKind uint8

// The kinds of notices.
const (
	NoticeAcknowledged     = NoticeKind(watch.Acknowledged)     // what the server agreed to: Accepted and Missing
	NoticeToolsChanged     = NoticeKind(watch.ToolsChanged)     //
	NoticePromptsChanged   = NoticeKind(watch.PromptsChanged)   //
	NoticeResourcesChanged = NoticeKind(watch.ResourcesChanged) //
	NoticeResourceUpdated  = NoticeKind(watch.ResourceUpdated)  // URI
	NoticeTaskChanged      = NoticeKind(watch.TaskChanged)      // Task
	NoticeMissed           = NoticeKind(watch.Missed)           // everything may have changed
	NoticeEnded            = NoticeKind(watch.Ended)            // the last; Err is nil if the server ended it in order
)

// String returns the kind in words.
func (k NoticeKind) String() string { return watch.NoticeKind(k).String() }

// watching returns what is watched; it is made when it is first needed, as most servers
// have nothing to watch.
func (c *Client) watching() *listening.Watching {
	if w := c.watches.Load(); w != nil {
		return w
	}
	c.watches.CompareAndSwap(nil, listening.New(listening.Options{ // another may have been quicker
		Conn: c.conn, Cache: &c.cache, Do: c.changes.watchDo, Log: c.log, Closed: ErrClosed,
		Answer: func(ctx context.Context, t *watch.Task, requests mcp.InputRequests) (mcp.InputResponses, error) {
			return c.questions.asks.AnswerInputs(ctx, t.Tag(), requests)
		},
		Cancels:     func() bool { return c.era() == mcp.EraModern || c.changes.coreTasks().Cancel },
		OnServed:    c.changes.servedChanged,
		NotAccepted: func(uri string) error { return c.failed(mcp.MethodListen, errNotAccepted(uri)) },
		Failed:      func(err error) error { return c.failed(mcp.MethodListen, err) },
	}))
	return c.watches.Load()
}

// watchDo carries out a request of something that watches.
func (c changes) watchDo(ctx context.Context, req *call.Request) (call.Result, error) {
	req.Meta = c.requests.traced(ctx, req.Meta)
	return c.conn.Do(ctx, req)
}

// Subscription is a wish to be told of changes, until it is closed or ends by itself.
// Its methods may be used from any goroutine.
type Subscription struct {
	stop  func()
	over  actors.Reply[struct{}]
	ready actors.Reply[struct{}] // the server's first word
}

// Close ends the subscription. Its function may still be called for what was on the
// way. It returns nil.
func (s *Subscription) Close() error {
	s.stop()
	s.end(nil)
	return nil
}

// Done returns a channel that is closed once the subscription has ended.
func (s *Subscription) Done() <-chan struct{} { return s.over.Done() }

// Err returns why the subscription has ended by itself; nil before, after Close, and
// if the server ended it in order.
func (s *Subscription) Err() error {
	_, err := s.over.Result()
	return err
}

// end completes over first: Listen wakes up by ready, and then reads whether the subscription
// has ended already.
func (s *Subscription) end(err error) {
	s.over.Complete(struct{}{}, err)
	s.ready.Complete(struct{}{}, err)
}

// Listen asks a server of 2026-07-28 to tell of changes (SUB-01), and waits until it
// agrees or refuses. What it does not agree to is in [NoticeAcknowledged]; that is
// to be found out by asking (SUB-05). A stream that breaks is opened again, and
// [NoticeMissed] then says that notices may have been lost. F is called with one
// notice after the other and may block; when it is too slow notices are dropped, as
// with [Options].OnToolsChanged. Earlier servers have [Client.Subscribe] only, and
// tell of their lists by themselves.
func (c *Client) Listen(ctx context.Context, filter mcp.SubscriptionFilter, f func(Notice)) (*Subscription, error) {
	if err := c.requests.require(ctx, mcp.MethodListen); err != nil {
		return nil, err
	}
	s := new(Subscription)
	l := c.watching().Subscriptions.Open(filter, func(n watch.Notice) {
		c.watching().Changed(&n)
		switch n.Kind {
		case watch.Acknowledged:
			s.ready.Complete(struct{}{}, nil)
		case watch.Ended:
			s.end(c.failed(mcp.MethodListen, n.Err))
		}
		c.events.Add(func() { f(noticeOf(&n)) })
	})
	s.stop = l.Close
	if _, err := s.ready.Wait(ctx); err != nil {
		_ = s.Close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	if s.over.Completed() && s.Err() == nil {
		return nil, c.failed(mcp.MethodListen, errNotKept)
	}
	return s, nil
}

// errNotKept says that a server ended a subscription before it had agreed to it.
var errNotKept = errors.New("the server ended the subscription at once")

// errNotAccepted says that a server does not announce what it was asked for (SUB-05).
func errNotAccepted(uri string) error {
	return fmt.Errorf("%w: the server announces no changes of %.200q", ErrUnsupported, uri)
}

// servedChanged tells the server that one of its tasks has changed (TASK-14), if it
// is there to hear it.
func (c changes) servedChanged(served *watch.ServedTask) {
	t := served.Core()
	if info := c.info.Load(); info == nil || !info.Version.Has(mcp.FeatureCoreTasks) {
		return
	}
	c.sys.Go("tasks of "+c.server.Name, func() {
		raw, err := mcp.Marshal(&t)
		if err == nil {
			err = c.conn.Notify(mcp.NotificationTaskStatus, raw)
		}
		if err != nil {
			c.log.Debug("the server was not told of its task", "error", err)
		}
	})
}
