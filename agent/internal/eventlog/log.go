package eventlog

import (
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// itemBytes is the size of an item beside its texts.
const itemBytes = 256

// fewCalls bounds the calls whose room is kept for those of the next turn.
const fewCalls = 4

// Log keeps the events of a run, for any number of readers, and never makes the run wait: text is
// appended to the newest text, and readers keep their own place. H is the head of an event, E an
// event. The fields below the lock are changed in update only.
type Log[H, E any] struct {
	Journal store.Journal
	Run     string
	Max     int        // bytes of events that can be read from the journal again
	Above   *Log[H, E] // of the run that has started this one; nil for none

	mu       sync.Mutex // guards the fields below: readers are goroutines of the program, and an actor between them and the model's stream would copy every piece of text
	items    []*item[H, E]
	base     int   // index of items[0] since the beginning
	durable  int   // items before this index can be read from the journal
	evicted  int64 // number of the last journal event that is not in items any more
	seq      int64 // of the last journal event
	bytes    int
	finished bool // the run's last event is there, or was
	closed   bool
	unread   bool             // no reader has asked for events, and the journal keeps them for good
	progress []progress[H, E] // of the calls under way: as a rule a few, often none
	changes  uint64           // counts progress
	wake     chan struct{}    // closed by the next change, here or below; nil without a reader that waits
	below    []nested[H, E]   // runs that calls have started
}

// Converter makes events for one reader. It remembers what a later event refers to, and how much
// of a turn's text the reader has had.
type Converter[H, E any] interface {
	// Head returns the head of an event that is not in the journal.
	Head(seq int64, at time.Time) H
	// Entry returns the events that an entry of the journal is, which may be none.
	Entry(e *runlog.Entry) []E
	// Text returns a piece of the model's text, or thinking, if there is some of it.
	Text(h H, turn int, thinking bool, delta string) (ev E, some bool)
	// Passing returns an event that is not written down, once it has noted its effect on later ones.
	Passing(ev E) E
	// Nested returns an event of a run that a call with this key has started, after an entry.
	Nested(seq int64, key string, ev E) E
}

// Source is a run with its log.
type Source[H, E any] interface {
	Events() *Log[H, E]
	Converter() Converter[H, E] // a new one
}

// item is an event of the journal, a growing text, or something that is not written
// down; one of the three.
type item[H, E any] struct {
	entry    *runlog.Entry
	says     bool   // it is a text
	first    string // all of it, while that is one piece; models that do not stream have no other
	text     []byte // all of it, once there were more
	thinking bool
	turn     int
	passing  func(H) E

	seq  int64
	time time.Time // of the newest part
}

// progress is the newest report of a call under way.
type progress[H, E any] struct {
	key     string // of the call
	version uint64
	seq     int64
	time    time.Time
	event   func(H) E // nil before the first
}

// nested is a run that a call has started.
type nested[H, E any] struct {
	key string
	run Source[H, E]
}

// Leave leaves the events to the journal, which keeps them for good, until the first reader asks
// for some: of ten thousand runs most have none.
func (l *Log[H, E]) Leave() { l.update(func() { l.unread = true }) }

// Resume begins a log of a run that goes on: what the journal has said already readers have from
// there. The calls are those under way.
func (l *Log[H, E]) Resume(seq int64, calls []string) {
	l.update(func() {
		l.seq, l.evicted, l.base, l.durable = seq, seq, 1, 1
		for _, key := range calls {
			l.progress = append(l.progress, progress[H, E]{key: key})
		}
	})
}

// update runs f under the lock and keeps the invariants: memory is bounded, and readers
// know of the change.
func (l *Log[H, E]) update(f func()) {
	defer l.touchUp() // once the lock is free
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	f()
	for maximum := l.bound(); l.bytes > maximum && l.base < l.durable; {
		first := l.items[0]
		if first.entry != nil {
			l.evicted = first.seq
		}
		l.bytes -= first.size()
		l.items[0] = nil
		l.items = l.items[1:]
		l.base++
	}
	if len(l.items) == 0 {
		l.items = nil
	}
	l.wakeAll()
}

// bound is how much may be kept now. Events without a reader yet are not kept at all
// where the journal has them. It is called under the lock.
func (l *Log[H, E]) bound() int {
	if l.unread && len(l.below) == 0 {
		return 0
	}
	return l.Max
}

// wakeAll wakes the readers that wait. It is called under the lock.
func (l *Log[H, E]) wakeAll() {
	if l.wake != nil {
		close(l.wake)
		l.wake = nil
	}
}

// touchUp wakes the readers of the runs above.
func (l *Log[H, E]) touchUp() {
	for up := l.Above; up != nil; up = up.Above {
		up.mu.Lock()
		up.wakeAll()
		up.mu.Unlock()
	}
}

func (l *Log[H, E]) add(i *item[H, E]) {
	l.items = append(l.items, i)
	l.bytes += i.size()
}

// said returns the text from a byte on.
func (i *item[H, E]) said(from int) string {
	if i.text == nil {
		return i.first[from:]
	}
	return string(i.text[from:])
}

func (i *item[H, E]) size() int {
	n := itemBytes + len(i.first) + len(i.text)
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

// Add adds entries that are in the journal. It does not keep the slice.
func (l *Log[H, E]) Add(entries []runlog.Entry) {
	l.update(func() {
		left := l.bound() == 0 && len(l.items) == 0 // no entry is kept: readers find all of them in the journal
		for i := range entries {
			e := &entries[i]
			l.seq = max(l.seq, e.Seq)
			if left {
				l.evicted, l.base = e.Seq, l.base+1
			} else {
				kept := &struct {
					item[H, E]
					entry runlog.Entry
				}{entry: *e}
				kept.item = item[H, E]{entry: &kept.entry, seq: e.Seq, time: e.Time}
				l.add(&kept.item)
			}
			switch e.Body.(type) {
			case *runlog.ToolIntent:
				l.progress = append(l.progress, progress[H, E]{key: e.Key})
			case *runlog.ToolResult, *runlog.ToolUnknown:
				l.forgetProgress(e.Key)
			case *runlog.RunFinished:
				l.finished = true
			}
		}
		if l.concluded(entries) {
			l.durable = l.base + len(l.items)
		}
	})
}

// concluded reports whether all that is kept can be read from the journal now: the text of
// a turn can once the whole of it is written. It is called under the lock.
func (l *Log[H, E]) concluded(entries []runlog.Entry) bool {
	for i := range entries {
		switch entries[i].Body.(type) {
		case *runlog.ModelResult, *runlog.RunFinished:
			return true
		}
	}
	return !slices.ContainsFunc(l.items[max(l.durable-l.base, 0):], func(i *item[H, E]) bool { return i.says })
}

// Text adds a piece of the model's text, or of its thinking, to the piece before it.
func (l *Log[H, E]) Text(turn int, delta string, thinking bool) {
	l.update(func() {
		if n := len(l.items); n > 0 {
			if last := l.items[n-1]; last.says && last.turn == turn && last.thinking == thinking {
				if last.text == nil {
					last.text, last.first = []byte(last.first), ""
				}
				last.text, last.time = append(last.text, delta...), time.Now()
				l.bytes += len(delta)
				return
			}
		}
		l.add(&item[H, E]{says: true, first: delta, thinking: thinking, turn: turn, seq: l.seq, time: time.Now()})
	})
}

// Finished reports whether the run's last event was written.
func (l *Log[H, E]) Finished() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.finished
}

// Saying returns the text so far of the turn under way, and its number; zero for none. Void reports that
// with an event that is not written down the turn has begun anew.
func (l *Log[H, E]) Saying(void func(E) bool) (turn int, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var head H
	for _, i := range slices.Backward(l.items) {
		switch {
		case i.entry != nil:
			switch i.entry.Body.(type) {
			case *runlog.ModelIntent, *runlog.ModelResult, *runlog.ModelFailed, *runlog.RunFinished:
				return turn, text
			}
		case i.passing != nil:
			if void(i.passing(head)) {
				return turn, text
			}
		case !i.thinking:
			turn, text = i.turn, i.said(0)+text
		}
	}
	return turn, text
}

// Progress notes the progress of a call. Only the newest of a call under way is kept.
func (l *Log[H, E]) Progress(key string, event func(H) E) {
	l.update(func() {
		i := l.underWay(key)
		if i < 0 {
			return
		}
		l.changes++
		l.progress[i] = progress[H, E]{key, l.changes, l.seq, time.Now(), event}
	})
}

// underWay finds a call among those under way; -1 means that it is none of them. It
// is called under the lock.
func (l *Log[H, E]) underWay(key string) int {
	return slices.IndexFunc(l.progress, func(p progress[H, E]) bool { return p.key == key })
}

// forgetProgress drops the progress of a call. It is called under the lock.
func (l *Log[H, E]) forgetProgress(key string) {
	if i := l.underWay(key); i >= 0 {
		l.progress = slices.Delete(l.progress, i, i+1)
	}
	if len(l.progress) == 0 && cap(l.progress) > fewCalls {
		l.progress = nil
	}
}

// Pass adds an event that is not written down.
func (l *Log[H, E]) Pass(event func(H) E) {
	l.update(func() { l.add(&item[H, E]{seq: l.seq, time: time.Now(), passing: event}) })
}

// Close ends the log. A last event that could not be written is made up for the readers.
func (l *Log[H, E]) Close(end func() *runlog.RunFinished) {
	l.update(func() {
		if l.finished {
			return
		}
		last := &runlog.Entry{Seq: l.seq, Time: time.Now(), Body: end()}
		l.add(&item[H, E]{entry: last, seq: l.seq, time: last.Time})
	})
	l.update(func() { l.closed = true })
}

// waiter returns a channel that the next change closes, nil if there will be none.
// It is called under the lock.
func (l *Log[H, E]) waiter(found bool) <-chan struct{} {
	if found || l.closed {
		return nil
	}
	if l.wake == nil {
		l.wake = make(chan struct{})
	}
	return l.wake
}

// Adopt makes the events of a run that a call has started part of this one's.
func (l *Log[H, E]) Adopt(key string, run Source[H, E]) {
	l.update(func() { l.below = append(l.below, nested[H, E]{key, run}) })
}

// Below returns the runs that calls have started.
func (l *Log[H, E]) Below() []Source[H, E] {
	l.mu.Lock()
	defer l.mu.Unlock()
	runs := make([]Source[H, E], len(l.below))
	for i, n := range l.below {
		runs[i] = n.run
	}
	return runs
}
