package agent

import (
	"cmp"
	"maps"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/agent/internal/eventlog"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// recordBytes bounds the memory of a record for events that can be read from
// the store again.
const recordBytes = 1 << 20

// record is the [loop.Sink] of a run: it keeps the run's events for readers, and has those know
// that must: who answers, the clocks above, observers, the runtime.
type record struct {
	run    *Run
	log    eventlog.Log[Header, Event]
	from   *starter // the call that has started the run; nil for none
	asks   *answering
	traced *tracing // nil without a [Tracer]

	stalls   *stalls           // of the runtime
	servers  *servers          // that the run's calls go to; nil without
	standing standing          // of the tree of runs below; it has a lock of its own
	waits    map[string]func() // release the clocks above, by the ask or call that waits; touched by the run's goroutine only
}

func newRecord(run *Run, j store.Journal, s *stalls, from *starter) *record {
	r := &record{run: run, stalls: s}
	r.log.Journal, r.log.Run, r.log.Max = j, run.id, recordBytes
	if from != nil {
		up := from.by.run.record
		r.from, r.log.Above, r.log.Max, r.waits = from, &up.log, recordBytes/4, make(map[string]func())
	}
	return r
}

// Events implements [eventlog.Source].
func (r *record) Events() *eventlog.Log[Header, Event] { return &r.log }

// Converter implements [eventlog.Source].
func (r *record) Converter() eventlog.Converter[Header, Event] { return r.run.converter() }

// Journalled implements [loop.Sink].
func (r *record) Journalled(entries []runlog.Entry) {
	r.holdClocks(entries)
	r.asks.journalled(entries)
	r.noteAsks(entries)
	r.log.Add(entries)
}

// Text implements [loop.Sink].
func (r *record) Text(turn int, delta string) { r.log.Text(turn, delta, false) }

// Thinking implements [loop.Sink].
func (r *record) Thinking(turn int, delta string) { r.log.Text(turn, delta, true) }

// Progress implements [loop.Sink]. Only the newest of a call under way is kept.
func (r *record) Progress(key string, done, total float64, message string) {
	r.log.Progress(key, func(h Header) Event {
		return ToolProgress{Header: h, Key: key, Done: done, Total: total, Message: message}
	})
}

// Retried implements [loop.Sink].
func (r *record) Retried(_ int, a llm.Attempt) {
	r.log.Pass(func(h Header) Event {
		return ModelRetried{Header: h, Model: a.Model, Attempt: a.Number, Error: a.Err.Error(), WaitMS: a.Wait.Milliseconds()}
	})
}

// Chose implements [loop.Sink].
func (r *record) Chose(turn int, c llm.Choice) {
	r.log.Pass(func(h Header) Event { return ModelChosen{h, turn, c.Model, c.Reason, c.Fallback} })
}

// Restarted implements [loop.Sink].
func (r *record) Restarted(turn int) {
	r.log.Pass(func(h Header) Event { return TurnRestarted{h, turn} })
}

// Closed implements [loop.Sink]. A last event that could not be written is made up
// for the readers.
func (r *record) Closed(out loop.Outcome) {
	r.asks.closed(cmp.Or(errorOf("", out.Err), ErrSettled))
	for _, release := range r.waits { // of asks whose end could not be written
		release()
	}
	r.log.Close(out.Finished)
	r.stalls.remove(r.run.id)
	r.noteEnd()
	r.servers.forget(r.run.id)
	r.traced.over(&out, nil)
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

// under returns the runs that calls have started.
func (r *record) under() []*Run {
	below := r.log.Below()
	runs := make([]*Run, len(below))
	for i, b := range below {
		runs[i] = b.(*record).run
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
			b := e.Body.(*runlog.ToolWaiting)
			s.update(func() {
				if s.held == nil {
					s.held = make(map[string]heldUp)
				}
				s.held[e.Key] = heldUp{r, b.Server, b.For}
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
	r.stalls.add(StalledRun{ID: r.run.id, Since: time.Now(), Err: err})
	r.log.Pass(func(h Header) Event { return StoreStalled{h, err.Error()} })
}

// Resumed implements [loop.Sink].
func (r *record) Resumed() {
	r.stalls.remove(r.run.id)
	r.log.Pass(func(h Header) Event { return StoreResumed{h} })
}
