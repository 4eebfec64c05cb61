package journal

import (
	"errors"
	"runtime/debug"
	"sync/atomic"

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

// writing is the batches that the store takes together, part by part. It is a message to the run
// where the store answers late.
type writing struct {
	actors.Node
	run     actors.Ref
	batches []*Batch
	encoded bool
	parts   []part // that are not durable yet
	last    int64  // number of the last event that is

	// The store's answer to the append of the first part, for the run to take once it has come.
	stage atomic.Uint32
	seq   int64
	err   error

	// Most writings have a batch or two and one part with some entries: those need no memory of
	// their own.
	twoBatches  [2]*Batch
	onePart     [1]part
	fourEntries [4]*runlog.Entry
}

// The stages of an append.
const (
	begins   uint32 = iota // the run begins it
	answered               // the store has answered meanwhile, and the run goes on at once
	waits                  // the run waits for the message
	sent                   // which is on its way
)

// answer takes the store's answer to an append, on any goroutine. The first one counts.
func (w *writing) answer(seq int64, err error) {
	switch stage := w.stage.Load(); {
	case stage == answered || stage == sent:
		return
	case stage == begins:
		w.seq, w.err = seq, err
		if w.stage.CompareAndSwap(begins, answered) {
			return
		}
	}
	w.seq, w.err = seq, err
	if w.stage.CompareAndSwap(waits, sent) {
		w.run.Send(appended{w})
	}
}

// refused takes a panic of the store for its answer.
func (w *writing) refused() {
	if r := recover(); r != nil {
		w.answer(0, &actors.PanicError{Value: r, Stack: debug.Stack()})
	}
}

// take numbers the entries of the first part, which is durable now, and returns the error if it is not.
func (w *writing) take() error {
	if !w.encoded {
		return w.err
	}
	p := &w.parts[0]
	switch {
	case w.err == nil:
		w.last = w.seq
		for i, e := range p.entries {
			e.Seq = w.seq - int64(len(p.entries)-1-i)
		}
	case p.settle != nil && errors.Is(w.err, store.ErrSettled):
		p.settle.beaten = true
	default:
		return w.err
	}
	w.parts = w.parts[1:]
	return nil
}

// encode makes the appends, as few as the store's bounds allow. It does so once: what is
// appended again must be the same.
func (w *writing) encode(run string, epoch int64) error {
	if w.encoded {
		return nil
	}
	entries := w.fourEntries[:0]
	for _, b := range w.batches {
		for i := range b.Entries {
			entries = append(entries, &b.Entries[i])
		}
	}
	events, err := runlog.Encode(entries...)
	if err != nil {
		return err
	}
	next, from, to, size := part{Append: store.Append{Run: run, Epoch: epoch}}, 0, 0, 0 // next has the events from .. to
	w.parts = w.onePart[:0]
	cut := func() {
		next.Events, next.entries = events[from:to:to], entries[from:to]
		w.parts = append(w.parts, next)
		next, from, size = part{Append: store.Append{Run: run, Epoch: epoch}}, to, 0
	}
	for _, b := range w.batches {
		alone := b.Settle != nil // it may not be written, and nothing else depends on it
		if alone && to > from {
			cut()
		}
		for range b.Entries {
			n := len(events[to].Body)
			if to-from == store.MaxEvents || to > from && size+n > store.MaxPageBytes {
				cut()
			}
			if opened, ok := entries[to].Body.(*runlog.AskOpened); ok {
				next.Asks = append(next.Asks, opened.Ask)
			}
			to, size = to+1, size+n
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
	if to > from || next.State != "" || next.Summary != "" || len(w.parts) == 0 {
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
