// listen.go: subscriptions/listen, the stream of notices of 2026-07-28. It is a call
// like any other that has answered nothing yet: no goroutine waits for it.
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
	knows    [numLists]heardOf

	acknowledged bool // it is only looked at and set in Emit
}

// taskNews is what the hub needs to know of tasks (XTASK-14).
type taskNews interface {
	// mayWatch returns those of the tasks that the sender may hear of. The error is
	// -32021 if it has not declared the extension.
	mayWatch(a *arrival, ids []string) (accepted []string, err error)
	// announce is called when somebody has begun to listen for a task: it is to be told
	// how the task is now, lest it miss what happened before.
	announce(id string)
}

// listen begins a subscription. There is no limit to its time (SUB-12).
func (s *session) listen(a *arrival) (lost bool, err error) {
	if _, ok := a.port.(*batch); ok {
		return false, mcp.Errorf(mcp.CodeInvalidRequest, "a subscription can not be part of a batch: it is never answered in time")
	}
	var p mcp.ListenParams
	if err := a.DecodeParams(&p); err != nil {
		return false, err
	}
	l := &listen{session: s, port: a.port}
	if a.reader != nil {
		l.port = s
	}
	if err := s.passes(a); err != nil {
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

// passes asks the middleware whether a request may begin that waits for something.
func (s *session) passes(a *arrival) error {
	if len(s.server.opts.Middleware) == 0 {
		return nil
	}
	passed := false
	_, err := s.server.around(a.incoming(), func() (json.RawMessage, error) {
		passed = true
		return json.RawMessage("{}"), nil
	})
	if err == nil && !passed {
		err = mcp.Errorf(mcp.CodeInternal, "the request was not allowed")
	}
	return err
}

// accept returns the part of a wish that we can fulfil (SUB-04).
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

// distinct returns what is ok of a list, each once, in its order; nil for nothing. It
// looks no further than it has to for the most that may be: lists may be very long.
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

// Handle implements [inbound.Handler]: it acknowledges (SUB-02) and leaves the rest
// to the hub.
//
// What changes before the acknowledgement need not be told: nobody can have looked
// at it as a subscriber yet.
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

// Answer implements [inbound.Handler]. Whatever ends the subscription from our side,
// an error apart, is an end in good order (SUB-08).
func (l *listen) Answer(err error) {
	s := l.session
	s.server.notices.leave(l)
	if err != nil {
		l.unpark()
	}
	if _, over := errors.AsType[*inbound.ClosedError](err); over {
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

// Drop implements [inbound.Dropper]: the client wants no more (SUB-07).
func (l *listen) Drop(error) {
	l.session.server.notices.leave(l)
	l.unpark()
	l.port.Drop()
}

// unpark ends the handler of a call that has its outcome from elsewhere: until then its
// actor waits. Finish looks at what Answer and Drop are called under, so not here.
func (l *listen) unpark() {
	l.session.server.sys.Go(l.session.ref.Path(), func() { l.Finish(nil) })
}

// appendMeta appends the _meta that all of a subscription has (SUB-03), and who we are
// if it is a result.
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
		if err != nil { // it is a filter or a text, which can not fail
			l.session.server.log.Error("a notice cannot be encoded", "method", method, "error", err)
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

// catchUp tells of the lists that have changed since it was told. It returns what
// [session.catchUp] does.
func (l *listen) catchUp() (again time.Duration) {
	wants := [numLists]bool{
		toolsList: l.accepted.ToolsListChanged, promptsList: l.accepted.PromptsListChanged, resourcesList: l.accepted.ResourcesListChanged,
	}
	n := &l.session.server.notices
	for kind := range numLists {
		if !wants[kind] || l.session.quiet(kind) {
			continue
		}
		wait := n.tellOf(&l.knows[kind], n.lists[kind].Load(), func() { l.emit(func() { l.say(listNotices[kind], "", nil) }) })
		if again == 0 || wait > 0 && wait < again {
			again = wait
		}
	}
	return again
}

// hear implements [hearer].
func (l *listen) hear(uri string) {
	l.emit(func() { l.say(mcp.NotificationResourceUpdated, "uri", uri) })
}

// hearTask tells of a task. Params is an object without a _meta.
func (l *listen) hearTask(params json.RawMessage) {
	l.emit(func() {
		own := slices.Clone(params[:len(params)-1])
		if len(params) > 2 {
			own = append(own, ',')
		}
		own = append(l.appendMeta(own, false), '}')
		l.port.Notify(mcp.AppendNotification(nil, mcp.NotificationTask, own))
	})
}

// open makes a stream one that is told of changes. False means that the session takes
// no more: the stream ends as soon as it has begun.
func (h *notices) open(l *listen) bool {
	for kind, v := range h.now() {
		l.knows[kind].version.Store(v)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.session.deaf {
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

// hush ends the subscriptions of a session that takes no more calls, and has it take
// no more of them.
func (h *notices) hush(s *session) {
	h.mu.Lock()
	s.deaf = true
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

// task tells those who listen for a task how it is. Params is the task as tasks/get
// shows it, an object without a _meta.
func (h *notices) task(id string, params json.RawMessage) {
	h.mu.Lock()
	to := make([]*listen, 0, len(h.byTask[id]))
	for l := range h.byTask[id] {
		to = append(to, l)
	}
	h.mu.Unlock()
	for _, l := range to {
		l.hearTask(params)
	}
}

// heard reports whether anybody listens for a task.
func (h *notices) heard(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.byTask[id]) > 0
}
