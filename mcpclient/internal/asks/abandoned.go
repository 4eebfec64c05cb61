package asks

import (
	"slices"
	"sync"
	"time"
)

// abandonedCalls are calls that ended without an answer and that the server may still
// work on. A legacy server does not say that a question is of one of those, so they are
// remembered for AbandonedLife, and at most MaxAbandoned of them.
type abandonedCalls struct {
	mu  sync.Mutex // guards all: calls end on many goroutines
	all []abandonedCall
	gen func() uint64
}

type abandonedCall struct {
	tag *Call
	gen uint64
}

const (
	AbandonedLife = 5 * time.Minute
	MaxAbandoned  = 256
)

func (a abandonedCall) over(now time.Time) bool { return now.Sub(a.tag.abandoned) >= AbandonedLife }

// add remembers a call that has ended without an answer.
func (l *abandonedCalls) add(t *Call) {
	if !MayAsk(t.Method) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.all = slices.DeleteFunc(l.all, func(a abandonedCall) bool { return a.over(now) })
	if len(l.all) == MaxAbandoned {
		l.all = slices.Delete(l.all, 0, 1)
	}
	// Not the tag itself, which has the call's parameters.
	light := &Call{asks: t.asks, Client: t.Client, Method: t.Method, Name: t.Name, Human: t.Human, Sampler: t.Sampler, Roots: t.Roots, Path: t.Path, abandoned: now}
	l.all = append(l.all, abandonedCall{light, l.gen()})
}

// of returns those of a generation of the connection: another process, or session,
// knows nothing of the others.
func (l *abandonedCalls) of(gen uint64) []*Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	var tags []*Call
	for _, a := range l.all {
		if a.gen == gen && !a.over(now) {
			tags = append(tags, a.tag)
		}
	}
	return tags
}
