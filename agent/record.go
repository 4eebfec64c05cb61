package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// recordBytes bounds what a record keeps in memory of events that can be read from
// the store again.
const recordBytes = 1 << 20

// itemBytes is what an item counts beside its texts.
const itemBytes = 256

// record is what has happened in a run, for any number of readers. It is the run's
// [loop.Sink], and never makes the run wait: text is appended to what is there, and
// readers keep their own place. All fields are touched under the lock, and changed
// in update only.
type record struct {
	store   store.Journal
	runID   string
	maximum int      // bytes
	from    *starter // the call that has started the run; nil for none
	asks    *answering
	traced  *tracing // nil without a [Tracer]

	stalls   *stalls  // of the runtime; it has a lock of its own
	over     func()   // is called when the run has ended; nil for nothing
	standing standing // of the tree of runs below; it has a lock of its own

	// mu guards what follows. Readers are goroutines of the program, and text comes from the
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

// progress is the newest that a call under way has said of itself.
type progress struct {
	key     string // of the call
	version uint64
	event   *ToolProgress // nil before it has said anything
}

func newRecord(runID string, j store.Journal, from *starter) *record {
	r := &record{stalls: new(stalls), store: j, runID: runID, maximum: recordBytes}
	if from != nil {
		r.from, r.maximum, r.waits = from, recordBytes/4, make(map[string]func())
	}
	return r
}

// update runs f under the lock and looks after what must hold: bounded memory, and
// readers who know of the change.
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

// touchUp wakes those who wait for something to happen in runs above.
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

// forgetProgress ends what a call has said of itself. It is called under the lock.
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
	if r.over != nil {
		r.over()
	}
	r.traced.over(&out, nil)
}

// reader is one reader's place in a record.
type reader struct {
	converter
	record  *record
	index   int    // of the next item
	offset  int    // of the next byte in it, if it is a text
	changes uint64 // progress that was passed on
	below   []*nestedReader
}

// next returns the next events, and waits for them; none at all is the end.
func (r *reader) next(ctx context.Context) ([]Event, error) {
	for {
		events, wait, err := r.poll(ctx)
		if err != nil || len(events) > 0 || wait == nil {
			return events, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// poll returns what is new, here or below; or, if there is nothing, a channel that is
// closed when there is, nil at the end.
func (r *reader) poll(ctx context.Context) ([]Event, <-chan struct{}, error) {
	for {
		events, missing, first, wait := r.take()
		switch {
		case len(events) > 0:
			return events, nil, nil
		case missing > 0:
			if events, err := r.reread(ctx, missing); err != nil || len(events) > 0 {
				return events, nil, err
			}
		case first != nil:
			if events, err := r.pollNested(ctx, first); err != nil || len(events) > 0 {
				return events, nil, err
			}
			first.done = true // what it has not said by now comes too late
		default:
			events, err := r.pollBelow(ctx)
			return events, wait, err
		}
	}
}

// take returns what is new in memory; or up to which number the journal must be
// read first; or the run below whose events come before the next one here; or, if
// there is nothing, a channel that is closed when there is, nil at the end.
func (r *reader) take() (events []Event, missing int64, first *nestedReader, wait <-chan struct{}) {
	rec := r.record
	rec.mu.Lock()
	defer rec.mu.Unlock()
	r.attach()
	if r.index < rec.base {
		if r.seq < rec.evicted {
			return nil, rec.evicted, nil, nil
		}
		r.index, r.offset = rec.base, 0
	}
	for len(events) == 0 && r.index < rec.base+len(rec.items) {
		i := rec.items[r.index-rec.base]
		last := r.index == rec.base+len(rec.items)-1
		if first := r.before(i.entry); first != nil {
			return nil, 0, first, nil
		}
		events = r.item(i)
		if i.text != nil && last {
			return events, 0, nil, rec.waiter(len(events) > 0) // it may still grow
		}
		r.index, r.offset = r.index+1, 0
	}
	if len(events) == 0 {
		events = r.newProgress()
	}
	return events, 0, nil, rec.waiter(len(events) > 0)
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

// item converts what the reader has not had of an item.
func (r *reader) item(i *item) []Event {
	h := Header{RunID: r.runID, Seq: i.seq, Time: i.time, Path: r.path}
	switch {
	case i.entry != nil:
		return r.convert(i.entry)
	case i.passing != nil:
		return r.passed(i.passing(h))
	}
	r.enter(i.turn)
	delta := string(i.text[r.offset:])
	r.offset = len(i.text)
	switch {
	case delta == "":
		return nil
	case i.thinking:
		r.thought += len(delta)
		return []Event{Thinking{h, i.turn, delta}}
	}
	r.said += len(delta)
	return []Event{Text{h, i.turn, delta}}
}

// newProgress returns the oldest progress the reader has not had.
func (r *reader) newProgress() []Event {
	var next *progress
	for i := range r.record.progress {
		if p := &r.record.progress[i]; p.event != nil && p.version > r.changes && (next == nil || p.version < next.version) {
			next = p
		}
	}
	if next == nil {
		return nil
	}
	r.changes = next.version
	ev := *next.event
	ev.Path = r.path
	if i := r.intents[ev.Key]; i != nil {
		ev.Tool = i.Tool
	}
	return []Event{ev}
}

// reread returns events that memory has given up, one page of them.
func (r *reader) reread(ctx context.Context, last int64) ([]Event, error) {
	page, err := r.record.store.Events(ctx, r.runID, r.seq, 64)
	if err != nil {
		return nil, fmt.Errorf("reading the run's journal: %w", err)
	}
	if len(page) == 0 {
		return nil, fmt.Errorf("reading the run's journal: its events %d to %d are gone: %w", r.seq+1, last, store.ErrNotFound)
	}
	return r.decode(page, last)
}

// decode converts events up to a number.
func (c *converter) decode(page []store.Event, last int64) ([]Event, error) {
	var out []Event
	for _, ev := range page {
		if ev.Seq > last {
			break
		}
		e, err := runlog.Decode(ev)
		if err != nil {
			return out, err
		}
		out = append(out, c.convert(&e)...)
	}
	return out, nil
}
