package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

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

// poll returns new events, here or below; or, if there are none, a channel that is
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
			first.done = true // its later events come too late
		default:
			events, err := r.pollBelow(ctx)
			return events, wait, err
		}
	}
}

// take returns the new items in memory; or up to which number the journal must be
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

// item converts the part of an item that the reader lacks.
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

// nestedReader is a reader's place in such a run.
type nestedReader struct {
	key    string
	reader *reader
	done   bool
}

// attach takes up runs that were started since. It is called under the record's lock.
func (r *reader) attach() {
	for _, n := range r.record.below[len(r.below):] {
		c := converter{runID: n.run.id, answer: n.run.answer, intents: make(map[string]*runlog.ToolIntent)}
		r.below = append(r.below, &nestedReader{key: n.key, reader: &reader{converter: c, record: n.run.record}})
	}
}

// before returns a run whose events come before an entry: the result of the call that
// has started it, or the end of all.
func (r *reader) before(e *runlog.Entry) *nestedReader {
	if e == nil || len(r.below) == 0 {
		return nil
	}
	var of string
	switch e.Body.(type) {
	case *runlog.ToolResult, *runlog.ToolUnknown:
		of = e.Key
	case *runlog.RunFinished:
	default:
		return nil
	}
	for _, n := range r.below {
		if !n.done && (of == "" || n.key == of) {
			return n
		}
	}
	return nil
}

// pollNested returns the new events of a run below.
func (r *reader) pollNested(ctx context.Context, n *nestedReader) ([]Event, error) {
	events, _, err := n.reader.poll(ctx)
	if errors.Is(err, store.ErrNotFound) { // it ended long ago, and was forgotten
		n.done, err = true, nil
	}
	for i, ev := range events {
		h := Header{RunID: r.runID, Seq: r.seq, Time: ev.Head().Time, Path: r.path}
		events[i] = Nested{h, n.key, ev}
	}
	return events, err
}

// pollBelow returns the new events of the first run below that has some.
func (r *reader) pollBelow(ctx context.Context) ([]Event, error) {
	for _, n := range r.below {
		if n.done {
			continue
		}
		if events, err := r.pollNested(ctx, n); err != nil || len(events) > 0 {
			return events, err
		}
	}
	return nil, nil
}
