package loop

import (
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/journal"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// openFor is how long a run that has not begun waits for its store.
const openFor = 30 * time.Second

// createAgain is a message to itself: a wait for the store is over.
type createAgain struct{}

// opening records a run.
type opening struct {
	*parts
	first []runlog.Entry        // run.started, and the events that begin the first turn if it is recorded with the run
	ask   func(*actors.Context) // asks the model for that turn; nil if there is none

	stalled *journal.Stall // nil before the store has failed to take it
	err     error          // why the run is not recorded, while it waits to be tried again; nil else
}

// start records the run, at once where there is no journal.
func (o *opening) start(c *actors.Context) {
	if again := o.cfg.Resumes; again != nil {
		o.h.open(begun{epoch: again.Head.Epoch}, nil)
		o.recorded(c, again.Head, again.Claimed)
		return
	}
	o.first = append(make([]runlog.Entry, 0, 3), runlog.Entry{Type: store.RunStarted, Body: started(o.cfg)})
	if o.cfg.Journal != nil {
		var turn []runlog.Entry
		turn, o.ask = o.run.firstTurn()
		o.first = append(o.first, turn...)
	}
	for i := range o.first {
		o.first[i].Time = store.Clock(time.Now())
	}
	if o.cfg.Journal != nil {
		o.create(c)
		return
	}
	o.cfg.Sink.Journalled(o.first)
	o.h.open(begun{}, nil)
	o.recorded(c, store.Run{ID: o.cfg.ID}, time.Time{})
}

// receive takes the messages of the opening. A run that is ending is not tried again.
func (o *opening) receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case *journal.Creation:
		o.created(c, m)
	case createAgain:
		if o.out == nil {
			o.create(c)
		}
	}
}

func (o *opening) recorded(c *actors.Context, head store.Run, began time.Time) {
	o.h.cfg.Origin = nil // the history goes on with the input
	o.journal.Opened(c, head, began)
	if probe != nil && o.cfg.Resumes == nil {
		probe(o.parts, o.first)
	}
	o.run.opened(c, nil)
}

// create has the run recorded.
func (o *opening) create(c *actors.Context) {
	sys, h, m := c.System(), o.h, &journal.Creation{First: o.first, Again: o.stalled != nil}
	m.Late = func() { _ = h.created(sys, m) }
	o.err, h.creation = nil, m
	head := store.Run{ID: o.cfg.ID, Agent: o.cfg.Agent, Title: title(o.cfg.Origin.Input), InputHash: o.cfg.Origin.InputHash, Parent: o.cfg.Origin.Parent,
		Job: o.cfg.Job, Epoch: o.cfg.Epoch}
	if m.Begin(c, o.cfg.Journal, head, o.cfg.Owner, o.cfg.Own.Lease) {
		o.created(c, m)
	}
}

// created goes on after the store's answer.
func (o *opening) created(c *actors.Context, m *journal.Creation) {
	o.h.creation = nil
	err := o.h.created(c.System(), m)
	switch {
	case err == nil:
		o.recorded(c, m.Head, m.Leased(o.cfg.Own.Lease))
	case o.out != nil || !o.later(c, err):
		o.run.opened(c, err)
	}
}

// later has a run that could not be recorded tried again, and reports whether it will be.
func (o *opening) later(c *actors.Context, err error) bool {
	if !journal.Passing(err) {
		return false
	}
	if o.stalled == nil {
		o.stalled = journal.NewStall(c, createAgain{})
	}
	wait := o.stalled.Next()
	if time.Since(o.stalled.Since)+wait > openFor {
		return false
	}
	o.err = err
	o.stalled.Set(wait)
	return true
}

// created takes the store's answer. It answers the callers of Opened, unless the run may be tried again, and ends
// the run if the actor has gone by then.
func (r *Run) created(sys *actors.System, m *journal.Creation) error {
	err := m.Take()
	if journal.Passing(err) {
		return err
	}
	b := begun{epoch: m.Head.Epoch}
	if err != nil {
		b.taken = &m.Head
	} else {
		r.cfg.Sink.Journalled(m.First)
	}
	if r.open(b, err) || err != nil {
		return err
	}
	out := Outcome{State: store.Failed, Stop: runlog.StopFailed, Err: actors.ErrStopped}
	var unasked []runlog.Entry
	if last := m.First[len(m.First)-1]; last.Type == runlog.ModelIntentType {
		unasked = []runlog.Entry{{Time: last.Time, Type: runlog.ModelFailedType,
			Body: &runlog.ModelFailed{Turn: 1, Lost: true, Error: out.Err.Error()}}}
	}
	sys.Go("run-"+r.cfg.ID, func() {
		if r.leftBy(sys) {
			r.giveUp(sys, b.epoch)
		} else if err := r.recordDeath(b.epoch, out, unasked); err != nil {
			sys.Log().Warn("the end of a run that was recorded too late was not", "run", r.cfg.ID, "error", err)
		}
	})
	return actors.ErrStopped
}

// started is the first event.
func started(c *config) *runlog.RunStarted {
	return &runlog.RunStarted{
		Agent: c.Agent, Parent: c.Origin.Parent, Path: c.Path, Hash: c.Hash, Model: c.Model.Name(), System: c.System, Input: c.Origin.Input, Schema: c.Schema,
		Nonce: c.Nonce, Steps: c.Limits.Steps, Tokens: c.Limits.Tokens, ToolCalls: c.Limits.ToolCalls,
		Cost: c.Limits.Cost, ModelCalls: c.Limits.ModelCalls, Depth: c.Limits.Depth, OnLimit: c.Limits.OnLimit,
		WallMS: c.Wall.Milliseconds(), MaxResult: c.MaxResult, Repeats: c.Repeats, V: runlog.Version, Program: runlog.Program(), With: c.Origin.With}
}
