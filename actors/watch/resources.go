package watch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// resources are the subscriptions to single resources of one connection to a server
// before 2026-07-28 (RES-05), an actor each. A new session of the server has
// forgotten them, and is told again (STDIO-24, SHL-52).
type resources struct {
	opts *Options

	mu    sync.Mutex
	byURI map[string]*resource
}

// resource is one subscription, shared by all who want to hear of the resource.
type resource struct {
	table *resources
	uri   string
	ref   atomic.Pointer[actors.Ref]
	first actors.Reply[struct{}] // the server's first answer
	over  actors.Reply[struct{}]

	// Guarded by the table's lock.
	users map[*resourceUser]struct{}
	gone  bool
}

// resourceUser is one who wants to hear of a resource.
type resourceUser struct {
	updated func(uri string)
	ended   func(error) // nil if it wants to hear nothing of that
}

// Add subscribes to a resource, unless it is subscribed to already, and waits for the server
// to agree. Updated is called with the URI that changed, which may lie below the one that was
// subscribed to, and once after each new session, as changes may have been missed; ended, if set,
// once if the subscription ends by itself. They must not block. Remove takes the user away; with the
// last one the server is told.
func (rs *resources) Add(ctx context.Context, uri string, updated func(uri string), ended func(error)) (remove func(), err error) {
	u := &resourceUser{updated, ended}
	rs.mu.Lock()
	r := rs.byURI[uri]
	fresh := r == nil
	if fresh {
		r = &resource{table: rs, uri: uri, users: make(map[*resourceUser]struct{})}
		rs.byURI[uri] = r
	}
	r.users[u] = struct{}{}
	rs.mu.Unlock()
	if fresh {
		spec := actors.Spec{Kind: actors.KindSubscription, New: func() actors.Actor { return &subscriber{resource: r} }, OnStop: r.stopped}
		rs.opts.Spawn(spec, func(_ actors.Ref, err error) {
			if err != nil {
				r.end(fmt.Errorf("starting a subscription: %w", err))
			}
		})
	}
	if _, err := r.first.Wait(ctx); err != nil {
		r.remove(u)
		return nil, err
	}
	return func() { r.remove(u) }, nil
}

// remove takes one user away.
func (r *resource) remove(u *resourceUser) {
	rs := r.table
	rs.mu.Lock()
	_, there := r.users[u]
	delete(r.users, u)
	last := there && len(r.users) == 0 && !r.gone
	if last {
		r.gone = true
		if rs.byURI[r.uri] == r {
			delete(rs.byURI, r.uri)
		}
	}
	rs.mu.Unlock()
	if last {
		r.send(closeWanted{})
	}
}

func (r *resource) send(msg any) {
	if ref := r.ref.Load(); ref != nil {
		ref.Send(msg)
	}
}

// Updated passes on that a resource has changed to those who subscribed to it or
// to what it lies below, and reports whether there was one.
func (rs *resources) Updated(uri string) bool {
	rs.mu.Lock()
	var tell []*resourceUser
	for subscribed, r := range rs.byURI {
		if covers(subscribed, uri) {
			for u := range r.users {
				tell = append(tell, u)
			}
		}
	}
	rs.mu.Unlock()
	for _, u := range tell {
		u.updated(uri)
	}
	return len(tell) > 0
}

// Connected says that there is a new session, which knows of no subscription.
func (rs *resources) Connected() {
	rs.mu.Lock()
	all := make([]*resource, 0, len(rs.byURI))
	for _, r := range rs.byURI {
		all = append(all, r)
	}
	rs.mu.Unlock()
	for _, r := range all {
		r.send(renew{})
	}
}

// end is the one end of a subscription.
func (r *resource) end(err error) {
	rs := r.table
	rs.mu.Lock()
	r.gone = true
	if rs.byURI[r.uri] == r {
		delete(rs.byURI, r.uri)
	}
	users := r.users
	r.users = nil
	rs.mu.Unlock()
	r.first.Complete(struct{}{}, err)
	if !r.over.Complete(struct{}{}, err) {
		return
	}
	for u := range users {
		if u.ended != nil {
			u.ended(err)
		}
	}
}

func (r *resource) stopped(failure error) { r.end(errors.Join(ErrFailed, failure)) }

// subscriber keeps one subscription.
//
//	             agreed              new session
//	subscribing ────────▶ subscribed ───────────▶ subscribing
//	   │    ▲ due              │ no user is left
//	   │    └─ pausing         ├─ unsubscribe ──▶ (stopped)
//	   └ refused ──────────────┴────────────────▶ (stopped)
type subscriber struct {
	resource *resource
	retry    *actors.Timer
	asking   bool // resources/subscribe is out
	again    bool // and there is another session meanwhile
	agreed   bool // once at least
	broken   int
}

// Messages.
type (
	renew      struct{}
	subscribed struct{ err error }
)

// Receive implements [actors.Actor].
func (a *subscriber) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		a.retry = c.NewTimer(retryDue{})
		self := c.Self()
		a.resource.ref.Store(&self)
		if a.unwanted() {
			c.Stop()
			return
		}
		a.subscribe(c)
	case renew, retryDue:
		a.subscribe(c)
	case *subscribed:
		a.subscribed(c, m.err)
	case closeWanted:
		a.unsubscribe(c)
		c.Stop()
	}
}

func (a *subscriber) unwanted() bool {
	rs := a.resource.table
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return a.resource.gone
}

func (a *subscriber) request(method string) *call.Request {
	params, _ := mcp.Marshal(&mcp.ResourceParams{URI: a.resource.uri}) // checked by who subscribes
	return &call.Request{Method: method, Params: params, Name: a.resource.uri, Safe: true}
}

func (a *subscriber) subscribe(c *actors.Context) {
	if a.asking {
		a.again = true
		return
	}
	a.asking = true
	a.retry.Clear()
	do, req := a.resource.table.opts.Do, a.request(mcp.MethodSubscribe)
	actors.Await(c, func(ctx context.Context) (struct{}, error) {
		_, err := do(ctx, req)
		return struct{}{}, err
	}, func(_ struct{}, err error) any { return &subscribed{err} })
}

func (a *subscriber) subscribed(c *actors.Context, err error) {
	a.asking = false
	opts := a.resource.table.opts
	switch {
	case a.again:
		a.again = false
		a.subscribe(c)
	case err == nil:
		a.broken = 0
		if a.agreed { // what changed meanwhile is not known
			a.resource.table.renewed(a.resource)
		}
		a.agreed = true
		a.resource.first.Complete(struct{}{}, nil)
	case !a.agreed, refusal(err), errors.Is(err, call.ErrClosed), opts.Permanent(err):
		a.resource.end(err)
		c.Stop()
	default:
		a.broken++
		a.retry.Set(min(opts.MinBackoff<<min(a.broken-1, 20), opts.MaxBackoff))
	}
}

// renewed tells the users of a resource to read it again.
func (rs *resources) renewed(r *resource) {
	rs.mu.Lock()
	tell := make([]*resourceUser, 0, len(r.users))
	for u := range r.users {
		tell = append(tell, u)
	}
	rs.mu.Unlock()
	for _, u := range tell {
		u.updated(r.uri)
	}
}

// unsubscribeLimit bounds the last request, whose answer has no waiter.
const unsubscribeLimit = 10 * time.Second

func (a *subscriber) unsubscribe(c *actors.Context) {
	rs := a.resource.table
	if !a.agreed || !rs.opts.Live() {
		return
	}
	req := a.request(mcp.MethodUnsubscribe)
	req.Max = unsubscribeLimit
	c.System().Go(c.Self().Path(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), unsubscribeLimit)
		defer cancel()
		if _, err := rs.opts.Do(ctx, req); err != nil {
			rs.opts.Logger.Debug("the server was not told that a resource is of no interest any more", "error", err)
		}
	})
}
