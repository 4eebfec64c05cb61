package agent

import (
	"slices"
	"sync/atomic"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/runlog"
)

// offers keeps the newest offer of an agent's tools, which its runs share: ten tools are
// four kilobytes, and there may be thousands of runs. Of two runs that make one at the same
// moment one is kept.
type offers struct{ newest atomic.Pointer[cachedOffer] }

// cachedOffer is an offer, and the list that it was made of.
type cachedOffer struct {
	of    *loop.Tool // the first of the servers' tools; nil for none
	count int        // how many those were
	offer *loop.Offer
}

// get returns the offer of a list that servers gave out, which they replace whole.
func (o *offers) get(found []loop.Tool, choose func([]loop.Tool) []loop.Tool) *loop.Offer {
	var of *loop.Tool
	if len(found) > 0 {
		of = &found[0]
	}
	if c := o.newest.Load(); c != nil && c.of == of && c.count == len(found) {
		return c.offer
	}
	c := &cachedOffer{of, len(found), loop.NewOffer(choose(found))}
	o.newest.Store(c)
	return c.offer
}

// with returns the offer with the instructions of servers, the same one for all runs.
func (o *offers) with(offer *loop.Offer, texts []runlog.ServerText) *loop.Offer {
	if slices.Equal(offer.Texts(), texts) {
		return offer
	}
	with := offer.With(texts)
	if c := o.newest.Load(); c != nil && c.offer == offer {
		o.newest.CompareAndSwap(c, &cachedOffer{c.of, c.count, with})
	}
	return with
}
