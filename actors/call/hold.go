package call

import (
	"slices"
	"sync"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
)

// hold keeps the clocks of some calls still. It is guarded by the table's lock.
type hold struct {
	gen   uint64
	calls map[*Call]struct{}
}

// add holds the call. Its actor looks when the call begins or goes on; one that
// works on the call already is to be told.
func (h *hold) add(c *Call) {
	if _, has := h.calls[c]; !has {
		h.calls[c] = struct{}{}
		c.holds.Add(1)
	}
}

func (h *hold) remove(c *Call) {
	if _, has := h.calls[c]; has {
		delete(h.calls, c)
		c.holds.Add(-1)
	}
}

// Hold keeps the clocks of the call with this id on transport generation gen still
// until release is called: a person is asked for its sake (TIME-05). The zero id
// means all calls that are out on it, or go out before release: the peer does not say
// which of them the question belongs to. Holds nest, and outlive retries of the
// call. Release may be called from any goroutine, and more than once.
func (t *Table) Hold(gen uint64, id mcp.ID) (release func()) {
	t.mu.Lock()
	if gen != t.gen || t.link == nil {
		t.mu.Unlock()
		return func() {}
	}
	h := &hold{gen: gen, calls: make(map[*Call]struct{})}
	if id.IsZero() {
		t.open = append(t.open, h)
		for _, c := range t.byID {
			h.add(c)
		}
	} else if n, ok := id.Int64(); ok && t.byID[n] != nil {
		h.add(t.byID[n])
	}
	told := h.audience()
	t.mu.Unlock()
	for c, ref := range told {
		ref.Send(&held{call: c})
	}
	return sync.OnceFunc(func() { t.release(h) })
}

func (t *Table) release(h *hold) {
	t.mu.Lock()
	t.open = slices.DeleteFunc(t.open, func(o *hold) bool { return o == h })
	told := h.audience()
	for c := range h.calls {
		h.remove(c)
	}
	t.mu.Unlock()
	for c, ref := range told {
		ref.Send(&released{call: c})
	}
}

// audience returns the actors of the calls.
func (h *hold) audience() map[*Call]actors.Ref {
	told := make(map[*Call]actors.Ref, len(h.calls))
	for c := range h.calls {
		if c.actor != nil {
			told[c] = c.actor.Ref()
		}
	}
	return told
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
