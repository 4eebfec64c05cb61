// stream.go: subscriptions/listen, the stream of notifications of 2026-07-28. It is a call
// like any other that has no answer yet: no goroutine waits for it.
//
//	          acknowledged           the client cancels or hangs up
//	begun ─────────────────▶ open ───────────────────────────────────▶ dropped
//	                          │ the server drains
//	                          └──────────────────────▶ answered (SUB-08)

package subscriptions

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/port"
)

// Stream is one subscription, and the handler of its call.
type Stream struct {
	inbound.Call
	notices  *Notices
	session  Session
	port     port.Port
	accepted mcp.SubscriptionFilter
	quota    *quota
	key      any // of the quota; nil if it is this stream's own
	knows    [numLists]known

	acknowledged bool // is read and set in Emit only
}

// Accept returns the part of a filter that a server with these capabilities supports (SUB-04),
// without tasks.
func (n *Notices) Accept(wish *mcp.SubscriptionFilter, offered *mcp.ServerCapabilities) mcp.SubscriptionFilter {
	got := mcp.SubscriptionFilter{
		ToolsListChanged:     wish.ToolsListChanged && announces(offered, Tools),
		PromptsListChanged:   wish.PromptsListChanged && announces(offered, Prompts),
		ResourcesListChanged: wish.ResourcesListChanged && announces(offered, Resources),
	}
	if offered.Resources != nil && offered.Resources.Subscribe {
		got.ResourceSubscriptions = n.distinct(wish.ResourceSubscriptions, func(uri string) bool { return CheckURI(uri) == nil })
	}
	return got
}

// distinct returns the elements of a list that are ok, each once, in order; nil for none. It
// reads at most twice as many as it may return: lists may be very long.
func (n *Notices) distinct(list []string, ok func(string) bool) []string {
	most := n.opts.MaxSubscriptions
	var out []string
	seen := make(map[string]struct{})
	for _, one := range list[:min(len(list), 2*most)] {
		if len(out) == most {
			break
		}
		if _, again := seen[one]; !again && ok(one) {
			out = append(out, one)
		}
		seen[one] = struct{}{}
	}
	return out
}

// Open makes the stream of a request, for a part of its filter. The principal is empty for an
// anonymous client. The caller begins the call, or ends the stream with Leave.
func (n *Notices) Open(s Session, to port.Port, principal string, accepted mcp.SubscriptionFilter) (*Stream, error) {
	accepted.TaskIDs = n.distinct(accepted.TaskIDs, func(string) bool { return true })
	l := &Stream{notices: n, session: s, port: to, accepted: accepted, key: quotaKey(s, principal)}
	if err := n.admit(l); err != nil {
		return nil, err
	}
	return l, nil
}

// admit counts a stream and subscribes it to its resources and tasks. It leaves URIs beyond the
// bound out of the acknowledgement; a stream beyond the bound is an error.
func (n *Notices) admit(l *Stream) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	l.quota = n.quotaOf(l.key)
	if l.quota.listens >= n.opts.MaxListens || l.session.Stateless() && n.shared >= n.opts.MaxShared {
		n.release(l.key, l.quota)
		return errTooMany
	}
	if l.session.Stateless() {
		n.shared++
	}
	l.quota.listens++
	for i, uri := range l.accepted.ResourceSubscriptions {
		if !n.watch(uri, l, l.quota) {
			l.accepted.ResourceSubscriptions = l.accepted.ResourceSubscriptions[:i:i]
			break
		}
	}
	if len(l.accepted.ResourceSubscriptions) == 0 {
		l.accepted.ResourceSubscriptions = nil // it is left out, not an empty list
	}
	for _, id := range l.accepted.TaskIDs {
		if n.byTask[id] == nil {
			n.byTask[id] = make(map[*Stream]struct{})
		}
		n.byTask[id][l] = struct{}{}
	}
	return nil
}

// Leave ends a stream whose call has not begun.
func (l *Stream) Leave() { l.notices.leave(l) }

// leave removes a stream.
func (n *Notices) leave(l *Stream) {
	n.mu.Lock()
	defer n.mu.Unlock()
	of := n.streams[l.session]
	if delete(of, l); len(of) == 0 {
		delete(n.streams, l.session)
	}
	for _, uri := range l.accepted.ResourceSubscriptions {
		n.unwatch(uri, l, l.quota)
	}
	for _, id := range l.accepted.TaskIDs {
		if delete(n.byTask[id], l); len(n.byTask[id]) == 0 {
			delete(n.byTask, id)
		}
	}
	if l.session.Stateless() {
		n.shared--
	}
	l.quota.listens--
	n.release(l.key, l.quota)
}

// Handle implements [inbound.Handler]: it acknowledges (SUB-02) and leaves the notifications
// to Notices.
//
// Changes before the acknowledgement need no notification: the client reads the lists as a
// subscriber only after it.
func (l *Stream) Handle(context.Context) error {
	open := l.open()
	l.Emit(func() {
		l.say(mcp.NotificationListenAcknowledged, "notifications", &l.accepted)
		l.acknowledged = true
	})
	if !open {
		return nil
	}
	for _, id := range l.accepted.TaskIDs {
		l.notices.opts.Announce(id)
	}
	return inbound.ErrParked
}

// open begins the notifications. False means that the session ends: the
// stream ends as soon as it has begun.
func (l *Stream) open() bool {
	n := l.notices
	for list := range numLists {
		l.knows[list].version.Store(n.lists[list].Load())
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if l.session.Subscriptions().closed {
		return false
	}
	of := n.streams[l.session]
	if of == nil {
		of = make(map[*Stream]struct{})
		n.streams[l.session] = of
	}
	of[l] = struct{}{}
	return true
}

// Answer implements [inbound.Handler]. An end of the subscription by the server, other than
// an error, is in good order (SUB-08).
func (l *Stream) Answer(err error) {
	l.notices.leave(l)
	if err != nil {
		l.unpark()
	}
	if errors.Is(err, inbound.ErrClosed) || errors.Is(err, context.DeadlineExceeded) { // the token has ended
		err = nil
	}
	if err != nil {
		wire := mcp.ErrorOf(err).For(mcp.V2026_07_28)
		l.port.Respond(mcp.AppendError(nil, l.ID(), wire), wire)
	} else {
		l.port.Respond(l.result(), nil)
	}
	if !l.session.Stateless() { // CANC-10
		l.session.Notify(mcp.AppendNotification(nil, mcp.NotificationCancelled, append(l.ID().AppendJSON([]byte(`{"requestId":`)), '}')))
	}
}

// Drop is for [inbound.Handler]: the client has ended the subscription (SUB-07).
func (l *Stream) Drop(error) {
	l.notices.leave(l)
	l.unpark()
	l.port.Drop()
}

// unpark ends the handler of a call that has its outcome already: until then its
// actor waits. Finish takes the lock that Answer and Drop are called under, so a task calls it.
func (l *Stream) unpark() { l.session.Go(func() { l.Finish(nil) }) }

// appendMeta appends the _meta of all messages of a subscription (SUB-03), with the server's
// identity in a result.
func (l *Stream) appendMeta(dst []byte, result bool) []byte {
	dst = append(dst, `"_meta":{"`+mcp.MetaSubscriptionID+`":`...)
	dst = l.ID().AppendJSON(dst)
	if result {
		own := l.notices.opts.ServerMeta[len(`"_meta":{`):]
		return append(append(dst, ','), own...)
	}
	return append(dst, '}')
}

// result is the answer at the end (SUB-08).
func (l *Stream) result() []byte {
	raw := append(l.appendMeta([]byte(`{"resultType":"complete",`), true), '}')
	return mcp.AppendResult(nil, l.ID(), raw)
}

// say sends a notification of the subscription, with one parameter beside its _meta if
// name is not empty. It is called in Emit.
func (l *Stream) say(method, name string, value any) {
	params := append(l.appendMeta([]byte{'{'}, false), '}')
	if name != "" {
		raw, err := mcp.Marshal(value)
		if err != nil { // a filter or a text always can be
			l.notices.opts.Logger.Error("a notification cannot be encoded", "method", method, "error", err)
			return
		}
		params = append(append(append(params[:len(params)-1], `,"`...), name...), `":`...)
		params = append(append(params, raw...), '}')
	}
	l.port.Notify(mcp.AppendNotification(nil, method, params))
}

// emit runs f if the subscription is acknowledged and not over.
func (l *Stream) emit(f func()) {
	l.Emit(func() {
		if l.acknowledged {
			f()
		}
	})
}

// catchUp notifies of the lists that have changed since the last notification. It returns what
// [Notices.catchUp] does.
func (l *Stream) catchUp() (again time.Duration) {
	wants := [numLists]bool{
		Tools: l.accepted.ToolsListChanged, Prompts: l.accepted.PromptsListChanged, Resources: l.accepted.ResourcesListChanged,
	}
	n, c := l.notices, l.session.Subscriptions()
	for list := range numLists {
		if wants[list] && !n.quiet(c, list) {
			again = sooner(again, n.offer(&l.knows[list], list, func() { l.emit(func() { l.say(listNotices[list], "", nil) }) }))
		}
	}
	return again
}

// Updated notifies of an update of a resource.
func (l *Stream) Updated(uri string) {
	l.emit(func() { l.say(mcp.NotificationResourceUpdated, "uri", uri) })
}

// taskChanged notifies of a task. Params is an object without a _meta.
func (l *Stream) taskChanged(params json.RawMessage) {
	l.emit(func() {
		own := slices.Clone(params[:len(params)-1])
		if len(params) > 2 {
			own = append(own, ',')
		}
		own = append(l.appendMeta(own, false), '}')
		l.port.Notify(mcp.AppendNotification(nil, mcp.NotificationTask, own))
	})
}

// Close ends the streams of a session that takes no more calls, and refuses further
// subscriptions.
func (n *Notices) Close(s Session) {
	n.mu.Lock()
	s.Subscriptions().closed = true
	var open []*Stream
	for l := range n.streams[s] {
		open = append(open, l)
	}
	n.mu.Unlock()
	if len(open) == 0 {
		return
	}
	s.Go(func() { // Finish may wait for an actor, so not in a Receive
		for _, l := range open {
			l.Finish(nil)
		}
	})
}
