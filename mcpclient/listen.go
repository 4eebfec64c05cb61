package mcpclient

import (
	"context"
	"errors"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/watch"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/capability"
	"github.com/troupe-dev/troupe/mcpclient/internal/listening"
	"github.com/troupe-dev/troupe/mcpclient/internal/resource"
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

// Listen asks a server of 2026-07-28 to tell of changes, and waits until it agrees
// or refuses. What it does not agree to is in [NoticeAcknowledged]; that is to be
// found out by asking. A stream that breaks is opened again, and [NoticeMissed] then
// says that notices may have been lost. F is called with one notice after the other
// and may block; when it is too slow notices are dropped, as with
// [Options].OnToolsChanged. Earlier servers have [Client.Subscribe] only, and tell
// of their lists by themselves.
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
		c.events().Add(func() { f(noticeOf(&n)) })
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

// Subscribe asks the server to tell when a resource changes, in whatever way its
// revision has, and waits until it agrees. F is called with the URI that changed,
// which may lie below uri, and also when changes may have been missed: after a
// reconnect the server is asked again. F may block; when it is too slow calls are
// dropped, as with [Options].OnToolsChanged.
func (c *Client) Subscribe(ctx context.Context, uri string, f func(uri string)) (*Subscription, error) {
	info, err := c.Info(ctx)
	if err != nil {
		return nil, err
	}
	if err := resource.CheckURI(uri); err != nil {
		return nil, c.failed(mcp.MethodSubscribe, err)
	}
	if missing := capability.Missing(mcp.MethodSubscribe, info.Version, &info.Capabilities); missing != "" {
		return nil, c.failed(mcp.MethodSubscribe, &UnsupportedError{Method: mcp.MethodSubscribe, Capability: missing, Version: info.Version})
	}
	s := new(Subscription)
	tell := func(uri string) { c.events().Add(func() { f(uri) }) }
	if info.Era == mcp.EraModern {
		return c.changes.subscribe(ctx, s, &listening.Resource{URI: uri, Updated: tell, Accepted: func() { s.ready.Complete(struct{}{}, nil) }, Ended: s.end})
	}
	ended := func(err error) { s.end(c.failed(mcp.MethodSubscribe, err)) }
	if s.stop, err = c.watching().Subscriptions.Add(ctx, uri, tell, ended); err != nil {
		return nil, c.failed(mcp.MethodSubscribe, err)
	}
	return s, nil
}

// subscribe listens for a resource, and waits until the server agrees.
func (c changes) subscribe(ctx context.Context, s *Subscription, r *listening.Resource) (*Subscription, error) {
	remove, err := c.watching().Keeper.Add(r)
	if err != nil {
		return s, c.failed(mcp.MethodListen, err)
	}
	s.stop = remove
	if _, err := s.ready.Wait(ctx); err != nil {
		remove()
		return s, err
	}
	return s, nil
}

// wantFresh says that the program uses a list, and wants it fresh from here on: changes
// are listened for if the server announces them, and the program wants to hear of
// them.
func (c changes) wantFresh(method string) {
	info := c.info.Load()
	if info == nil || info.Era != mcp.EraModern || c.opts.NoListen {
		return
	}
	c.watching().Keeper.Want(method, &info.Capabilities)
}
