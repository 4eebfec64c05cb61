package loop

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/store"
)

// batch is what one step writes, and what it does once that is durable.
type batch struct {
	entries []Entry
	then    func(*actors.Context) // nil for nothing
	state   store.RunState        // of the run afterwards; "" leaves it
	summary string
}

// appended is a message to itself: an append has ended.
type appended struct {
	batches []*batch
	err     error
}

// journal is a run's writer: one append at a time, all that waits in the next.
type journal struct {
	epoch int64

	waiting []*batch
	cancel  context.CancelCauseFunc // of the append under way; nil for none
	err     error                   // why nothing is written any more
}

// write puts entries into the next append; then runs once they are durable, and
// not at all if they can not be written. It must look whether the run is ending.
// Without a journal then runs at once.
func (r *run) write(c *actors.Context, then func(*actors.Context), entries ...Entry) {
	r.writeBatch(c, &batch{entries: entries, then: then})
}

func (r *run) writeBatch(c *actors.Context, b *batch) {
	now := store.Clock(time.Now())
	for i := range b.entries {
		b.entries[i].Time = now
	}
	if r.cfg.Journal == nil {
		r.acked(c, appended{batches: []*batch{b}})
		return
	}
	r.journal.waiting = append(r.journal.waiting, b)
	r.flush(c)
}

// flush begins an append unless one is under way.
func (r *run) flush(c *actors.Context) {
	j := &r.journal
	if j.cancel != nil || len(j.waiting) == 0 || j.err != nil && !r.last {
		return
	}
	batches, h, epoch := j.waiting, r.h, j.epoch
	j.waiting = nil
	j.cancel = actors.Await(c,
		func(ctx context.Context) (struct{}, error) { return struct{}{}, h.append(ctx, epoch, batches) },
		func(_ struct{}, err error) any { return appended{batches, err} })
}

// append writes batches in order, in as few appends as the store's bounds allow,
// and numbers their entries.
func (r *Run) append(ctx context.Context, epoch int64, batches []*batch) error {
	next := store.Append{Run: r.cfg.ID, Epoch: epoch}
	var entries []*Entry
	size := 0
	commit := func() error {
		last, err := r.cfg.Journal.Append(ctx, next)
		for i, e := range entries {
			e.Seq = last - int64(len(entries)-1-i)
		}
		next, entries, size = store.Append{Run: r.cfg.ID, Epoch: epoch}, nil, 0
		return err
	}
	for _, b := range batches {
		for i := range b.entries {
			ev, err := b.entries[i].encode()
			if err != nil {
				return err
			}
			if len(entries) == store.MaxEvents || len(entries) > 0 && size+len(ev.Body) > store.MaxPageBytes {
				if err := commit(); err != nil {
					return err
				}
			}
			next.Events, entries, size = append(next.Events, ev), append(entries, &b.entries[i]), size+len(ev.Body)
		}
		if b.state != "" {
			next.State = b.state
		}
		if b.summary != "" {
			next.Summary = b.summary
		}
	}
	return commit()
}

// acked tells the sink what is durable and goes on with what was waiting for it.
func (r *run) acked(c *actors.Context, m appended) {
	r.journal.cancel = nil
	if m.err != nil {
		r.journalFailed(c, m.err)
		return
	}
	for _, b := range m.batches {
		if len(b.entries) > 0 {
			r.cfg.Sink.Journalled(b.entries)
		}
		if b.then != nil {
			b.then(c)
		}
	}
	r.flush(c)
}

// journalFailed ends a run that can not be recorded any more. It tries to write
// that down, unless another owner has the run.
func (r *run) journalFailed(c *actors.Context, err error) {
	first := r.journal.err == nil
	if first {
		r.journal.err = &JournalError{err}
	}
	r.journal.waiting = nil
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

// fenced reports whether the run is another's now.
func (j *journal) fenced() bool {
	return errors.Is(j.err, store.ErrFenced) || errors.Is(j.err, store.ErrNotFound) || errors.Is(j.err, store.ErrFinished)
}
