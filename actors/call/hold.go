package call

import (
	"sync"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
)

// Hold keeps the clocks of the call with this id on transport generation gen still
// until release is called: a person is asked for its sake. The zero id means all
// calls that are out on it, or go out before release: the peer does not say which of
// them the question belongs to. Holds nest, and outlive retries of the call. Release
// may be called from any goroutine, and more than once.
func (t *Table) Hold(gen uint64, id mcp.ID) (release func()) {
	t.mu.Lock()
	if gen != t.gen || t.link == nil {
		t.mu.Unlock()
		return func() {}
	}
	h := &hold{gen: gen, calls: make(map[*Call]struct{})}
	if id.IsZero() {
		h.older, t.open = t.open, h
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
	return sync.OnceFunc(func() { h.release(t) })
}

func (h *hold) release(t *Table) {
	t.mu.Lock()
	for at := &t.open; *at != nil; at = &(*at).older {
		if *at == h {
			*at = h.older
			break
		}
	}
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
