package asks

import (
	"slices"
	"time"
)

// abandonedCall is a call that ended without an answer and that the server may still work
// on. A legacy server does not say that a question is of one of those, so they are
// remembered for AbandonedLife, and at most MaxAbandoned of them.
type abandonedCall struct {
	tag *Call
	gen uint64
}

const (
	AbandonedLife = 5 * time.Minute
	MaxAbandoned  = 256
)

func (a abandonedCall) over(now time.Time) bool { return now.Sub(a.tag.abandoned) >= AbandonedLife }

// remember keeps a call that has ended without an answer.
func (a *Asks) remember(t *Call) {
	now := time.Now()
	// Not the tag itself, which has the call's parameters.
	light := &Call{asks: t.asks, Client: t.Client, Method: t.Method, Name: t.Name, Human: t.Human, Sampler: t.Sampler, Roots: t.Roots, Path: t.Path, abandoned: now}
	added := abandonedCall{light, a.Conn.Status().Generation}
	for {
		before := a.abandoned.Load()
		var all []abandonedCall
		if before != nil {
			all = slices.DeleteFunc(slices.Clone(*before), func(c abandonedCall) bool { return c.over(now) })
		}
		all = append(all[max(0, len(all)+1-MaxAbandoned):], added)
		if a.abandoned.CompareAndSwap(before, &all) {
			return
		}
	}
}

// abandonedOf returns the abandoned calls of a generation of the connection: another
// process, or session, knows nothing of the others.
func (a *Asks) abandonedOf(gen uint64) (tags []*Call) {
	all := a.abandoned.Load()
	if all == nil {
		return nil
	}
	now := time.Now()
	for _, c := range *all {
		if c.gen == gen && !c.over(now) {
			tags = append(tags, c.tag)
		}
	}
	return tags
}
