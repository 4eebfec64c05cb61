package eventlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// Reader is one reader's place in a log.
type Reader[H, E any] struct {
	log     *Log[H, E]
	convert Converter[H, E]
	seq     int64  // of the last entry
	index   int    // of the next item
	offset  int    // of the next byte in it, if it is a text
	changes uint64 // progress that was passed on
	below   []*nestedReader[H, E]
}

// Read returns a new reader's place at the beginning of the events.
func Read[H, E any](of Source[H, E]) *Reader[H, E] {
	r := newReader(of)
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	r.log.unread = false
	return r
}

func newReader[H, E any](of Source[H, E]) *Reader[H, E] {
	return &Reader[H, E]{log: of.Events(), convert: of.Converter()}
}

// Next returns the next events, and waits for them; none at all is the end.
func (r *Reader[H, E]) Next(ctx context.Context) ([]E, error) {
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

// Past returns the next events that there are, none if there are no more.
func (r *Reader[H, E]) Past(ctx context.Context) ([]E, error) {
	events, _, err := r.poll(ctx)
	return events, err
}

// poll returns new events, here or below; or, if there are none, a channel that is
// closed when there is, nil at the end.
func (r *Reader[H, E]) poll(ctx context.Context) ([]E, <-chan struct{}, error) {
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
func (r *Reader[H, E]) take() (events []E, missing int64, first *nestedReader[H, E], wait <-chan struct{}) {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	r.attach()
	if r.index < l.base {
		if r.seq < l.evicted {
			return nil, l.evicted, nil, nil
		}
		r.index, r.offset = l.base, 0
	}
	for len(events) == 0 && r.index < l.base+len(l.items) {
		i := l.items[r.index-l.base]
		last := r.index == l.base+len(l.items)-1
		if first := r.before(i.entry); first != nil {
			return nil, 0, first, nil
		}
		events = r.item(i)
		if i.says && last {
			return events, 0, nil, l.waiter(len(events) > 0) // it may still grow
		}
		r.index, r.offset = r.index+1, 0
	}
	if len(events) == 0 {
		events = r.newProgress()
	}
	return events, 0, nil, l.waiter(len(events) > 0)
}

// item converts the part of an item that the reader lacks.
func (r *Reader[H, E]) item(i *item[H, E]) []E {
	switch {
	case i.entry != nil:
		r.seq = i.entry.Seq
		return r.convert.Entry(i.entry)
	case i.passing != nil:
		return []E{r.convert.Passing(i.passing(r.convert.Head(i.seq, i.time)))}
	}
	delta := i.said(r.offset)
	r.offset += len(delta)
	if ev, some := r.convert.Text(r.convert.Head(i.seq, i.time), i.turn, i.thinking, delta); some {
		return []E{ev}
	}
	return nil
}

// newProgress returns the oldest progress the reader has not had.
func (r *Reader[H, E]) newProgress() []E {
	var next *progress[H, E]
	for i := range r.log.progress {
		if p := &r.log.progress[i]; p.event != nil && p.version > r.changes && (next == nil || p.version < next.version) {
			next = p
		}
	}
	if next == nil {
		return nil
	}
	r.changes = next.version
	return []E{r.convert.Passing(next.event(r.convert.Head(next.seq, next.time)))}
}

// reread returns events that memory has given up, one page of them.
func (r *Reader[H, E]) reread(ctx context.Context, last int64) ([]E, error) {
	page, err := r.log.Journal.Events(ctx, r.log.Run, r.seq, 64)
	if err != nil {
		return nil, fmt.Errorf("reading the run's journal: %w", err)
	}
	if len(page) == 0 {
		return nil, fmt.Errorf("reading the run's journal: its events %d to %d are gone: %w", r.seq+1, last, store.ErrNotFound)
	}
	events, seq, _, err := decode(r.convert, page, last)
	r.seq = max(r.seq, seq)
	return events, err
}

// decode converts events up to a number, and returns the number of the last one and whether that
// is the last of its run.
func decode[H, E any](c Converter[H, E], page []store.Event, last int64) (out []E, seq int64, finished bool, err error) {
	for _, ev := range page {
		if ev.Seq > last {
			break
		}
		e, err := runlog.Decode(ev)
		if err != nil {
			return out, seq, finished, err
		}
		seq, finished = e.Seq, e.Type == store.RunFinished
		out = append(out, c.Entry(&e)...)
	}
	return out, seq, finished, nil
}

// nestedReader is a reader's place in a run that a call has started.
type nestedReader[H, E any] struct {
	key    string
	reader *Reader[H, E]
	done   bool
}

// attach takes up runs that were started since. It is called under the log's lock.
func (r *Reader[H, E]) attach() {
	for _, n := range r.log.below[len(r.below):] {
		r.below = append(r.below, &nestedReader[H, E]{key: n.key, reader: newReader(n.run)})
	}
}

// before returns a run whose events come before an entry: the result of the call that
// has started it, or the end of all.
func (r *Reader[H, E]) before(e *runlog.Entry) *nestedReader[H, E] {
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
func (r *Reader[H, E]) pollNested(ctx context.Context, n *nestedReader[H, E]) ([]E, error) {
	events, _, err := n.reader.poll(ctx)
	if errors.Is(err, store.ErrNotFound) { // it ended long ago, and was forgotten
		n.done, err = true, nil
	}
	for i, ev := range events {
		events[i] = r.convert.Nested(r.seq, n.key, ev)
	}
	return events, err
}

// pollBelow returns the new events of the first run below that has some.
func (r *Reader[H, E]) pollBelow(ctx context.Context) ([]E, error) {
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
