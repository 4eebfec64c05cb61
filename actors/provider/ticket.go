package provider

import (
	"context"
	"fmt"
	"sync"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/lazy"
	"github.com/troupe-dev/troupe/llm"
)

// ticket is one request: what its goroutine, its completion and its provider share.
type ticket struct {
	provider *provider
	model    llm.Model
	ctx      lazy.Context // of all attempts; ends with the caller's, or by fail
	seq      uint64       // order of coming; set when it enters

	// The provider's actor's alone; of a request that was out at once, before that its
	// goroutine's.
	by    *supervisor // the incarnation that began it
	place place

	parent actors.Ref // of the completion; set before it starts

	mu        sync.Mutex    // guards what follows; nothing is sent under it
	ref       actors.Ref    // the completion; zero before it has begun
	decisions []decision    // that its goroutine has not taken; some few at the most
	wake      chan struct{} // closed by the next decision; nil unless its goroutine waits for it
}

// observer is who is told of the request.
func (t *ticket) observer() *llm.Observer { return llm.ObserverOf(&t.ctx) }

// place is where a request is.
type place uint8

const (
	aside   place = iota // between two attempts, or not there
	queued               // waits for a place
	outside              // has one
)

// decision is what a completion tells its goroutine to do.
type decision struct {
	kind    kind
	probe   bool        // proceed: it is the one that tries whether the server is back
	told    llm.Attempt // retry
	restart bool        // retry: what the reader has is void
	err     error       // over and broken
}

type kind uint8

const (
	proceed kind = iota // make an attempt
	retry               // another attempt follows, after a wait
	over                // it has ended
	broken              // its context has
)

// begun notes the completion. It reports false if the request has ended meanwhile, and
// then tells it.
func (t *ticket) begun(ref actors.Ref) bool {
	t.note(ref)
	if t.ctx.Err() != nil { // its goroutine may have looked for the completion before
		ref.Send(&cancelled{})
		return false
	}
	return true
}

func (t *ticket) note(ref actors.Ref) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ref = ref
}

// tell sends a message to the completion, if there is one.
func (t *ticket) tell(msg any) {
	t.mu.Lock()
	ref := t.ref
	t.mu.Unlock()
	ref.Send(msg)
}

// decide hands a decision to the goroutine.
func (t *ticket) decide(d decision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.decisions = append(t.decisions, d)
	if t.wake != nil {
		close(t.wake)
		t.wake = nil
	}
}

// take returns the oldest decision that was not taken. If there is none, the channel is
// closed by the next.
func (t *ticket) take() (d decision, ok bool, wake <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.decisions) == 0 {
		t.wake = make(chan struct{})
		return d, false, t.wake
	}
	d = t.decisions[0]
	if t.decisions = t.decisions[1:]; len(t.decisions) == 0 {
		t.decisions = nil // an attempt takes long, and there is nothing to tell meanwhile
	}
	return d, true, nil
}

// next waits for a decision. The end of the context is one, unless the completion has
// decided on another end before.
func (t *ticket) next() decision {
	for {
		ended := t.ctx.Err() != nil // looked at first: what was decided before it counts
		d, ok, wake := t.take()
		for ok {
			if d.kind == over || !ended {
				return d
			}
			d, ok, wake = t.take()
		}
		if ended {
			return decision{kind: broken, err: context.Cause(&t.ctx)}
		}
		select {
		case <-wake:
		case <-t.ctx.Done():
		}
	}
}

// fail ends the request from outside.
func (t *ticket) fail(why error) { t.ctx.End(t.provider.wrap(t.model, why)) }

// stopped is called once the completion has, whatever the reason.
func (t *ticket) stopped(failure error) {
	why := failure
	if why == nil {
		why = fmt.Errorf("the completion was stopped: %w", actors.ErrStopped)
	}
	t.fail(why) // nothing if it has ended by itself
	t.parent.Send(&gone{t})
}
