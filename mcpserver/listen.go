// listen.go: subscriptions/listen, the stream of notifications of 2026-07-28. It is a call
// like any other that has no answer yet: no goroutine waits for it.
//
//	          acknowledged           the client cancels or hangs up
//	begun ─────────────────▶ open ───────────────────────────────────▶ dropped
//	                          │ the server drains
//	                          └──────────────────────▶ answered (SUB-08)

package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/web"
)

// listen is one subscription.
type listen struct {
	inbound.Call
	session  *session
	port     port
	accepted mcp.SubscriptionFilter
	quota    *quota
	key      any // of the quota; nil if it is this stream's own
	knows    [numLists]knownList

	acknowledged bool // is read and set in Emit only
}

// taskNews is the part of the server that has tasks (XTASK-14).
type taskNews interface {
	// mayWatch returns those of the tasks that the sender may subscribe to. The error is
	// -32021 if it has not declared the extension.
	mayWatch(a *arrival, ids []string) (accepted []string, err error)
	// announce is called when a stream has subscribed to a task: it notifies the stream of the
	// status, which may have changed before.
	announce(id string)
}

// listen begins a subscription. There is no limit to its time (SUB-12).
func startListen(s *session, a *arrival) (lost bool, err error) {
	if _, ok := a.port.(*batch); ok {
		return false, mcp.Errorf(mcp.CodeInvalidRequest, "a subscription cannot be part of a batch: it is answered when it ends")
	}
	var p mcp.ListenParams
	if err := a.DecodeParams(&p); err != nil {
		return false, err
	}
	l := &listen{session: s, port: a.port}
	if a.reader != nil {
		l.port = s
	}
	if err := passMiddleware(s, a); err != nil {
		return false, err
	}
	h := &s.server.notices
	if l.accepted, err = h.accept(a, p.Notifications); err != nil {
		return false, err
	}
	l.key = h.quotaKey(s, a.principal)
	if err := h.admit(l); err != nil {
		return false, err
	}
	r := s.inboundRequest(a)
	r.Deadline = -1
	if err := s.calls.Begin(&l.Call, l, r); err != nil {
		h.leave(l)
		return false, err
	}
	if x, ok := l.port.(*web.Exchange); ok { // it ends the call when the client has gone (SUB-07)
		x.Began(&l.Call)
	}
	l.Run()
	return false, nil
}

// passMiddleware asks the middleware whether a request may begin that is answered later.
func passMiddleware(s *session, a *arrival) error {
	if len(s.server.opts.Middleware) == 0 {
		return nil
	}
	passed := false
	_, err := runAround(s.server, a.incoming(), func() (json.RawMessage, error) {
		passed = true
		return json.RawMessage("{}"), nil
	})
	if err == nil && !passed {
		err = mcp.Errorf(mcp.CodeInternal, "the request was not allowed")
	}
	return err
}

// accept returns the part of a filter that the server supports (SUB-04).
func (h *notices) accept(a *arrival, wish *mcp.SubscriptionFilter) (mcp.SubscriptionFilter, error) {
	offered := h.server.capabilities(a.version)
	got := mcp.SubscriptionFilter{
		ToolsListChanged:     wish.ToolsListChanged && announces(&offered, toolsList),
		PromptsListChanged:   wish.PromptsListChanged && announces(&offered, promptsList),
		ResourcesListChanged: wish.ResourcesListChanged && announces(&offered, resourcesList),
	}
	if offered.Resources != nil && offered.Resources.Subscribe {
		got.ResourceSubscriptions = distinct(wish.ResourceSubscriptions, h.server.opts.MaxSubscriptions, func(uri string) bool { return watchable(uri) == nil })
	}
	if h.tasks == nil || len(wish.TaskIDs) == 0 {
		return got, nil
	}
	most := h.server.opts.MaxSubscriptions
	ids, err := h.tasks.mayWatch(a, wish.TaskIDs[:min(len(wish.TaskIDs), most)])
	got.TaskIDs = distinct(ids, most, func(string) bool { return true })
	return got, err
}

// distinct returns the elements of a list that are ok, each once, in order; nil for none. It
// reads at most twice as many as it may return: lists may be very long.
func distinct(list []string, most int, ok func(string) bool) []string {
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

// Handle implements [inbound.Handler]: it acknowledges (SUB-02) and leaves the notifications
// to notices.
//
// Changes before the acknowledgement need no notification: the client reads the lists as a
// subscriber only after it.
func (l *listen) Handle(context.Context) error {
	h := &l.session.server.notices
	open := h.open(l)
	l.Emit(func() {
		l.say(mcp.NotificationListenAcknowledged, "notifications", &l.accepted)
		l.acknowledged = true
	})
	if !open {
		return nil
	}
	for _, id := range l.accepted.TaskIDs {
		h.tasks.announce(id)
	}
	return inbound.ErrParked
}

// Answer implements [inbound.Handler]. An end of the subscription by the server, other than
// an error, is in good order (SUB-08).
func (l *listen) Answer(err error) {
	s := l.session
	s.server.notices.leave(l)
	if err != nil {
		l.unpark()
	}
	if errors.Is(err, inbound.ErrClosed) {
		err = nil
	}
	if err != nil {
		wire := mcp.ErrorOf(err).For(mcp.V2026_07_28)
		l.port.Respond(mcp.AppendError(nil, l.ID(), wire), wire)
	} else {
		l.port.Respond(l.result(), nil)
	}
	if !s.stateless { // CANC-10
		s.write(mcp.AppendNotification(nil, mcp.NotificationCancelled, append(l.ID().AppendJSON([]byte(`{"requestId":`)), '}')))
	}
}

// Drop is for [inbound.Handler]: the client has ended the subscription (SUB-07).
func (l *listen) Drop(error) {
	l.session.server.notices.leave(l)
	l.unpark()
	l.port.Drop()
}

// unpark ends the handler of a call that has its outcome already: until then its
// actor waits. Finish takes the lock that Answer and Drop are called under, so a task calls it.
func (l *listen) unpark() {
	l.session.server.sys.Go(l.session.ref.Path(), func() { l.Finish(nil) })
}

// appendMeta appends the _meta of all messages of a subscription (SUB-03), with the server's
// identity in a result.
func (l *listen) appendMeta(dst []byte, result bool) []byte {
	dst = append(dst, `"_meta":{"`+mcp.MetaSubscriptionID+`":`...)
	dst = l.ID().AppendJSON(dst)
	if result {
		own := l.session.server.serverMeta[len(`"_meta":{`):]
		return append(append(dst, ','), own...)
	}
	return append(dst, '}')
}

// result is the answer at the end (SUB-08).
func (l *listen) result() []byte {
	raw := append(l.appendMeta([]byte(`{"resultType":"complete",`), true), '}')
	return mcp.AppendResult(nil, l.ID(), raw)
}

// say sends a notification of the subscription, with one parameter beside its _meta if
// name is not empty. It is called in Emit.
func (l *listen) say(method, name string, value any) {
	params := append(l.appendMeta([]byte{'{'}, false), '}')
	if name != "" {
		raw, err := mcp.Marshal(value)
		if err != nil { // a filter or a text always can be
			l.session.server.log.Error("a notification cannot be encoded", "method", method, "error", err)
			return
		}
		params = append(append(append(params[:len(params)-1], `,"`...), name...), `":`...)
		params = append(append(params, raw...), '}')
	}
	l.port.Notify(mcp.AppendNotification(nil, method, params))
}

// emit runs f if the subscription is acknowledged and not over.
func (l *listen) emit(f func()) {
	l.Emit(func() {
		if l.acknowledged {
			f()
		}
	})
}

// catchUp notifies of the lists that have changed since the last notification. It returns what
// [notices.catchUp] does.
func (l *listen) catchUp() (again time.Duration) {
	wants := [numLists]bool{
		toolsList: l.accepted.ToolsListChanged, promptsList: l.accepted.PromptsListChanged, resourcesList: l.accepted.ResourcesListChanged,
	}
	n := &l.session.server.notices
	for kind := range numLists {
		if !wants[kind] || n.quiet(l.session, kind) {
			continue
		}
		wait := n.offer(&l.knows[kind], n.lists[kind].Load(), func() { l.emit(func() { l.say(listNotices[kind], "", nil) }) })
		if again == 0 || wait > 0 && wait < again {
			again = wait
		}
	}
	return again
}

// updated implements [subscriber].
func (l *listen) updated(uri string) {
	l.emit(func() { l.say(mcp.NotificationResourceUpdated, "uri", uri) })
}

// taskChanged notifies of a task. Params is an object without a _meta.
func (l *listen) taskChanged(params json.RawMessage) {
	l.emit(func() {
		own := slices.Clone(params[:len(params)-1])
		if len(params) > 2 {
			own = append(own, ',')
		}
		own = append(l.appendMeta(own, false), '}')
		l.port.Notify(mcp.AppendNotification(nil, mcp.NotificationTask, own))
	})
}

// open begins the notifications on a stream. False means that the session ends: the
// stream ends as soon as it has begun.
func (h *notices) open(l *listen) bool {
	for kind, v := range h.now() {
		l.knows[kind].version.Store(v)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.session.listensClosed {
		return false
	}
	of := h.streams[l.session]
	if of == nil {
		of = make(map[*listen]struct{})
		h.streams[l.session] = of
	}
	of[l] = struct{}{}
	return true
}

// closeListens ends the listen streams of a session that takes no more calls, and refuses
// further subscriptions.
func (h *notices) closeListens(s *session) {
	h.mu.Lock()
	s.listensClosed = true
	var open []*listen
	for l := range h.streams[s] {
		open = append(open, l)
	}
	h.mu.Unlock()
	if len(open) == 0 {
		return
	}
	h.server.sys.Go(s.ref.Path(), func() { // Finish may wait for an actor, so not in a Receive
		for _, l := range open {
			l.Finish(nil)
		}
	})
}

// task notifies the subscribers of a task. Params is the task as tasks/get shows it, an object
// without a _meta.
func (h *notices) task(id string, params json.RawMessage) {
	h.mu.Lock()
	to := make([]*listen, 0, len(h.byTask[id]))
	for l := range h.byTask[id] {
		to = append(to, l)
	}
	h.mu.Unlock()
	for _, l := range to {
		l.taskChanged(params)
	}
}

// taskWatched reports whether a stream has subscribed to a task.
func (h *notices) taskWatched(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.byTask[id]) > 0
}
