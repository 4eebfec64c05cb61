// journal.go: how a run writes down what happens.
//
//	        write              acknowledged
//	still ─────────▶ appending ─────────────▶ still: then runs, and what waits is next
//	                  │      ▲
//	 error that passes│      │ due
//	                  ▼      │
//	                 stalled ┘──── the lease is over, or another error ──▶ (the run fails)

package loop

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// batch is what one step writes, and what it does once that is durable.
type batch struct {
	entries []runlog.Entry
	then    func(*actors.Context) // nil for nothing
	state   store.RunState        // of the run afterwards; "" leaves it
	summary string
	settle  *settling // decides an ask with its one entry; nil for none
}

// settling is the decision on an ask that a batch writes together with the event that
// says so.
type settling struct {
	store.Settlement
	beaten bool                  // the ask was settled before; nothing of the batch was written
	lost   func(*actors.Context) // called in place of then if it was
	failed func(error)           // called if nothing can be written any more
}

// part is one append, and the entries that its events are.
type part struct {
	store.Append
	entries []*runlog.Entry
	settle  *settling
}

// writing is what one task appends, in order. It is the task's while that runs.
type writing struct {
	batches []*batch
	encoded bool
	parts   []part // that are not durable yet
	last    int64  // number of the last event that is
}

// appended is a message to itself: an append has ended.
type appended struct {
	w   *writing
	err error
}

// journal is a run's writer: one append at a time, all that waits in the next.
type journal struct {
	epoch int64
	last  int64 // number of the last event that is durable

	waiting []*batch
	under   *writing                // under way or stalled; nil for none
	cancel  context.CancelCauseFunc // of the append under way; nil while there is none
	stalled *stall                  // nil unless the store does not take what is under way
	leased  time.Time               // when the lease is over
	err     error                   // why nothing is written any more
}

// write puts entries into the next append; then runs once they are durable, and
// not at all if they can not be written. It must look whether the run is ending.
// Without a journal then runs at once.
func (r *run) write(c *actors.Context, then func(*actors.Context), entries ...runlog.Entry) {
	r.writeBatch(c, &batch{entries: entries, then: then})
}

func (r *run) writeBatch(c *actors.Context, b *batch) {
	now := store.Clock(time.Now())
	for i := range b.entries {
		b.entries[i].Time = now
	}
	if r.cfg.Journal == nil {
		r.written(c, b)
		return
	}
	r.journal.waiting = append(r.journal.waiting, b)
	r.flush(c)
}

// flush begins an append unless one is under way.
func (r *run) flush(c *actors.Context) {
	j := &r.journal
	if j.under != nil || len(j.waiting) == 0 || j.err != nil && !r.last {
		return
	}
	j.under = &writing{batches: j.waiting, last: j.last}
	j.waiting = nil
	r.append(c)
}

// append has what is under way written, or what is left of it.
func (r *run) append(c *actors.Context) {
	w, h, epoch := r.journal.under, r.h, r.journal.epoch
	r.journal.cancel = actors.Await(c,
		func(ctx context.Context) (struct{}, error) { return struct{}{}, h.append(ctx, epoch, w) },
		func(_ struct{}, err error) any { return appended{w, err} })
}

// append writes what is left, in order, and numbers the entries. After an error it can be
// called again: an append that has come through all the same is not made twice.
func (r *Run) append(ctx context.Context, epoch int64, w *writing) error {
	if err := w.encode(r.cfg.ID, epoch); err != nil {
		return err
	}
	for len(w.parts) > 0 {
		p := &w.parts[0]
		p.After = w.last
		last, err := r.cfg.Journal.Append(ctx, p.Append)
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
	next, size := part{Append: store.Append{Run: run, Epoch: epoch}}, 0
	cut := func() {
		w.parts = append(w.parts, next)
		next, size = part{Append: store.Append{Run: run, Epoch: epoch}}, 0
	}
	for _, b := range w.batches {
		alone := b.settle != nil // it may not be written, and nothing else depends on it
		if alone && len(next.entries) > 0 {
			cut()
		}
		for i := range b.entries {
			e := &b.entries[i]
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
		if b.state != "" {
			next.State = b.state
		}
		if b.summary != "" {
			next.Summary = b.summary
		}
		if alone {
			next.settle, next.Settle = b.settle, []store.Settlement{b.settle.Settlement}
			cut()
		}
	}
	if len(next.entries) > 0 || next.State != "" || next.Summary != "" || len(w.parts) == 0 {
		cut()
	}
	w.encoded = true
	return nil
}

// acked goes on with what was waiting for an append.
func (r *run) acked(c *actors.Context, m appended) {
	j := &r.journal
	if m.w != j.under {
		return // given up
	}
	j.cancel = nil
	switch {
	case m.err == nil:
	case m.w.encoded && j.err == nil && r.stall(c, m.err):
		return
	default:
		r.journalFailed(c, m.err)
		return
	}
	j.under, j.last = nil, m.w.last
	r.unstall(c)
	for _, b := range m.w.batches {
		if b.settle != nil && b.settle.beaten {
			b.settle.lost(c)
			continue
		}
		r.written(c, b)
	}
	r.flush(c)
}

// written tells the sink what is durable and goes on with what was waiting for it.
func (r *run) written(c *actors.Context, b *batch) {
	if len(b.entries) > 0 {
		r.cfg.Sink.Journalled(b.entries)
	}
	if b.then != nil {
		b.then(c)
	}
}

// journalFailed ends a run that can not be recorded any more. It tries to write
// that down, unless another owner has the run.
func (r *run) journalFailed(c *actors.Context, err error) {
	first := r.journal.err == nil
	if first {
		r.journal.err = &JournalError{err}
	}
	r.dropWrites()
	switch {
	case r.last:
		r.complete(c, r.journal.err)
	case r.out != nil && first:
		r.out.Err = errors.Join(r.out.Err, r.journal.err)
		r.finish(c)
	case first:
		r.failed(c, r.journal.err)
	}
}

// dropWrites gives up what is not durable.
func (r *run) dropWrites() {
	j := &r.journal
	batches := j.waiting
	if j.under != nil {
		batches = append(j.under.batches, batches...)
	}
	if j.cancel != nil {
		j.cancel(errGrace)
	}
	if j.stalled != nil {
		j.stalled.again.Clear()
	}
	j.waiting, j.under, j.cancel = nil, nil, nil
	for _, b := range batches {
		if b.settle != nil && b.settle.failed != nil {
			b.settle.failed(store.ErrFinished)
			b.settle.failed = nil
		}
	}
}

// fenced reports whether the run is another's now.
func (j *journal) fenced() bool {
	return errors.Is(j.err, store.ErrFenced) || errors.Is(j.err, store.ErrNotFound) || errors.Is(j.err, store.ErrFinished)
}

// busy reports whether an append is under way or waits.
func (j *journal) busy() bool { return j.under != nil || len(j.waiting) > 0 }
