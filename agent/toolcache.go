package agent

import (
	"context"
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

// Offer implements [loop.Tools]: functions of the program first, then the servers' tools in
// the host's order. Runs whose tools are those of every other run of their agent share one.
func (t *toolbox) Offer(ctx context.Context) (*loop.Offer, []runlog.Absent) {
	if len(t.agent.team) > 0 || t.sampler != nil || t.roots != nil { // it has tools of its own
		found, absent := t.find(ctx)
		offer := loop.NewOffer(t.choose(found))
		return offer.With(t.servers.texts(ctx, offer.Servers())), absent
	}
	found, absent := t.find(ctx)
	offer := t.agent.offers.get(found, t.choose)
	return t.agent.offers.with(offer, t.servers.texts(ctx, offer.Servers())), absent
}

// ManyTools is how many tools the widely used model services take at most. A runtime warns
// once of an agent whose model is given more.
const ManyTools = 128

// warnOfMany says once for each agent that its model is given more tools than that.
func (a *Agent) warnOfMany(count int) {
	if count > ManyTools && !a.warned.Swap(true) {
		a.rt.sys.Log().Warn("the model is given more tools than many models take: leave some out with --tool and --no-tool, or with the agent's allow and deny",
			"agent", a.name, "tools", count, "most", ManyTools)
	}
}
