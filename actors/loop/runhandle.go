package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/journal"
	"github.com/troupe-dev/troupe/actors/loop/internal/spend"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// Run is the handle of a run. Its methods may be called from any goroutine once
// Start has returned, Answer also before: as soon as a [Sink] has the ask.
type Run struct {
	cfg    config // as it begins: a hand-off gives the actor another
	spend  *spend.Spending
	below  bool       // it is a part of another run, which has the lease
	begin  sync.Mutex // held by Start until ref is set, see [Run.Ref]. No actor's state: Run is the handle of one
	ref    actors.Ref
	opened actors.Reply[begun]
	told   atomic.Pointer[func()] // called once opened is complete
	// creation is the attempt to record the run that is under way; nil for none. It is the actor's, and of died.
	creation *journal.Creation
	ended    actors.Reply[*Outcome]
}

// begun is the result of recording that a run begins.
type begun struct {
	epoch int64      // of its lease
	taken *store.Run // the run that has its ID; nil if it is this one
}

// Start spawns the run's actor as a child of c's, from whose Receive it is called,
// once.
func (r *Run) Start(c *actors.Context) error {
	sys := c.System()
	// The model's own code is asked for its name and price.
	spent, err := actors.Guard(func() (*spend.Spending, error) { return openSpending(&r.cfg) })
	if err != nil {
		r.open(begun{}, err)
		return err
	}
	r.spend = spent
	r.begin.Lock()
	defer r.begin.Unlock()
	ref, err := c.Spawn(actors.Spec{
		Kind: r.cfg.Kind,
		Name: r.cfg.Kind.String() + "-" + r.cfg.ID,
		New:  func() actors.Actor { return newRun(r) },
		OnStop: func(err error) {
			spent.Close(err) // also after a kill: nothing stays held
			r.died(sys, err)
		},
	})
	if err != nil {
		spent.Close(err)
		r.open(begun{}, err)
		return err
	}
	r.ref = ref
	return nil
}

// Opened waits until the run is in the journal, and returns its ID and epoch. An ID that
// is taken gives the run that has it and [store.ErrExists]; this run has no outcome then.
func (r *Run) Opened(ctx context.Context) (store.Run, error) {
	b, err := r.opened.Wait(ctx)
	switch {
	case b.taken != nil:
		return *b.taken, err
	case err != nil:
		return store.Run{}, err
	}
	return store.Run{ID: r.cfg.ID, Epoch: b.epoch}, nil
}

// Below has a run that a call of this one starts begun, or go on, under the lease of this one's tree.
func (r *Run) Below(own *Own) {
	b, _ := r.opened.Result()
	own.Job, own.Owner, own.Epoch, own.Lease, own.Held = r.cfg.Job, r.cfg.Owner, b.epoch, r.cfg.Own.Lease, true
}

// OnOpened has f called, once, as soon as Opened returns without a wait. It must not block. It is for one caller.
func (r *Run) OnOpened(f func()) {
	r.told.Store(&f)
	if r.opened.Completed() {
		r.tell()
	}
}

// open completes opened, and reports whether it was not.
func (r *Run) open(b begun, err error) bool {
	first := r.opened.Complete(b, err)
	r.tell()
	return first
}

func (r *Run) tell() {
	if f := r.told.Swap(nil); f != nil {
		(*f)()
	}
}

// Begun reports whether the run is in the journal.
func (r *Run) Begun() bool {
	_, err := r.opened.Result()
	return r.opened.Completed() && err == nil
}

// Refused reports whether the run could not be written to the journal, and so will end.
func (r *Run) Refused() bool {
	_, err := r.opened.Result()
	return r.opened.Completed() && err != nil
}

// Cancel ends the run. The first cause counts; on a run that has ended it does nothing.
func (r *Run) Cancel(cause error) { r.Ref().Send(cancelRun{cause}) }

// Leave ends the work of this process on the run, wherever it is, since another one has it or will have it: what is under way
// is cancelled here, nothing is appended, no question is withdrawn, and the outcome is a [*LeftError] with the
// cause. On a run that has ended or that is suspended it does nothing. It does not wait.
func (r *Run) Leave(cause error) { r.Ref().Send(leaveRun{cause}) }

// Ended returns a channel that is closed once the run has its outcome.
func (r *Run) Ended() <-chan struct{} { return r.ended.Done() }

// Outcome returns how the run has ended; before that the zero value.
func (r *Run) Outcome() Outcome {
	if out, _ := r.ended.Result(); out != nil {
		return *out
	}
	return Outcome{}
}

// Ref returns the run's actor. It waits for a Start under way: the run's parent hands
// the Run out before, and a reader of the [Sink] may act on the first event.
func (r *Run) Ref() actors.Ref {
	r.begin.Lock()
	defer r.begin.Unlock()
	return r.ref
}

// Stopped returns a channel that is closed once the run's actor is gone.
func (r *Run) Stopped() <-chan struct{} { return r.Ref().Stopped() }

// Answer decides an ask of this run. It returns [store.ErrSettled] and the ask as
// it was decided if another answer was faster, the clock included.
func (r *Run) Answer(ctx context.Context, ask string, d store.Decision) (store.Ask, error) {
	got, err := actors.Ask(ctx, r.Ref(), func(reply *actors.Reply[store.Ask]) any {
		return answer{ask, d, reply}
	})
	if errors.Is(err, actors.ErrStopped) && r.cfg.Journal != nil {
		return r.cfg.Journal.SettleAsk(ctx, ask, d)
	}
	return got, err
}

// died gives the run its outcome where its actor could not: after a panic, or when
// it was stopped from outside. It writes that down first, unless the run is left: one that is stored goes on
// later. One that is a part of another run is left only where that dies with it, and else has failed.
func (r *Run) died(sys *actors.System, cause error) {
	if m := r.creation; m.Leave() {
		_ = r.created(sys, m)
	}
	if r.ended.Completed() {
		return
	}
	if cause == nil {
		cause = actors.ErrStopped
	}
	r.open(begun{}, cause)
	b, err := r.opened.Result()
	if err != nil { // it never was in the journal, or is another's
		r.ended.Complete(&Outcome{State: store.Failed, Stop: runlog.StopFailed, Err: err}, nil)
		return
	}
	out := Outcome{State: store.Failed, Stop: runlog.StopFailed, Err: fmt.Errorf("the run's actor: %w", cause)}
	left := r.leftBy(sys)
	if left {
		out = Outcome{State: store.Waiting, Stop: runlog.StopLeft, Err: &LeftError{out.Err}}
	}
	notes := out.take(r.spend.Bill())
	if r.cfg.Journal == nil {
		r.complete(&out)
		return
	}
	sys.Go("run-"+r.cfg.ID, func() {
		if left {
			r.giveUp(sys, b.epoch)
		} else if err := r.recordDeath(b.epoch, out, notes); err != nil {
			out.Err = errors.Join(out.Err, err)
		}
		r.complete(&out)
	})
}

// leftBy reports whether the run is left by the death of its actor.
func (r *Run) leftBy(sys *actors.System) bool {
	return r.cfg.Journal != nil && r.cfg.Stored && (!r.below || sys.Closing())
}

// giveUp gives up the lease of a run that was left by the death of its actor. That of a job is its worker's, which counts
// the loss: what has killed the actor may do so again.
func (r *Run) giveUp(sys *actors.System, epoch int64) {
	if r.cfg.Held {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.Grace)
	defer cancel()
	if err := r.cfg.Journal.Release(ctx, r.cfg.ID, r.cfg.Owner, epoch); err != nil {
		sys.Log().Warn("a run's lease was not given up", "run", r.cfg.ID, "error", err)
	}
}

// recordDeath appends the end of a run that has no actor any more, and what is still to be
// written of its cost.
func (r *Run) recordDeath(epoch int64, out Outcome, notes []runlog.Entry) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.Grace)
	defer cancel()
	entries := append(notes, finished(&out))
	events, err := runlog.Encode(nil, entries)
	if err != nil {
		return &JournalError{err}
	}
	last := store.Append{Run: r.cfg.ID, Owner: r.cfg.Owner, Epoch: epoch, After: store.Unchecked, State: out.State, Summary: summary(&out), Events: events}
	seq, err := r.cfg.Journal.Append(ctx, last)
	if err != nil {
		return &JournalError{err}
	}
	for i := range entries {
		entries[i].Seq = seq - int64(len(entries)-1-i)
	}
	r.cfg.Sink.Journalled(entries)
	return nil
}

// complete gives the one outcome. The sink gets it first, so that a reader who waits
// for the outcome finds all events there. Out does not change any more.
func (r *Run) complete(out *Outcome) {
	if r.ended.Completed() {
		return
	}
	r.cfg.Sink.Closed(*out)
	r.ended.Complete(out, nil)
}

// New returns a run that has not started.
func (t *Template) New(own Own) (*Run, error) {
	if own.ID == "" || own.Sink == nil {
		return nil, errIncomplete
	}
	if own.Origin == nil {
		own.Origin = new(Origin)
	}
	if own.Taint == nil {
		own.Taint = new(guard.TaintState)
	}
	common := t.common
	if own.Resumes != nil {
		common = own.Resumes.config(common, &own)
	}
	if own.Nonce == "" {
		own.Nonce = uuid.NewString()
	}
	own.Wall = cmp.Or(own.Wall, common.Limits.Wall)
	own.Grace = cmp.Or(own.Grace, common.Grace)
	own.Owner, own.Lease = cmp.Or(own.Owner, common.Owner), cmp.Or(own.Lease, common.Lease)
	below := own.Origin.Parent != "" || own.Resumes != nil && own.Resumes.Head.Parent != ""
	return &Run{cfg: config{own, common}, below: below}, nil
}

// answer is a message from outside that decides an ask.
type answer struct {
	ask      string
	decision store.Decision
	reply    *actors.Reply[store.Ask]
}

// Messages from outside.
type (
	cancelRun struct{ cause error }
	leaveRun  struct{ cause error }
)
