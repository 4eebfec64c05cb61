package agent

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// recordBytes bounds the memory of a record for events that can be read from
// the store again.
const recordBytes = 1 << 20

// itemBytes is the size of an item beside its texts.
const itemBytes = 256

// record keeps the events of a run, for any number of readers. It is the run's
// [loop.Sink], and never makes the run wait: text is appended to the newest text, and
// readers keep their own place. All fields are touched under the lock, and changed
// in update only.
type record struct {
	store   store.Journal
	runID   string
	maximum int      // bytes
	from    *starter // the call that has started the run; nil for none
	asks    *answering
	traced  *tracing // nil without a [Tracer]

	stalls   *stalls  // of the runtime
	servers  *servers // that the run's calls go to; nil without
	standing standing // of the tree of runs below; it has a lock of its own

	// mu guards the fields below. Readers are goroutines of the program, and text comes from the
	// one of the model's stream: an actor between them would copy every piece of text.
	mu       sync.Mutex
	items    []*item
	base     int   // index of items[0] since the beginning
	durable  int   // items before this index can be read from the store
	evicted  int64 // number of the last journal event that is not in items any more
	seq      int64 // of the last journal event
	bytes    int
	finished bool // the run's last event is there, or was
	closed   bool
	unread   bool              // no reader has asked for events, and the store keeps them for good
	progress []progress        // of the calls under way: as a rule a few, often none
	changes  uint64            // counts progress
	wake     chan struct{}     // closed by the next change, here or below; nil without a reader that waits
	below    []nested          // runs that calls have started
	waits    map[string]func() // release the clocks above, by the ask or call that waits
}

// item is an event of the journal, a growing text, or something that is not written
// down; one of the three.
type item struct {
	entry    *runlog.Entry
	text     []byte
	thinking bool
	turn     int
	passing  func(Header) Event

	seq  int64
	time time.Time // of the newest part
}

// progress is the newest report of a call under way.
type progress struct {
	key     string // of the call
	version uint64
	event   *ToolProgress // nil before the first
}

func newRecord(runID string, j store.Journal, s *stalls, from *starter) *record {
	r := &record{stalls: s, store: j, runID: runID, maximum: recordBytes}
	if from != nil {
		r.from, r.maximum, r.waits = from, recordBytes/4, make(map[string]func())
	}
	return r
}

// update runs f under the lock and keeps the invariants: memory is bounded, and readers
// know of the change.
func (r *record) update(f func()) {
	defer r.touchUp() // once the lock is free
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	f()
	for maximum := r.bound(); r.bytes > maximum && r.base < r.durable; {
		first := r.items[0]
		if first.entry != nil {
			r.evicted = first.seq
		}
		r.bytes -= first.size()
		r.items[0] = nil
		r.items = r.items[1:]
		r.base++
	}
	if len(r.items) == 0 {
		r.items = nil
	}
	r.wakeAll()
}

// bound is how much may be kept now. Events without a reader yet are not kept at all
// where the store has it: of ten thousand runs most have no reader. It is called under
// the lock.
func (r *record) bound() int {
	if r.unread && len(r.below) == 0 {
		return 0
	}
	return r.maximum
}

// read returns a new reader's place.
func (r *record) read(c converter) *reader {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unread = false
	return &reader{converter: c, record: r}
}

// wakeAll wakes the readers that wait. It is called under the lock.
func (r *record) wakeAll() {
	if r.wake != nil {
		close(r.wake)
		r.wake = nil
	}
}

// touchUp wakes the readers of the runs above.
func (r *record) touchUp() {
	for from := r.from; from != nil; {
		up := from.by.run.record
		up.mu.Lock()
		up.wakeAll()
		up.mu.Unlock()
		from = up.from
	}
}

func (r *record) add(i *item) {
	r.items = append(r.items, i)
	r.bytes += i.size()
}

func (i *item) size() int {
	n := itemBytes + len(i.text)
	if i.entry != nil {
		n += sizeOf(i.entry)
	}
	return n
}

// sizeOf is about how much memory an entry holds.
func sizeOf(e *runlog.Entry) int {
	switch b := e.Body.(type) {
	case *runlog.ModelResult:
		return len(b.Thinking) + llm.EstimateTokens(&llm.Request{Messages: []llm.Message{b.Message}})*4
	case *runlog.ToolIntent:
		return len(b.Arguments)
	case *runlog.ToolResult:
		return llm.EstimateTokens(&llm.Request{Messages: []llm.Message{{Content: b.Result.Content}}})*4 + len(b.Result.StructuredContent)
	case *runlog.AskOpened:
		return len(b.Ask.Payload)
	case *runlog.RunFinished:
		return len(b.Text) + len(b.Structured)
	}
	return 0
}

// Journalled implements [loop.Sink].
func (r *record) Journalled(entries []runlog.Entry) {
	r.holdClocks(entries)
	r.asks.journalled(entries)
	r.noteAsks(entries)
	r.update(func() {
		for i := range entries {
			e := &entries[i]
			r.seq = max(r.seq, e.Seq)
			r.add(&item{entry: e, seq: e.Seq, time: e.Time})
			switch e.Body.(type) {
			case *runlog.ToolIntent:
				r.progress = append(r.progress, progress{key: e.Key})
			case *runlog.ToolResult, *runlog.ToolUnknown:
				r.forgetProgress(e.Key)
			case *runlog.RunFinished:
				r.finished = true
			}
		}
		if r.concluded(entries) {
			r.durable = r.base + len(r.items)
		}
	})
}

// concluded reports whether all that is kept can be read from the store now: the text of
// a turn can once the whole of it is written. It is called under the lock.
func (r *record) concluded(entries []runlog.Entry) bool {
	for i := range entries {
		switch entries[i].Body.(type) {
		case *runlog.ModelResult, *runlog.RunFinished:
			return true
		}
	}
	return !slices.ContainsFunc(r.items[max(r.durable-r.base, 0):], func(i *item) bool { return i.text != nil })
}

// Text implements [loop.Sink].
func (r *record) Text(turn int, delta string) { r.append(turn, delta, false) }

// Thinking implements [loop.Sink].
func (r *record) Thinking(turn int, delta string) { r.append(turn, delta, true) }

// append merges a delta with the one before it.
func (r *record) append(turn int, delta string, thinking bool) {
	r.update(func() {
		if n := len(r.items); n > 0 {
			if last := r.items[n-1]; last.text != nil && last.turn == turn && last.thinking == thinking {
				last.text, last.time = append(last.text, delta...), time.Now()
				r.bytes += len(delta)
				return
			}
		}
		r.add(&item{text: []byte(delta), thinking: thinking, turn: turn, seq: r.seq, time: time.Now()})
	})
}

// Progress implements [loop.Sink]. Only the newest of a call under way is kept.
func (r *record) Progress(key string, done, total float64, message string) {
	r.update(func() {
		i := r.underWay(key)
		if i < 0 {
			return
		}
		r.changes++
		r.progress[i].version, r.progress[i].event = r.changes, &ToolProgress{
			Header: Header{RunID: r.runID, Seq: r.seq, Time: time.Now()},
			Key:    key, Done: done, Total: total, Message: message}
	})
}

// underWay finds a call among those under way; it is below zero if it is not there. It
// is called under the lock.
func (r *record) underWay(key string) int {
	return slices.IndexFunc(r.progress, func(p progress) bool { return p.key == key })
}

// forgetProgress drops the progress of a call. It is called under the lock.
func (r *record) forgetProgress(key string) {
	if i := r.underWay(key); i >= 0 {
		r.progress = slices.Delete(r.progress, i, i+1)
	}
	if len(r.progress) == 0 {
		r.progress = nil
	}
}

// Retried implements [loop.Sink].
func (r *record) Retried(_ int, a llm.Attempt) {
	r.pass(func(h Header) Event {
		return ModelRetried{Header: h, Model: a.Model, Attempt: a.Number, Error: a.Err.Error(), WaitMS: a.Wait.Milliseconds()}
	})
}

// Chose implements [loop.Sink].
func (r *record) Chose(turn int, c llm.Choice) {
	r.pass(func(h Header) Event { return ModelChosen{h, turn, c.Model, c.Reason, c.Fallback} })
}

// Restarted implements [loop.Sink].
func (r *record) Restarted(turn int) {
	r.pass(func(h Header) Event { return TurnRestarted{h, turn} })
}

// pass adds an event that is not written down.
func (r *record) pass(event func(Header) Event) {
	r.update(func() { r.add(&item{seq: r.seq, time: time.Now(), passing: event}) })
}

// Closed implements [loop.Sink]. A last event that could not be written is made up
// for the readers.
func (r *record) Closed(out loop.Outcome) {
	r.asks.closed(cmp.Or(errorOf("", out.Err), ErrSettled))
	for _, release := range r.waits { // of asks whose end could not be written
		release()
	}
	r.update(func() {
		if r.finished {
			return
		}
		last := &runlog.Entry{Seq: r.seq, Time: time.Now(), Body: out.Finished()}
		r.add(&item{entry: last, seq: r.seq, time: last.Time})
	})
	r.update(func() { r.closed = true })
	r.stalls.remove(r.runID)
	r.noteEnd()
	r.servers.forget(r.runID)
	r.traced.over(&out, nil)
}

// waiter returns a channel that the next change closes, nil if there will be none.
// It is called under the lock.
func (r *record) waiter(found bool) <-chan struct{} {
	if found || r.closed {
		return nil
	}
	if r.wake == nil {
		r.wake = make(chan struct{})
	}
	return r.wake
}

// adopt makes the events of a run part of this one's.
func (r *record) adopt(key string, run *Run) {
	r.update(func() { r.below = append(r.below, nested{key, run}) })
}

// holdClocks lets the clocks of all runs above stand still while a human is waited for, or
// an instance of a server.
func (r *record) holdClocks(entries []runlog.Entry) {
	if r.from == nil {
		return
	}
	for _, e := range entries {
		switch e.Body.(type) {
		case *runlog.AskOpened:
			r.waits[e.Key] = r.from.hold()
		case *runlog.ToolWaiting:
			r.waits[e.Key] = r.from.hold()
		case *runlog.AskSettled, *runlog.ToolDispatched, *runlog.ToolResult, *runlog.ToolUnknown:
			if release := r.waits[e.Key]; release != nil {
				release()
				delete(r.waits, e.Key)
			}
		}
	}
}

// nested is a run that a call has started.
type nested struct {
	key string
	run *Run
}

// under returns the runs that calls have started.
func (r *record) under() []*Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	runs := make([]*Run, len(r.below))
	for i, n := range r.below {
		runs[i] = n.run
	}
	return runs
}

// root returns the record of the run at the root of r's tree.
func (r *record) root() *record {
	for r.from != nil {
		r = r.from.by.run.record
	}
	return r
}

// noteAsks takes note of questions that were opened or settled, and of calls that wait.
func (r *record) noteAsks(entries []runlog.Entry) {
	s := &r.root().standing
	for i := range entries {
		switch e := &entries[i]; e.Type {
		case store.AskOpened:
			s.update(func() {
				if s.open == nil {
					s.open = make(map[string]*record)
				}
				s.open[e.Key] = r
			})
		case store.AskSettled:
			s.update(func() { delete(s.open, e.Key) })
		case runlog.ToolWaitingType:
			s.update(func() {
				if s.held == nil {
					s.held = make(map[string]heldUp)
				}
				s.held[e.Key] = heldUp{r, e.Body.(*runlog.ToolWaiting).For}
			})
		case store.ToolDispatched, store.ToolResult, store.ToolUnknown:
			s.update(func() { delete(s.held, e.Key) })
		}
	}
}

// noteEnd takes note of the end of a run; its questions are closed.
func (r *record) noteEnd() {
	s := &r.root().standing
	s.update(func() {
		maps.DeleteFunc(s.open, func(_ string, of *record) bool { return of == r })
		maps.DeleteFunc(s.held, func(_ string, h heldUp) bool { return h.of == r })
		if r.from == nil {
			s.last.Ended = true
		}
	})
}

// Stalled implements [loop.Sink].
func (r *record) Stalled(err error) {
	r.stalls.add(StalledRun{ID: r.runID, Since: time.Now(), Err: err})
	r.pass(func(h Header) Event { return StoreStalled{h, err.Error()} })
}

// Resumed implements [loop.Sink].
func (r *record) Resumed() {
	r.stalls.remove(r.runID)
	r.pass(func(h Header) Event { return StoreResumed{h} })
}
