package agent

import (
	"context"
	"fmt"
	"iter"

	"github.com/troupe-dev/troupe/internal/runlog"
)

// Past yields what has happened in the run so far, as [Run.Events] does, and then ends:
// it does not wait for what is to come.
func (r *Run) Past(ctx context.Context) iter.Seq2[Event, error] {
	return events(ctx, r.past)
}

// past returns a function that gives the next events that there are, none if there are
// no more.
func (r *Run) past() func(context.Context) ([]Event, error) {
	c := converter{runID: r.id, answer: r.answer, intents: make(map[string]*runlog.ToolIntent)}
	if r.record != nil {
		rd := r.record.read(c)
		return func(ctx context.Context) ([]Event, error) {
			events, _, err := rd.poll(ctx)
			return events, err
		}
	}
	return func(ctx context.Context) ([]Event, error) {
		for {
			page, err := r.store.Events(ctx, r.id, c.seq, 64)
			if err != nil {
				return nil, fmt.Errorf("reading the run's journal: %w", err)
			}
			if len(page) == 0 {
				return nil, nil
			}
			events, err := c.decode(page, page[len(page)-1].Seq)
			if err != nil || len(events) > 0 {
				return events, err
			}
		}
	}
}
