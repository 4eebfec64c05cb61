package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// NoticeKind says what a [Notice] tells.
type NoticeKind uint8

// The kinds of notices.
const (
	// Acknowledged says what the server has agreed to announce, again each time it
	// was asked anew.
	Acknowledged NoticeKind = iota + 1
	ToolsChanged
	PromptsChanged
	ResourcesChanged
	ResourceUpdated // Notice.URI
	TaskChanged     // Notice.Task
	// Missed says that everything may have changed: notices may have been
	// lost.
	Missed
	// Ended is the last: Notice.Err says why, nil if the server ended it in order.
	Ended
)

var noticeNames = [...]string{"unknown", "acknowledged", "tools changed", "prompts changed", "resources changed", "resource updated", "task changed", "missed", "ended"}

// String returns the kind in words.
func (k NoticeKind) String() string {
	if int(k) < len(noticeNames) {
		return noticeNames[k]
	}
	return noticeNames[0]
}

// Notice is one thing a subscription tells.
type Notice struct {
	Kind NoticeKind
	URI  string // of the resource; may lie below the one that was subscribed to
	Task *State
	// Accepted is what the server announces, Missing what it was asked for and does not.
	Accepted, Missing mcp.SubscriptionFilter
	Err               error
}

// About reports whether a notice that a resource has changed is about the one that was
// subscribed to: it is that one or lies below it.
func (n *Notice) About(subscribed string) bool { return covers(subscribed, n.URI) }

// Subscriptions are those of one connection: streams of 2026-07-28 (Open), and single
// resources on the revisions before (Add). Its methods may be used from any goroutine.
type Subscriptions struct {
	listens
	resources
}

// NewSubscriptions returns a table without subscriptions.
func NewSubscriptions(opts Options) *Subscriptions {
	o := opts.withDefaults()
	return &Subscriptions{
		listens{opts: o, byID: make(map[streamKey]*stream), open: make(map[*Listen]struct{})},
		resources{opts: o, byURI: make(map[string]*resource)},
	}
}

// listens are the streams.
type listens struct {
	opts *Options

	mu   sync.Mutex
	byID map[streamKey]*stream // those that were acknowledged
	open map[*Listen]struct{}
	over error // why none are opened any more
}

type streamKey struct {
	gen uint64
	id  mcp.ID
}

// stream is one subscriptions/listen request. It is its call's tag.
type stream struct {
	listen   *Listen
	filter   mcp.SubscriptionFilter // that it asks for
	cancel   context.CancelCauseFunc
	accepted mcp.SubscriptionFilter // the actor's; once acknowledged
	acked    bool                   // the actor's
	since    time.Time              // the actor's: it was acknowledged

	key     streamKey    // the table's
	queued  atomic.Int32 // notices in the mailbox
	dropped atomic.Bool  // there were too many
}

// maxQueued bounds the notices of a stream that wait to be handled (ROB-3).
const maxQueued = 256

// Listen is the handle of a subscription. It outlives the streams that carry it.
// Its methods may be used from any goroutine.
type Listen struct {
	table  *listens
	notify func(Notice)
	ref    atomic.Pointer[actors.Ref]
	wish   atomic.Pointer[mcp.SubscriptionFilter]
	closed atomic.Bool // by us
	ended  sync.Once
	over   actors.Reply[struct{}]
}

// Open starts a subscription. Notify is called on the subscription's actor, one
// notice at a time; it must not block. After Close it is not called any more, but
// for a call that is under way.
func (ls *listens) Open(filter mcp.SubscriptionFilter, notify func(Notice)) *Listen {
	l := &Listen{table: ls, notify: notify}
	l.wish.Store(&filter)
	ls.mu.Lock()
	over := ls.over
	if over == nil {
		ls.open[l] = struct{}{}
	}
	ls.mu.Unlock()
	if over != nil {
		l.end(over)
		return l
	}
	spec := actors.Spec{Kind: actors.KindSubscription, New: func() actors.Actor { return &subscription{listen: l} }, OnStop: l.stopped}
	ls.opts.Spawn(spec, func(_ actors.Ref, err error) {
		if err != nil {
			l.end(fmt.Errorf("starting a subscription: %w", err))
		}
	})
	return l
}

// Ref returns the actor.
func (l *Listen) Ref() actors.Ref {
	if ref := l.ref.Load(); ref != nil {
		return *ref
	}
	return actors.Ref{}
}

// Set changes what is asked for, once the subscription has begun: a stream with the new filter is opened, and the
// old one closed once that is acknowledged, so that nothing is missed between.
func (l *Listen) Set(filter mcp.SubscriptionFilter) {
	l.wish.Store(&filter)
	l.Ref().Send(set{})
}

// Close ends the subscription. It does not wait: see [Listen.Done].
func (l *Listen) Close() {
	l.closed.Store(true)
	l.Ref().Send(closeWanted{})
}

// Done returns a channel that is closed once the subscription has ended.
func (l *Listen) Done() <-chan struct{} { return l.over.Done() }

// Err returns why the subscription has ended: nil before, after Close, and when the
// server ended it in order.
func (l *Listen) Err() error {
	_, err := l.over.Result()
	return err
}

// end is the one end of a subscription (SUB-08).
func (l *Listen) end(err error) {
	l.ended.Do(func() {
		l.table.mu.Lock()
		delete(l.table.open, l)
		l.table.mu.Unlock()
		if l.closed.Load() {
			err = nil
		} else {
			l.notify(Notice{Kind: Ended, Err: err})
		}
		l.over.Complete(struct{}{}, err)
	})
}

// stopped answers for the actor when it is gone, for whatever reason.
func (l *Listen) stopped(failure error) {
	l.table.forget(func(st *stream) bool { return st.listen == l })
	l.end(errors.Join(ErrFailed, failure))
}

// Close ends all subscriptions with err, and opens no more.
func (ls *listens) Close(err error) {
	ls.mu.Lock()
	ls.over = err
	open := slices.Collect(maps.Keys(ls.open))
	ls.mu.Unlock()
	for _, l := range open {
		l.end(err)
		l.Ref().Send(closeWanted{})
	}
}

func (ls *listens) forget(which func(*stream) bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for key, st := range ls.byID {
		if which(st) {
			delete(ls.byID, key)
		}
	}
}

// errEndedByPeer ends the call of a stream that the server withdraws (SUB-08).
var errEndedByPeer = errors.New("the server has ended the subscription")

// Peer is what [Subscriptions.Notify] needs to know of the connection a notice came on.
type Peer struct {
	Generation uint64
	Out        func() []call.OutCall      // the requests that are out
	Failed     func(id mcp.ID, err error) // ends one of them
	Related    mcp.ID                     // the request on whose stream the notice came; zero if there is none
}

// Notify takes a notification of a server of 2026-07-28, and reports whether it is
// one that only a subscription brings. Such a notice is dropped unless it names a
// subscription of ours and, where that can be seen, came on its stream.
func (ls *listens) Notify(p Peer, m *mcp.Message) (mine bool) {
	var n Notice
	switch m.Method {
	case mcp.NotificationListenAcknowledged:
		ls.acknowledged(p, m)
		return true
	case mcp.NotificationCancelled:
		ls.cancelled(p, m)
		return true
	case mcp.NotificationToolsChanged:
		n.Kind = ToolsChanged
	case mcp.NotificationPromptsChanged:
		n.Kind = PromptsChanged
	case mcp.NotificationResourcesChanged:
		n.Kind = ResourcesChanged
	case mcp.NotificationResourceUpdated:
		n.Kind = ResourceUpdated
	case mcp.NotificationTask:
		n.Kind = TaskChanged
	default:
		return false
	}
	st := ls.find(p, m)
	if st == nil {
		ls.opts.Logger.Debug("dropping a notice of no subscription of ours", "method", m.Method)
		return true
	}
	if err := n.decode(m); err != nil {
		ls.opts.Logger.Debug("dropping a malformed notice", "method", m.Method, "error", err)
		return true
	}
	if st.queued.Add(1) > maxQueued {
		st.queued.Add(-1)
		st.dropped.Store(true)
		return true
	}
	st.listen.Ref().Send(&heard{st, n})
	return true
}

// decode reads the parameters that a kind has.
func (n *Notice) decode(m *mcp.Message) error {
	switch n.Kind {
	case ResourceUpdated:
		var p mcp.ResourceParams
		if err := m.DecodeParams(&p); err != nil {
			return err
		}
		n.URI = p.URI
	case TaskChanged:
		s, err := Extension.Decode(m.Params)
		if err != nil {
			return err
		}
		s.Result = slices.Clone(s.Result)
		n.Task = &s
	}
	return nil
}

// subscriptionOf returns the id that a notice names, or else that of its stream;
// zero if they are not the same.
func subscriptionOf(p Peer, m *mcp.Message) mcp.ID {
	var meta mcp.Meta
	if m.Meta != nil {
		if err := jsonx.Unmarshal(m.Meta, &meta); err != nil {
			return mcp.ID{}
		}
	}
	id := meta.SubscriptionID()
	switch {
	case id.IsZero():
		return p.Related
	case !p.Related.IsZero() && p.Related != id:
		return mcp.ID{}
	}
	return id
}

func (ls *listens) find(p Peer, m *mcp.Message) *stream {
	id := subscriptionOf(p, m)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.byID[streamKey{p.Generation, id}]
}

// stream finds the one whose request is out with this id.
func (p Peer) stream(id mcp.ID) *stream {
	if id.IsZero() {
		return nil
	}
	for _, o := range p.Out() {
		if o.ID == id {
			st, _ := o.Tag.(*stream)
			return st
		}
	}
	return nil
}

func (ls *listens) acknowledged(p Peer, m *mcp.Message) {
	var params mcp.ListenParams
	id := subscriptionOf(p, m)
	st := p.stream(id)
	if st == nil {
		ls.opts.Logger.Debug("dropping the acknowledgement of no subscription of ours")
		return
	}
	if err := m.DecodeParams(&params); err != nil {
		ls.opts.Logger.Debug("dropping a malformed acknowledgement", "error", err)
		return
	}
	ls.mu.Lock()
	st.key = streamKey{p.Generation, id}
	_, again := ls.byID[st.key]
	ls.byID[st.key] = st
	ls.mu.Unlock()
	if !again {
		st.listen.Ref().Send(&acked{st, both(&st.filter, params.Notifications)})
	}
}

// cancelled takes a server's notifications/cancelled, which can mean a subscription
// only (CANC-10).
func (ls *listens) cancelled(p Peer, m *mcp.Message) {
	var params mcp.CancelledParams
	if m.DecodeParams(&params) != nil {
		return // CANC-07
	}
	if p.stream(params.RequestID) != nil {
		p.Failed(params.RequestID, errEndedByPeer)
	}
}

// both returns what is in both filters: a server announces nothing that was not
// asked for (SUB-04).
func both(wish, said *mcp.SubscriptionFilter) mcp.SubscriptionFilter {
	in := func(list []string) func(string) bool {
		return func(s string) bool { return !slices.Contains(list, s) }
	}
	return mcp.SubscriptionFilter{
		ToolsListChanged:      wish.ToolsListChanged && said.ToolsListChanged,
		PromptsListChanged:    wish.PromptsListChanged && said.PromptsListChanged,
		ResourcesListChanged:  wish.ResourcesListChanged && said.ResourcesListChanged,
		ResourceSubscriptions: slices.DeleteFunc(slices.Clone(wish.ResourceSubscriptions), in(said.ResourceSubscriptions)),
		TaskIDs:               slices.DeleteFunc(slices.Clone(wish.TaskIDs), in(said.TaskIDs)),
	}
}

// without returns what is in wish and not in got.
func without(wish, got *mcp.SubscriptionFilter) mcp.SubscriptionFilter {
	in := func(list []string) func(string) bool {
		return func(s string) bool { return slices.Contains(list, s) }
	}
	return mcp.SubscriptionFilter{
		ToolsListChanged:      wish.ToolsListChanged && !got.ToolsListChanged,
		PromptsListChanged:    wish.PromptsListChanged && !got.PromptsListChanged,
		ResourcesListChanged:  wish.ResourcesListChanged && !got.ResourcesListChanged,
		ResourceSubscriptions: slices.DeleteFunc(slices.Clone(wish.ResourceSubscriptions), in(got.ResourceSubscriptions)),
		TaskIDs:               slices.DeleteFunc(slices.Clone(wish.TaskIDs), in(got.TaskIDs)),
	}
}

// covers reports whether uri is the resource that was subscribed to, or lies below
// it (RES-05).
func covers(subscribed, uri string) bool {
	rest, ok := strings.CutPrefix(uri, subscribed)
	return ok && (rest == "" || strings.HasSuffix(subscribed, "/") || strings.ContainsRune("/?#", rune(rest[0])))
}
