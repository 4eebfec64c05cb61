// agents.go: the actor that all runs of a runtime are children of. It knows its tenants, too.
//
//	open ──── stopRuns ────▶ closing ──── last run stopped ────▶ (answers, then is stopped)

package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/store"
)

// keepEnded is how many runs that have ended are remembered by their ID. The store
// knows all others, unless it is the runtime's own: then they are forgotten.
const keepEnded = 128

// Messages.
type (
	startRun struct {
		run   *Run
		reply *actors.Reply[*Run]
	}
	// cancelStart abandons a run whose caller did not wait for its start.
	cancelStart struct {
		run   *Run
		cause error
	}
	stopRuns struct {
		of    *Tenant // nil: all, and no more are started
		cause error
		reply *actors.Reply[struct{}]
	}
	// listRuns with parks set is for a runtime that closes: no more runs are started but those of sub-agents.
	listRuns struct {
		parks bool
		reply *actors.Reply[[]*Run]
	}
	// followRun begins to follow a run, or is answered with the handle that follows it already.
	followRun struct {
		run   *Run
		reply *actors.Reply[*Run]
	}
	followedRun struct{ run *Run } // it is not followed any more
	// findRun is answered with nil for a run that is not known here.
	findRun struct {
		id    string
		reply *actors.Reply[*Run]
	}
	// newTenant takes a tenant in, and is answered with its number.
	newTenant struct {
		tenant  *Tenant
		maximum int
		reply   *actors.Reply[int]
	}
	// openedTenant notes that a tenant has its connections.
	openedTenant struct {
		tenant *Tenant
		reply  *actors.Reply[struct{}]
	}
	closedTenant struct{ tenant *Tenant }
	// closeTenants is answered with the tenants that have connections. No more are taken.
	closeTenants struct{ reply *actors.Reply[[]*Tenant] }
)

// agents is touched by its own goroutine only.
type agents struct {
	store   store.Store
	forget  bool // runs that are not remembered are deleted from the store
	maximum int  // of live runs

	runs    map[string]*Run // by ID: live ones, and the last ones that have ended
	live    map[actors.Ref]*Run
	ended   []*Run          // oldest first
	follows map[string]*Run // by ID: runs of other processes that are followed
	parking bool            // only sub-agents start runs
	closing bool
	waiting []*stopRuns // for the end of runs

	tenants map[*Tenant]bool // whether each has its connections
	numbers int              // given to tenants
}

// Receive implements [actors.Actor].
func (a *agents) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case *startRun:
		m.reply.Complete(a.start(c, m.run))
	case cancelStart:
		if a.runs[m.run.id] == m.run {
			m.run.abandon(m.cause)
		}
	case *stopRuns:
		a.stop(m)
	case *findRun:
		m.reply.Complete(a.find(m.id), nil)
	case *listRuns:
		if m.parks {
			a.park()
		}
		m.reply.Complete(slices.Collect(maps.Values(a.live)), nil)
	case *followRun:
		m.reply.Complete(a.follow(c, m.run))
	case followedRun:
		if a.follows[m.run.id] == m.run {
			delete(a.follows, m.run.id)
		}
	case *newTenant:
		m.reply.Complete(a.newTenant(m))
	case *openedTenant:
		m.reply.Complete(struct{}{}, a.openedTenant(m.tenant))
	case closedTenant:
		delete(a.tenants, m.tenant)
	case *closeTenants:
		a.closing = true
		m.reply.Complete(a.openTenants(), nil)
	case actors.ChildStopped:
		a.stopped(c, m.Ref)
	}
}

func (a *agents) newTenant(m *newTenant) (number int, err error) {
	switch {
	case a.closing:
		return 0, ErrClosed
	case len(a.tenants) >= m.maximum:
		return 0, fmt.Errorf("%w: %d", ErrTooManyTenants, len(a.tenants))
	}
	a.tenants[m.tenant] = false
	a.numbers++
	return a.numbers, nil
}

func (a *agents) openedTenant(t *Tenant) error {
	if a.closing {
		delete(a.tenants, t)
		return ErrClosed
	}
	a.tenants[t] = true
	return nil
}

func (a *agents) openTenants() (open []*Tenant) {
	for t, connected := range a.tenants {
		if connected {
			open = append(open, t)
		}
	}
	return open
}

// errUnopened comes with another run of an ID that is not in the store yet, or was refused
// there: it is not known whose the ID is until that run is opened, or has stopped. For a run that goes
// on it also comes with one that has ended here and has not stopped.
var errUnopened = errors.New("another run of this ID is being opened")

// start begins a run, or returns the one that has its ID.
func (a *agents) start(c *actors.Context, run *Run) (*Run, error) {
	if old := a.runs[run.id]; old != nil && (old.left() || run.resumes && !old.works()) {
		if !old.stopped() {
			return old, errUnopened
		}
		a.ended = slices.DeleteFunc(a.ended, func(r *Run) bool { return r == old }) // it is not dropped
		delete(a.runs, run.id)
		delete(a.live, old.loop.Ref())
	} else if old != nil {
		switch {
		case old.hash == run.hash && old.tenant == run.tenant:
			return old, nil
		case old.loop.Begun():
			return nil, ErrRunExists
		}
		return old, errUnopened
	}
	switch {
	case a.closing, a.parking && run.record.from == nil:
		return nil, ErrClosed
	case run.tenant != nil && run.tenant.gone.Load():
		return nil, errTenantClosed
	case a.full():
		return nil, ErrTooManyRuns
	}
	run.traced.begin()
	if err := run.loop.Start(c); err != nil {
		run.traced.over(nil, err)
		return nil, err
	}
	a.runs[run.id] = run
	a.live[run.loop.Ref()] = run
	return run, nil
}

// find returns the run of an ID; nil for one that the store has refused, as another run has the ID, and for one that was left
// before its end: it may go on in any process.
func (a *agents) find(id string) *Run {
	run := a.runs[id]
	if run != nil && (run.loop.Refused() || run.left()) {
		return nil
	}
	return run
}

// follow begins to follow a run that another process works on.
func (a *agents) follow(c *actors.Context, run *Run) (*Run, error) {
	switch other := a.follows[run.id]; {
	case other != nil && other.tenant != run.tenant:
		return nil, ErrRunExists
	case other != nil && !other.following.ended.Completed(): // else it is about to be forgotten
		return other, nil
	case a.closing, a.parking:
		return nil, ErrClosed
	case len(a.follows) >= a.maximum:
		return nil, ErrTooManyRuns
	}
	a.follows[run.id] = run
	run.following.stop = actors.Await(c, func(ctx context.Context) (struct{}, error) {
		run.follow(ctx)
		return struct{}{}, nil
	}, func(struct{}, error) any { return followedRun{run} })
	return run, nil
}

// park ends what goes on by itself: runs of other processes are not followed any more, and none is taken over.
func (a *agents) park() {
	a.parking = true
	a.leave(nil, ErrClosed)
}

// leave ends the following of runs, of those of a tenant if it is not nil.
func (a *agents) leave(of *Tenant, cause error) {
	for _, run := range a.follows {
		if of == nil || run.tenant == of {
			run.following.stop(cause)
		}
	}
}

// full reports whether as many runs are under way as may be. A run that has its outcome
// is not, though its actor may still be stopping: its caller may start the next.
func (a *agents) full() bool {
	if len(a.live) < a.maximum {
		return false
	}
	n := 0
	for _, run := range a.live {
		select {
		case <-run.loop.Ended():
		default:
			n++
		}
	}
	return n >= a.maximum
}

// stop cancels runs, and answers once they are gone.
func (a *agents) stop(m *stopRuns) {
	a.closing = a.closing || m.of == nil
	a.leave(m.of, m.cause)
	a.waiting = append(a.waiting, m)
	for _, run := range a.live {
		if m.means(run) {
			run.Cancel(m.cause)
		}
	}
	a.answer()
}

func (m *stopRuns) means(run *Run) bool { return m.of == nil || run.tenant == m.of }

func (a *agents) answer() {
	a.waiting = slices.DeleteFunc(a.waiting, func(m *stopRuns) bool {
		for _, run := range a.live {
			if m.means(run) {
				return false
			}
		}
		m.reply.Complete(struct{}{}, nil)
		return true
	})
}

// stopped keeps the newest of the runs that have ended.
func (a *agents) stopped(c *actors.Context, ref actors.Ref) {
	run := a.live[ref]
	if run == nil {
		return
	}
	delete(a.live, ref)
	if !run.loop.Begun() {
		run.traced.over(nil, run.loop.Outcome().Err) // else its record reports it
		delete(a.runs, run.id)
	} else if a.ended = append(a.ended, run); len(a.ended) > keepEnded {
		a.drop(c, a.ended[0])
		a.ended = a.ended[1:]
	}
	a.answer()
}

func (a *agents) drop(c *actors.Context, run *Run) {
	delete(a.runs, run.id)
	if !a.forget {
		return
	}
	j := a.store
	c.Go(func(ctx context.Context) {
		if err := j.Delete(ctx, run.id); err != nil {
			c.System().Log().Warn("a run could not be forgotten", "run", run.id, "error", err)
		}
	})
}

// start begins a run, or finds the one that has its ID.
func (rt *Runtime) start(ctx context.Context, run *Run) (*Run, error) {
	found, err := rt.begin(ctx, run)
	if err != nil {
		return nil, err
	}
	opened, err := found.opened(ctx)
	if err != nil && found == run {
		run.abandon(err)
	}
	return opened, err
}

// begin is start without the wait until the run is recorded. It waits for another run of
// the ID that is not recorded yet.
func (rt *Runtime) begin(ctx context.Context, run *Run) (*Run, error) {
	for {
		found, err := rt.tryBegin(ctx, run)
		if !errors.Is(err, errUnopened) {
			return found, err
		}
		if _, err := found.loop.Opened(ctx); err == nil && found.works() {
			continue // it has the ID
		}
		select {
		case <-found.loop.Stopped(): // the actor of all runs has forgotten it by the next message
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// tryBegin is begin without any wait: with [errUnopened] comes the run to wait for.
func (rt *Runtime) tryBegin(ctx context.Context, run *Run) (*Run, error) {
	if ctx.Err() != nil { // else the answer and the end race
		return nil, context.Cause(ctx)
	}
	found, err := actors.Ask(ctx, rt.agents, func(r *actors.Reply[*Run]) any { return &startRun{run, r} })
	switch {
	case errors.Is(err, actors.ErrStopped) || errors.Is(err, actors.ErrClosed):
		return nil, ErrClosed
	case errors.Is(err, errUnopened):
		return found, err
	case err != nil:
		rt.agents.Send(cancelStart{run, err}) // it may have started all the same
		return nil, err
	}
	return found, nil
}

// stopRuns cancels the runs of a tenant, or of all and takes no more if it is nil, and
// waits for their end.
func (rt *Runtime) stopRuns(ctx context.Context, of *Tenant, cause error) error {
	if rt.agents.IsZero() {
		return nil
	}
	_, err := actors.Ask(ctx, rt.agents, func(r *actors.Reply[struct{}]) any { return &stopRuns{of, cause, r} })
	if errors.Is(err, actors.ErrStopped) {
		return nil
	}
	return err
}

// followed has a run of another process followed.
func (rt *Runtime) followed(ctx context.Context, run *Run) (*Run, error) {
	found, err := actors.Ask(ctx, rt.agents, func(r *actors.Reply[*Run]) any { return &followRun{run, r} })
	if errors.Is(err, actors.ErrStopped) || errors.Is(err, actors.ErrClosed) {
		return nil, ErrClosed
	}
	return found, err
}

// Runs returns the runs that have not ended, sub-agents' among them, in no order.
func (rt *Runtime) Runs(ctx context.Context) ([]*Run, error) {
	return rt.list(ctx, false)
}

func (rt *Runtime) list(ctx context.Context, parks bool) ([]*Run, error) {
	runs, err := actors.Ask(ctx, rt.agents, func(r *actors.Reply[[]*Run]) any { return &listRuns{parks, r} })
	if errors.Is(err, actors.ErrStopped) || errors.Is(err, actors.ErrClosed) {
		return nil, nil
	}
	return runs, err
}

// Find returns the run of an ID: one that this runtime works on or has ended, or one that is in the store,
// of another process or of the past, which can be waited for and read but not cancelled: it is followed by its
// journal, in whatever processes it goes on. A
// sub-agent's run is found in the store. The error is [store.ErrNotFound] if there is none.
func (rt *Runtime) Find(ctx context.Context, id string) (*Run, error) {
	run, err := actors.Ask(ctx, rt.agents, func(r *actors.Reply[*Run]) any { return &findRun{id, r} })
	switch {
	case errors.Is(err, actors.ErrStopped) || errors.Is(err, actors.ErrClosed):
		return nil, ErrClosed
	case err != nil:
		return nil, err
	case run != nil:
		return run, nil
	}
	head, err := rt.store.Run(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("finding run %q: %w", id, err)
	}
	return &Run{id: head.ID, store: rt.store}, nil
}
