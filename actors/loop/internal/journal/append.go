package journal

import (
	"errors"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// part is one append, and the entries that its events are.
type part struct {
	store.Append
	entries []runlog.Entry
	settle  *Settling
}

// writing is the batches that the store takes together, part by part. It is a message to the run
// where the store answers late.
type writing struct {
	actors.Node
	run     actors.Ref
	batches []Batch
	entries []runlog.Entry // of all batches, in order
	events  []store.Event  // of the entries
	encoded bool
	all     []part
	parts   []part // the rest of all that is not durable yet
	last    int64  // number of the last event that is
	shared  bool   // the store may hold what it got beyond its answer

	// The store's answer to the append of the first part, for the run to take once it has come.
	n     uint64        // which append it is, of those that the writing was ever used for; the run's own
	stage atomic.Uint64 // of that append, see at
	seq   int64
	err   error
}

// writings are used again, by any run: what thousands of runs that wait would keep for their next append is more
// than what they share.
var writings = sync.Pool{New: func() any { return new(writing) }}

// maxKept bounds the entries of a writing that is used again.
const maxKept = 64

// add copies a batch and its entries.
func (w *writing) add(b Batch, entries []runlog.Entry, now time.Time) {
	from := len(w.entries)
	w.entries = append(w.entries, entries...)
	b.entries = w.entries[from:] // they may still move: until flush they only tell how many they are
	for i := range b.entries {
		b.entries[i].Time = now
	}
	w.batches = append(w.batches, b)
}

// flush gives the batches their entries, which do not move any more.
func (w *writing) flush() {
	rest := w.entries
	for i := range w.batches {
		b := &w.batches[i]
		n := len(b.entries)
		b.entries, rest = rest[:n:n], rest[n:]
	}
}

// free has a writing used again that is durable, and of which nothing else holds a part.
func (w *writing) free() {
	if w.shared || cap(w.entries) > maxKept {
		return
	}
	clear(w.batches)
	clear(w.entries)
	clear(w.events)
	clear(w.all)
	w.run, w.batches, w.entries, w.events = actors.Ref{}, w.batches[:0], w.entries[:0], w.events[:0]
	w.encoded, w.all, w.parts, w.last = false, w.all[:0], nil, 0
	w.seq, w.err = 0, nil
	writings.Put(w)
}

// The stages of an append.
const (
	begins    uint64 = iota // the run begins it
	answered                // the store has answered meanwhile, and the run goes on at once
	waits                   // the run waits for the message
	sent                    // which is on its way
	stageBits = 2
)

// at is the value of a writing's stage in an append.
func at(n, stage uint64) uint64 { return n<<stageBits | stage }

// begin begins another append, and returns the function that takes the store's answer to it, on any goroutine. The
// first one counts, and none of an append before.
func (w *writing) begin() (answer func(seq int64, err error)) {
	w.n++
	n := w.n
	w.stage.Store(at(n, begins))
	return func(seq int64, err error) { w.answer(n, seq, err) }
}

func (w *writing) answer(n uint64, seq int64, err error) {
	switch w.stage.Load() {
	case at(n, begins):
		w.seq, w.err = seq, err
		if w.stage.CompareAndSwap(at(n, begins), at(n, answered)) {
			return
		}
	case at(n, waits):
	default:
		return
	}
	w.seq, w.err = seq, err
	if w.stage.CompareAndSwap(at(n, waits), at(n, sent)) {
		w.run.Send(appended{w})
	}
}

// begun ends the beginning of the append, and reports whether the store has answered meanwhile.
func (w *writing) begun() bool { return !w.stage.CompareAndSwap(at(w.n, begins), at(w.n, waits)) }

// refused takes a panic of the store for its answer.
func (w *writing) refused() {
	if r := recover(); r != nil {
		w.answer(w.n, 0, &actors.PanicError{Value: r, Stack: debug.Stack()})
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
		for i := range p.entries {
			p.entries[i].Seq = w.seq - int64(len(p.entries)-1-i)
		}
	case p.settle != nil && errors.Is(w.err, store.ErrSettled):
		p.settle.beaten = true
	default:
		return w.err
	}
	w.parts = w.parts[1:]
	return nil
}

// encode makes the appends, as few as the store's bounds allow, each with the run and the lease of the one that it
// is given. It does so once: what is appended again must be the same.
func (w *writing) encode(to store.Append) error {
	if w.encoded {
		return nil
	}
	events, err := runlog.Encode(w.events, w.entries)
	if err != nil {
		return err
	}
	w.events = events
	next, from, end, size := part{Append: to}, 0, 0, 0 // next has the events from .. end
	cut := func() {
		next.Events, next.entries = events[from:end:end], w.entries[from:end]
		w.all = append(w.all, next)
		next, from, size = part{Append: to}, end, 0
	}
	for _, b := range w.batches {
		alone := b.Settle != nil // it may not be written, and nothing else depends on it
		if alone && end > from {
			cut()
		}
		for range b.entries {
			n := len(events[end].Body)
			if end-from == store.MaxEvents || end > from && size+n > store.MaxPageBytes {
				cut()
			}
			if opened, ok := w.entries[end].Body.(*runlog.AskOpened); ok {
				next.Asks = append(next.Asks, opened.Ask)
			}
			end, size = end+1, size+n
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
	if end > from || next.State != "" || next.Summary != "" || len(w.all) == 0 {
		cut()
	}
	w.parts, w.encoded = w.all, true
	return nil
}

// Batch is what is to be done with the entries of one step, and its next one once they are durable.
type Batch struct {
	Then    func(*actors.Context) // nil for nothing
	State   store.RunState        // of the run afterwards; "" leaves it
	Summary string
	Job     func() *store.JobUpdate // the end of the run's job; nil for none
	Settle  *Settling               // decides an ask with its one entry; nil for none
	entries []runlog.Entry
}

// Settling is the decision on an ask that a batch writes together with its event.
type Settling struct {
	store.Settlement
	Lost   func(*actors.Context) // called in place of Then if the ask was settled before
	Failed func(error)           // called if nothing can be written any more
	beaten bool                  // it was; nothing of the batch was written
}
