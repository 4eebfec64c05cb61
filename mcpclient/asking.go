package mcpclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/mcpclient/internal/pool"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
)

// callTag is one logical call as the questions of its server see it. It is the
// [call.Request].Tag of all its attempts.
type callTag struct {
	client       *Client        // that the call is made on
	instance     *pool.Instance // of the client's; nil where it needs none of its own
	method, name string
	human        Human // nil if nobody may be asked
	sampler      Sampler
	roots        rootsFunc // nil if the call has none of its own
	abandoned    time.Time // when it was given up; zero while it is under way, see abandonedCalls
	notices      int       // declined questions that its Human was told of, guarded by mu
	path         []string
	onWait       func(bool)
	follows      // what its Follow knows

	mu      sync.Mutex
	waits   int            // questions that are open
	samples int            // answers of a model that were asked for
	gone    bool           // it has ended before the server's answer
	ends    map[int]func() // to be called when it goes
	lastEnd int
	turn    func() // leaves the instance that it has; nil if it has none
	over    bool   // it needs none any more
}

// newTag makes the tag of a call. The options may be nil.
func (c *Client) newTag(method, name string, o *CallOptions) *callTag {
	t := &callTag{client: c, method: method, name: name, human: c.opts.Human, sampler: c.opts.Sampler}
	if o != nil {
		if o.Sampler != nil {
			t.sampler = o.Sampler
		}
		if o.Human != nil {
			t.human = o.Human
		}
		if o.NoAsk {
			t.human = nil
		}
		t.path, t.onWait, t.roots = o.Path, o.OnWait, o.Roots
	}
	return t
}

// wait counts the questions of the call that are open, by one more or less.
func (t *callTag) wait(n int) {
	t.mu.Lock()
	defer t.mu.Unlock() // while it is told, so that it hears of it in order
	before := t.waits
	t.waits += n
	if t.onWait != nil && (before == 0) != (t.waits == 0) {
		t.onWait(t.waits > 0)
	}
}

// haveTurn gives the call its turn on an instance.
func (t *callTag) haveTurn(leave func()) {
	t.mu.Lock()
	over := t.over
	if !over {
		t.turn = leave
	}
	t.mu.Unlock()
	if over {
		leave()
	}
}

// leaveTurn lets others have the turn: the call is over, or waits for something that
// is not the server's answer.
func (t *callTag) leaveTurn(over bool) {
	t.mu.Lock()
	leave := t.turn
	t.turn, t.over = nil, t.over || over
	t.mu.Unlock()
	if leave != nil {
		leave()
	}
}

// maxSamples bounds the turns of a sampling loop within one call (SAMP-31).
const maxSamples = 32

// sample reports whether the call may have another answer of a model.
func (t *callTag) sample() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.samples++
	return t.samples <= maxSamples
}

// onGone has f called when the call ends before the server has answered it, at once
// if it has. F must not block.
func (t *callTag) onGone(f func()) (remove func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		f()
		return func() {}
	}
	if t.ends == nil {
		t.ends = make(map[int]func())
	}
	t.lastEnd++
	key := t.lastEnd
	t.ends[key] = f
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.ends, key)
	}
}

// end closes the questions of a call that was cancelled, or timed out (CANC-13).
func (t *callTag) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gone = true
	for _, f := range t.ends {
		f()
	}
	t.ends = nil
}

// complete makes the request that of the tag, which has its instance.
func (t *callTag) complete(ctx context.Context, req *call.Request, o *CallOptions) error {
	c := t.client
	req.Idle = cmp.Or(req.Idle, c.server.IdleTimeout)
	req.Max = cmp.Or(req.Max, c.server.CallTimeout)
	req.Meta = c.leveled(c.traced(ctx, req.Meta))
	if err := c.mirror(ctx, req); err != nil {
		return c.failed(req.Method, &notSentError{err})
	}
	t.params, t.inner = req.Params, req.Follow
	req.Tag, req.Follow, req.Before = t, t.follow, o.before()
	return nil
}

// outcome is what the request of the tag has come to.
func (t *callTag) outcome(res call.Result, err error) (json.RawMessage, error) {
	t.closePages(err)
	if err != nil {
		if !answered(err) {
			t.end()
			t.client.asks.abandoned.add(t)
		}
		return nil, t.client.failed(t.method, err)
	}
	return res.Raw, nil
}

// answered reports whether the server has ended a call that failed with err.
func answered(err error) bool {
	_, wire := errors.AsType[*mcp.Error](err)
	return wire || errors.Is(err, ErrInput) || errors.Is(err, call.ErrInvalidResponse)
}

// mayAsk reports whether a server may ask something because of a call of the method.
// In 2026-07-28 it is three that may (MRTR-01); in a legacy session we look at what
// is more than a look at the server's own state.
func mayAsk(method string) bool {
	switch method {
	case mcp.MethodInitialize, mcp.MethodDiscover, mcp.MethodPing, mcp.MethodSetLevel, mcp.MethodComplete,
		mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListResourceTemplates,
		mcp.MethodSubscribe, mcp.MethodUnsubscribe, mcp.MethodListen, mcp.MethodListTasks, mcp.MethodCancelTask:
		return false
	}
	return true
}

// origin is where a question comes from.
type origin struct {
	version mcp.Version
	// calls are those that it may belong to: one, if that is known.
	calls []*callTag
	// strangers says that it may belong to others, too, of which nobody knows who
	// answers for them.
	strangers bool
	// hold keeps the clocks of the calls still; nil if they stand still anyway.
	hold func() (release func())
}

// originOf is the origin of a question about one call.
func (c *Client) originOf(o *CallOptions, method, name string) *origin {
	return &origin{calls: []*callTag{c.newTag(method, name, o)}}
}

// whose finds out which of our calls a request of a legacy server belongs to
// (architecture: whose question is it). It must be called as it arrives.
func (c *Client) whose(s *conn.Session, m *mcp.Message, related mcp.ID) *origin {
	o := &origin{version: s.Version()}
	if tag, hold, ok := c.taskOf(relatedTask(m)); ok {
		if t, ok := tag.(*callTag); ok {
			o.calls = []*callTag{t}
		}
		o.strangers, o.hold = len(o.calls) == 0, hold
		return o
	}
	held := related
	var only mcp.ID
	for _, out := range s.Out() {
		if related.IsZero() && !mayAsk(out.Method) || !related.IsZero() && out.ID != related {
			continue
		}
		if tag, ok := out.Tag.(*callTag); !ok {
			o.strangers = true
		} else if !slices.Contains(o.calls, tag) {
			o.calls = append(o.calls, tag)
		}
		only = out.ID
	}
	live := len(o.calls)
	switch {
	case related.IsZero():
		if live == 1 && !o.strangers {
			held = only
		}
		// A call that we have given up may still be worked on, and ask.
		o.calls = append(o.calls, c.asks.abandoned.of(s.Generation())...)
		o.strangers = o.strangers || live == 0 && len(o.calls) > 0
	case live == 0: // the call has ended: who it was for is not known any more
		o.strangers = true
	}
	o.hold = func() func() { return s.Hold(held) }
	return o
}

// relatedTask is the task that a request names as its reason (TASK-11); "" if none.
func relatedTask(m *mcp.Message) string {
	var meta mcp.Meta
	if len(m.Meta) == 0 || mcp.Unmarshal(m.Meta, &meta) != nil {
		return ""
	}
	return meta.RelatedTask()
}

// human is who decides: the Human that all calls under way share, else that of the
// connection, with the reason. A question that may belong to an abandoned call of another
// owner goes to the same Human only if onePerson says that they may see it.
func (o *origin) human(own Human, onePerson bool) (human Human, why error) {
	live := o.live()
	if len(live) == 0 || o.strangers {
		return own, errUnknownCall
	}
	first := live[0].human
	for _, t := range live[1:] {
		if !same(t.human, first) {
			return own, errOwners
		}
	}
	for _, t := range o.calls {
		if !t.abandoned.IsZero() && !onePerson && !same(t.human, first) {
			return own, errAbandonedOwner
		}
	}
	return first, nil
}

// sampler is who answers for a model: the one Sampler of all calls that the request may
// belong to, else that of the connection.
func (o *origin) sampler(own Sampler) Sampler {
	if len(o.calls) == 0 || o.strangers {
		return own
	}
	first := o.calls[0].sampler
	for _, t := range o.calls[1:] {
		if !same(t.sampler, first) {
			return own
		}
	}
	return first
}

// roots is what tells the roots: the function of the one call that the request belongs
// to, else that of the connection. Functions can not be compared, so several calls have
// none in common.
func (o *origin) roots(own rootsFunc) rootsFunc {
	if len(o.calls) != 1 || o.strangers || o.calls[0].roots == nil {
		return own
	}
	return o.calls[0].roots
}

// same reports whether two Humans are one person, or two Samplers one. Functions can
// not be compared.
func same(a, b any) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	type owned interface{ Owner() any }
	x, ok := a.(owned)
	if y, both := b.(owned); ok && both {
		return x.Owner() == y.Owner()
	}
	return reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b
}

// live are the calls that are under way.
func (o *origin) live() []*callTag {
	return slices.DeleteFunc(slices.Clone(o.calls), func(t *callTag) bool { return !t.abandoned.IsZero() })
}

// path is that of the calls under way, else of the abandoned ones, if they have the same.
func (o *origin) path() []string {
	calls := o.live()
	if len(calls) == 0 {
		calls = o.calls
	}
	if len(calls) == 0 {
		return nil
	}
	for _, t := range calls[1:] {
		if !slices.Equal(t.path, calls[0].path) {
			return nil
		}
	}
	return calls[0].path
}

// asked are the calls as an Ask shows them.
func (o *origin) asked() []AskCall {
	calls := make([]AskCall, len(o.calls))
	for i, t := range o.calls {
		calls[i] = AskCall{Method: t.method, Name: t.name}
	}
	return calls
}

// onGone has f called once the last of the calls was given up.
func (o *origin) onGone(f func()) (remove func()) {
	live := o.live()
	if len(live) == 0 || o.strangers {
		return func() {}
	}
	var left atomic.Int32
	left.Store(int32(len(live)))
	removes := make([]func(), len(live))
	for i, t := range live {
		removes[i] = t.onGone(func() {
			if left.Add(-1) == 0 {
				f()
			}
		})
	}
	return func() {
		for _, remove := range removes {
			remove()
		}
	}
}

// abandonedCalls are calls that ended without an answer and that the server may still
// work on. A legacy server does not say that a question is of one of those, so they are
// remembered for abandonedLife, and at most maxAbandoned of them.
type abandonedCalls struct {
	mu  sync.Mutex
	all []abandonedCall
	gen func() uint64
}

type abandonedCall struct {
	tag *callTag
	gen uint64
}

const (
	abandonedLife = 5 * time.Minute
	maxAbandoned  = 256
)

func (a abandonedCall) over(now time.Time) bool { return now.Sub(a.tag.abandoned) >= abandonedLife }

// add remembers a call that has ended without an answer.
func (l *abandonedCalls) add(t *callTag) {
	if !mayAsk(t.method) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.all = slices.DeleteFunc(l.all, func(a abandonedCall) bool { return a.over(now) })
	if len(l.all) == maxAbandoned {
		l.all = slices.Delete(l.all, 0, 1)
	}
	// Not the tag itself, which has the call's parameters.
	light := &callTag{client: t.client, method: t.method, name: t.name, human: t.human, sampler: t.sampler, roots: t.roots, path: t.path, abandoned: now}
	l.all = append(l.all, abandonedCall{light, l.gen()})
}

// of returns those of a generation of the connection: another process, or session,
// knows nothing of the others.
func (l *abandonedCalls) of(gen uint64) []*callTag {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	var tags []*callTag
	for _, a := range l.all {
		if a.gen == gen && !a.over(now) {
			tags = append(tags, a.tag)
		}
	}
	return tags
}
