// Package claims takes over runs that a process has left, each with those of its sub-agents that
// were under way, which have the same lease.
package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/owner"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// defaultLease is that of a [Claimer] without one.
const defaultLease = time.Minute

// Refusal reports that a run cannot go on. The run is as it was.
type Refusal = loop.RefusedError

// Claimer claims runs for a runtime.
type Claimer struct {
	Store store.Store
	Owner string        // of the leases
	Lease time.Duration // zero means one minute
}

// Policies are those of the runs that go on, as [loop.Resumption] has them.
type Policies struct{ Unknown, OnDrift string }

// Tree is a run that was claimed to go on, with those of its sub-agents that were under way.
type Tree struct {
	loop.Resumption
	Children []*Tree
	held     bool // its lease is the caller's, who gives it up
}

// LeaseTime returns how long a lease lasts.
func (cl *Claimer) LeaseTime() time.Duration { return cmp.Or(cl.Lease, defaultLease) }

// Run claims a run, also one whose lease lasts and whose owner is known to be gone. The error of any other is
// [store.ErrLeased]; so it is of a job's run, which a worker goes on with and counts as lost.
func Run(ctx context.Context, s store.Store, id, name string, ttl time.Duration) (store.Run, error) {
	head, err := s.Claim(ctx, id, name, ttl)
	if !errors.Is(err, store.ErrLeased) {
		return head, err
	}
	held, failed := s.Run(ctx, id)
	if failed != nil || held.Job != "" || !owner.Gone(held.Owner) {
		return head, cmp.Or(failed, err)
	}
	failed = s.Release(ctx, id, held.Owner, held.Epoch)
	if failed != nil && !errors.Is(failed, store.ErrFenced) { // fenced: another process was faster
		return head, failed
	}
	return s.Claim(ctx, id, name, ttl)
}

// Claim claims a run with those of its sub-agents that were under way, and folds their journals.
func (cl *Claimer) Claim(ctx context.Context, id string, p Policies) (*Tree, error) {
	at := time.Now()
	head, err := Run(ctx, cl.Store, id, cl.Owner, cl.LeaseTime())
	if err != nil {
		return nil, err
	}
	return cl.Take(ctx, head, at, p)
}

// Take is Claim for a run whose lease the claimer has, since that time or a little later.
func (cl *Claimer) Take(ctx context.Context, head store.Run, at time.Time, p Policies) (*Tree, error) {
	return cl.take(ctx, &Tree{Resumption: loop.Resumption{Claimed: at, Head: head}}, p)
}

// Hold is Claim for a run whose lease the caller has, and renews for lasts: it stays the caller's if the run cannot go on.
func (cl *Claimer) Hold(ctx context.Context, id, owner string, epoch int64, lasts time.Duration, p Policies) (*Tree, error) {
	at := time.Now()
	if err := cl.Store.Renew(ctx, id, owner, epoch, cmp.Or(lasts, cl.LeaseTime())); err != nil {
		return nil, err
	}
	head, err := cl.Store.Run(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case head.State.Ended():
		return nil, store.ErrFinished
	case !head.HeldBy(owner, epoch):
		return nil, store.ErrFenced
	}
	return cl.take(ctx, &Tree{Resumption: loop.Resumption{Claimed: at, Head: head}, held: true}, p)
}

// Look folds the journals of a run that is not claimed, and those of the runs below it: as they were at that moment.
func (cl *Claimer) Look(ctx context.Context, head store.Run, p Policies) (*Tree, error) {
	t := &Tree{Resumption: loop.Resumption{Head: head}, held: true}
	return t, cl.fold(ctx, t, p)
}

func (cl *Claimer) take(ctx context.Context, t *Tree, p Policies) (*Tree, error) {
	if err := cl.fold(ctx, t, p); err != nil {
		return nil, errors.Join(err, cl.Release(ctx, t))
	}
	return t, nil
}

// fold reads the journal of a run, and those of the runs below it.
func (cl *Claimer) fold(ctx context.Context, t *Tree, p Policies) (err error) {
	t.Unknown, t.OnDrift = p.Unknown, p.OnDrift
	if t.State, err = runlog.Fold(ctx, cl.Store, t.Head.ID); err != nil {
		return err
	}
	switch began := t.State.Started; {
	case began == nil || len(began.Input) == 0:
		return &Refusal{Run: t.Head.ID, Why: "its journal does not say what it began with"}
	case began.Fork != "" && t.State.Forked == nil:
		return &Refusal{Run: t.Head.ID, Why: fmt.Sprintf("it is a fork of the run %s that was not copied whole: fork that run again", began.Fork)}
	}
	if t.Decided, err = cl.decided(ctx, t.Head.ID, t.State); err != nil {
		return err
	}
	for _, c := range t.State.Calls {
		if c.Run != "" {
			if err := cl.below(ctx, t, c, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// below takes in the run that a call has started, if it goes on, and adds what it has spent.
func (cl *Claimer) below(ctx context.Context, t *Tree, c *runlog.CallState, p Policies) error {
	head, err := cl.Store.Run(ctx, c.Run)
	switch {
	case errors.Is(err, store.ErrNotFound): // it was not begun
		return nil
	case err != nil:
		return err
	case head.State.Ended():
		end, err := cl.endOf(ctx, head)
		if end != nil {
			t.Below = t.Below.Plus(end.Spent)
		}
		return err
	case !c.Open() || head.Root != t.Head.Root: // the latter is the fork's of that run
		return nil
	case !t.Claimed.IsZero() && !head.HeldBy(t.Head.Owner, t.Head.Epoch): // else it is looked at
		return store.ErrFenced
	}
	child := &Tree{Resumption: loop.Resumption{Claimed: t.Claimed, Head: head, Counted: true}}
	if err := cl.fold(ctx, child, p); err != nil {
		return err
	}
	t.Children, t.Below = append(t.Children, child), t.Below.Plus(child.Spent())
	t.Raised = append(append(t.Raised, child.Raised...), child.State.Raised...)
	return nil
}

// Release gives up the claim of a run and of those below it, unless the lease is the caller's.
func (cl *Claimer) Release(ctx context.Context, t *Tree) error {
	if t.held {
		return nil
	}
	return cl.Store.Release(context.WithoutCancel(ctx), t.Head.ID, t.Head.Owner, t.Head.Epoch)
}

// decided returns the questions of a run that were decided while no process worked on it.
func (cl *Claimer) decided(ctx context.Context, run string, s *runlog.State) (map[string]store.Ask, error) {
	out := make(map[string]store.Ask)
	for _, q := range s.Asks {
		if q.Settled != nil && !s.WaitsFor(q) {
			continue
		}
		row, err := cl.Store.Ask(ctx, q.Ask.ID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		if err == nil && row.Run == run && row.Status != store.AskPending {
			out[row.ID] = row
		}
	}
	return out, nil
}

// endOf returns how a run has ended; nil where its journal does not say.
func (cl *Claimer) endOf(ctx context.Context, head store.Run) (*runlog.RunFinished, error) {
	last, err := cl.Store.Events(ctx, head.ID, head.Seq-1, 1)
	if err != nil || len(last) == 0 {
		return nil, err
	}
	e, err := runlog.Decode(last[0])
	end, _ := e.Body.(*runlog.RunFinished)
	return end, err
}
