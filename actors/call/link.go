package call

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
)

// Open says that transport generation gen has a link: early calls may go out.
// Generations only grow.
func (t *Table) Open(gen uint64, link mcp.Link) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gen, t.link, t.ready, t.version, t.members = gen, link, false, "", nil
	t.current.Store(gen)
}

// Agree sets the version of transport generation gen, and the members that the
// _meta of each request has on it: JSON members without braces, empty for
// none. It does nothing once that generation is gone.
func (t *Table) Agree(gen uint64, version mcp.Version, members []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if gen == t.gen && t.link != nil {
		t.version, t.members = version, members
	}
}

// Ready lets all calls go out, those first that wait.
func (t *Table) Ready() {
	t.mu.Lock()
	t.ready, t.why = t.link != nil, nil
	waiting := t.waiting.n > 0
	t.mu.Unlock()
	if waiting {
		t.flushSoon()
	}
}

// Lost says that transport generation gen is gone. Calls that were out end with
// a [LostError], or wait for the next generation if they may.
func (t *Table) Lost(gen uint64, err error) {
	t.mu.Lock()
	if gen != t.gen || t.link == nil {
		t.mu.Unlock()
		return
	}
	t.current.Store(0)
	t.link, t.ready, t.version, t.members, t.why = nil, false, "", nil, err
	type out struct {
		ref actors.Ref
		msg *connectionLost
	}
	all := make([]out, 0, len(t.byID))
	for _, c := range t.byID {
		all = append(all, out{c.actor.Ref(), &connectionLost{call: c, attempt: c.attempt, gen: gen, err: err}})
		c.id = 0
	}
	clear(t.byID)
	clear(t.late)
	t.mu.Unlock()
	for _, o := range all {
		o.ref.Send(o.msg)
	}
}

// Unavailable ends the calls that wait for a connection with a [LostError]: there
// will be none soon, because of err.
func (t *Table) Unavailable(err error) {
	t.mu.Lock()
	t.why = err
	var refs []actors.Ref
	var msgs []*unavailable
	for c := t.waiting.first; c != nil; c = c.next {
		refs = append(refs, c.actor.Ref())
		msgs = append(msgs, &unavailable{call: c, err: err})
	}
	t.mu.Unlock()
	for i, ref := range refs {
		ref.Send(msgs[i])
	}
}

// NotYet says why there is no connection, for those that wait in vain.
func (t *Table) NotYet(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.why = err
}

// Drain takes no more calls, and calls then once none is left: at once, or on the goroutine
// that gives the last its outcome, which it must not block.
func (t *Table) Drain(then func()) {
	t.mu.Lock()
	t.drained = then
	none := t.pending == 0
	t.mu.Unlock()
	if none {
		then()
	}
}

// Close takes no more calls and ends those that are pending, with err.
func (t *Table) Close(err error) {
	t.mu.Lock()
	if t.closed != nil {
		t.mu.Unlock()
		return
	}
	t.closed = err
	var pending []*Call
	for _, a := range t.pool.All() {
		if a.assigned != nil {
			pending = append(pending, a.assigned)
		}
	}
	t.mu.Unlock()
	t.pool.Refuse(err)
	for _, c := range pending {
		c.Cancel(err)
	}
}

// Deliver passes on a response of the peer. The message is used until it returns.
func (t *Table) Deliver(gen uint64, m *mcp.Message) {
	r, ref, version := t.answered(gen, m.ID)
	if r == nil {
		t.deliverLate(gen, m)
		return
	}
	switch {
	case m.Kind == mcp.KindError:
		r.err = m.Error
	case version.Era() == mcp.EraModern && !knownResult(m.ResultType, r.call.req):
		r.err = &ResponseError{r.call.req.Method, fmt.Errorf("unknown resultType %q", m.ResultType)}
	default:
		r.result = resultOf(m, version)
	}
	ref.Send(r)
}

// deliverLate takes the result of a call that has ended, if its request has a Late.
func (t *Table) deliverLate(gen uint64, m *mcp.Message) {
	t.mu.Lock()
	var f func(Result)
	if gen == t.gen {
		f = t.late.take(m.ID)
	}
	version := t.version
	t.mu.Unlock()
	if m.Kind == mcp.KindResult {
		passLate(t.sys, f, resultOf(m, version), nil)
	}
}

// resultOf is the result of a response, to be kept.
func resultOf(m *mcp.Message, version mcp.Version) Result {
	r := Result{Raw: bytes.Clone(m.Result)}
	if version.Era() == mcp.EraModern {
		r.Type = m.ResultType
	}
	return r
}

// knownResult reports whether a result of that type can be understood (BASE-12):
// one of an extension can if the caller declared that.
func knownResult(resultType string, req *Request) bool {
	switch resultType {
	case "", mcp.ResultComplete, mcp.ResultInputRequired:
		return true
	}
	return slices.Contains(req.ResultTypes, resultType)
}

// Malformed ends the call that awaits an answer with this id: what came for it
// is not a response, because of err.
func (t *Table) Malformed(gen uint64, id mcp.ID, err error) {
	if r, ref, _ := t.answered(gen, id); r != nil {
		r.err = &ResponseError{r.call.req.Method, err}
		ref.Send(r)
	}
}

// answered takes the call that awaits an answer with this id out of the index,
// and returns the message for its actor, to be filled in.
func (t *Table) answered(gen uint64, id mcp.ID) (*response, actors.Ref, mcp.Version) {
	n, ok := id.Int64()
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.byID[n]
	if !ok || c == nil || gen != t.gen {
		t.stats.late.Add(1) // BASE-15, CANC-06
		return nil, actors.Ref{}, ""
	}
	delete(t.byID, n)
	c.id = 0
	r := &c.answer
	if c.answered { // an answer to an earlier attempt may still be in the mailbox
		r = new(response)
	}
	c.answered = true
	r.call, r.attempt = c, c.attempt
	return r, c.actor.Ref(), t.version
}

// Failed ends the attempt with this id, whose answer will not come, while
// generation gen goes on. If err wraps [ErrUnsent] the request is sent again: on the
// next connection, or on this one if that is still there after a moment. If not, a
// [TransportError] or an [*mcp.Error] in err is the answer; after any other error a
// request that is safe is sent again, and one that is not ends with a [LostError].
func (t *Table) Failed(gen uint64, id mcp.ID, err error) {
	n, ok := id.Int64()
	t.mu.Lock()
	c := t.byID[n]
	if !ok || c == nil || gen != t.gen {
		t.mu.Unlock()
		t.stats.late.Add(1)
		return
	}
	delete(t.byID, n)
	c.id = 0
	msg, ref := &failed{connectionLost{call: c, attempt: c.attempt, gen: gen, err: err}}, c.actor.Ref()
	t.mu.Unlock()
	ref.Send(msg)
}

// Progress passes on a progress notification of the peer.
func (t *Table) Progress(gen uint64, p *mcp.ProgressParams) {
	n, ok := p.ProgressToken.Int64()
	t.mu.Lock()
	c := t.byID[n]
	if c == nil {
		c = t.tokens[n]
	}
	if !ok || c == nil || gen != t.gen || c.progress == nil {
		t.mu.Unlock()
		t.stats.oddProgress.Add(1) // PROG-08
		return
	}
	msg := &progressReceived{call: c, attempt: c.attempt, Progress: Progress{p.Progress, p.Total, p.Message}}
	ref := c.actor.Ref()
	t.mu.Unlock()
	ref.Send(msg)
}

// OutCall is a call that awaits its answer.
type OutCall struct {
	ID           mcp.ID
	Method, Name string // of the attempt
	Tag          any    // of the [Request]
}

// Out returns the calls that are out on transport generation gen, the oldest
// attempt first.
func (t *Table) Out(gen uint64) []OutCall {
	t.mu.Lock()
	defer t.mu.Unlock()
	if gen != t.gen {
		return nil
	}
	ids := make([]int64, 0, len(t.byID))
	for id := range t.byID {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	out := make([]OutCall, 0, len(ids))
	for _, id := range ids {
		c := t.byID[id]
		o := OutCall{ID: mcp.IntID(id), Method: c.req.Method, Name: c.req.Name, Tag: c.req.Tag}
		if c.more != nil && c.more.retry != nil && c.more.retry.Method != "" {
			o.Method, o.Name = c.more.retry.Method, c.more.retry.Name
		}
		out = append(out, o)
	}
	return out
}

// CancelTagged cancels, with cause, the calls with this [Request.Tag] that await their
// answer. It does not wait.
func (t *Table) CancelTagged(tag any, cause error) {
	t.mu.Lock()
	var tagged []*Call
	for _, c := range t.byID {
		if c.req.Tag == tag {
			tagged = append(tagged, c)
		}
	}
	t.mu.Unlock()
	for _, c := range tagged {
		c.Cancel(cause)
	}
}
