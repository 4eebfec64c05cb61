package loop

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/journal"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// openFor is how long a run that has not begun waits for its store.
const openFor = 30 * time.Second

// Messages to itself.
type (
	created struct { // an attempt to record the run has ended
		began time.Time
		head  store.Run
		err   error
	}
	createAgain struct{} // a wait for the store is over
)

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
		o.h.opened.Complete(begun{epoch: again.Head.Epoch}, nil)
		o.recorded(c, created{began: again.Claimed, head: again.Head})
		return
	}
	o.first = []runlog.Entry{{Type: store.RunStarted, Body: started(o.cfg)}}
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
	o.h.opened.Complete(begun{}, nil)
	o.recorded(c, created{head: store.Run{ID: o.cfg.ID}})
}

// receive takes the messages of the opening. A run that is ending is not tried again.
func (o *opening) receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case created:
		switch {
		case m.err == nil:
			o.recorded(c, m)
		case o.out != nil || !o.later(c, m.err):
			o.run.opened(c, m.err)
		}
	case createAgain:
		if o.out == nil {
			o.create(c)
		}
	}
}

func (o *opening) recorded(c *actors.Context, m created) {
	o.h.cfg.Origin = nil // the history goes on with the input
	o.journal.Opened(c, m.head, m.began)
	if probe != nil && o.cfg.Resumes == nil {
		probe(o.parts, o.first)
	}
	o.run.opened(c, nil)
}

// create has the run recorded.
func (o *opening) create(c *actors.Context) {
	h, first, again, began := o.h, o.first, o.stalled != nil, time.Now()
	o.err = nil
	actors.Await(c, func(ctx context.Context) (store.Run, error) { return h.create(ctx, first, again) },
		func(head store.Run, err error) any { return created{began, head, err} })
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

// create writes the first events. It answers the callers of Opened itself, unless it may be
// tried again, and ends the run again if the actor has gone by then.
func (r *Run) create(ctx context.Context, first []runlog.Entry, again bool) (store.Run, error) {
	events, err := runlog.Encode(nil, first)
	if err != nil {
		r.opened.Complete(begun{}, err)
		return store.Run{}, err
	}
	head := store.Run{ID: r.cfg.ID, Agent: r.cfg.Agent, Title: title(r.cfg.Origin.Input), InputHash: r.cfg.Origin.InputHash, Parent: r.cfg.Origin.Parent}
	hash := head.InputHash
	head, err = r.cfg.Journal.Create(ctx, head, r.cfg.Owner, r.cfg.Lease, events...)
	if again && errors.Is(err, store.ErrExists) && head.Owner == r.cfg.Owner && head.InputHash == hash && head.Seq == int64(len(first)) {
		err = nil // an attempt that seemed to fail had come through
	}
	if journal.Passing(err) {
		return head, err
	}
	if err == nil {
		for i := range first {
			first[i].Seq = int64(i + 1)
		}
		r.cfg.Sink.Journalled(first)
	}
	b := begun{epoch: head.Epoch}
	if err != nil {
		b.taken = &head
	}
	if !r.opened.Complete(b, err) && err == nil {
		out := Outcome{State: store.Failed, Stop: runlog.StopFailed, Err: actors.ErrStopped}
		var unasked []runlog.Entry
		if last := first[len(first)-1]; last.Type == runlog.ModelIntentType {
			unasked = []runlog.Entry{{Time: last.Time, Type: runlog.ModelFailedType,
				Body: &runlog.ModelFailed{Turn: 1, Lost: true, Error: out.Err.Error()}}}
		}
		err = errors.Join(actors.ErrStopped, r.recordDeath(head.Epoch, out, unasked))
	}
	return head, err
}

// started is the first event.
func started(c *config) *runlog.RunStarted {
	return &runlog.RunStarted{
		Agent: c.Agent, Parent: c.Origin.Parent, Path: c.Path, Hash: c.Hash, Model: c.Model.Name(), System: c.System, Input: c.Origin.Input, Schema: c.Schema,
		Nonce: c.Nonce, Steps: c.Limits.Steps, Tokens: c.Limits.Tokens, ToolCalls: c.Limits.ToolCalls,
		Cost: c.Limits.Cost, ModelCalls: c.Limits.ModelCalls, Depth: c.Limits.Depth, OnLimit: c.Limits.OnLimit,
		WallMS: c.Wall.Milliseconds(), MaxResult: c.MaxResult, V: runlog.Version, Program: runlog.Program()}
}
