package journal

import (
	"context"
	"errors"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// part is one append, and the entries that its events are.
type part struct {
	store.Append
	entries []*runlog.Entry
	settle  *Settling
}

// writing is the batches that one task appends, in order. It is the task's while that runs.
type writing struct {
	batches []*Batch
	encoded bool
	parts   []part // that are not durable yet
	last    int64  // number of the last event that is
	err     error  // how the task has ended; the run reads it then

	// Most tasks have one batch and one part, with an entry or two: those need no memory of
	// their own.
	oneBatch   [1]*Batch
	onePart    [1]part
	twoEntries [2]*runlog.Entry
}

// append writes the parts that are left, in order, and numbers the entries. After an error it can be
// called again: an append that has come through all the same is not made twice.
func (w *writing) append(ctx context.Context, to Store, run string, epoch int64) error {
	if err := w.encode(run, epoch); err != nil {
		return err
	}
	for len(w.parts) > 0 {
		p := &w.parts[0]
		p.After = w.last
		last, err := to.Append(ctx, p.Append)
		switch {
		case err == nil:
			w.last = last
			for i, e := range p.entries {
				e.Seq = last - int64(len(p.entries)-1-i)
			}
		case p.settle != nil && errors.Is(err, store.ErrSettled):
			p.settle.beaten = true
		default:
			return err
		}
		w.parts = w.parts[1:]
	}
	return nil
}

// encode makes the appends, as few as the store's bounds allow. It does so once: what is
// appended again must be the same.
func (w *writing) encode(run string, epoch int64) error {
	if w.encoded {
		return nil
	}
	count := 0
	for _, b := range w.batches {
		count += len(b.Entries)
	}
	next, size := part{Append: store.Append{Run: run, Epoch: epoch}}, 0
	next.Events, next.entries = make([]store.Event, 0, min(count, store.MaxEvents)), w.twoEntries[:0]
	w.parts = w.onePart[:0]
	cut := func() {
		w.parts = append(w.parts, next)
		next, size = part{Append: store.Append{Run: run, Epoch: epoch}}, 0
	}
	for _, b := range w.batches {
		alone := b.Settle != nil // it may not be written, and nothing else depends on it
		if alone && len(next.entries) > 0 {
			cut()
		}
		for i := range b.Entries {
			e := &b.Entries[i]
			ev, err := e.Encode()
			if err != nil {
				return err
			}
			if len(next.entries) == store.MaxEvents || len(next.entries) > 0 && size+len(ev.Body) > store.MaxPageBytes {
				cut()
			}
			if opened, ok := e.Body.(*runlog.AskOpened); ok {
				next.Asks = append(next.Asks, opened.Ask)
			}
			next.Events, next.entries, size = append(next.Events, ev), append(next.entries, e), size+len(ev.Body)
		}
		if b.State != "" {
			next.State = b.State
		}
		if b.Summary != "" {
			next.Summary = b.Summary
		}
		if b.Job != nil {
			next.Job = b.Job()
		}
		if alone {
			next.settle, next.Settle = b.Settle, []store.Settlement{b.Settle.Settlement}
			cut()
		}
	}
	if len(next.entries) > 0 || next.State != "" || next.Summary != "" || len(w.parts) == 0 {
		cut()
	}
	w.encoded = true
	return nil
}

// Batch is the entries of one step, and its next one once they are durable.
type Batch struct {
	Entries []runlog.Entry
	Then    func(*actors.Context) // nil for nothing
	State   store.RunState        // of the run afterwards; "" leaves it
	Summary string
	Job     func() *store.JobUpdate // the end of the run's job; nil for none
	Settle  *Settling               // decides an ask with its one entry; nil for none
}

// Settling is the decision on an ask that a batch writes together with its event.
type Settling struct {
	store.Settlement
	Lost   func(*actors.Context) // called in place of Then if the ask was settled before
	Failed func(error)           // called if nothing can be written any more
	beaten bool                  // it was; nothing of the batch was written
}
