package console

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

const (
	spendTime   = 25 * time.Millisecond // of one look at the journals: the next one goes on
	spendDays   = 30                    // that are counted
	maxOpen     = 1000                  // runs that go on are looked at again; beyond it as they were
	maxSpent    = 20_000                // sums: days, agents and models
	maxSpans    = 100                   // that wait to be counted
	settleAfter = 2 * time.Second       // a run may be stored a little later than it was created
)

// spending counts what the runs of the last days have spent. The store has no sums, so that a turn costs
// no further write; the journals are read here, once each, and a little at each look.
type spending struct {
	counts chan struct{} // has room for the request that counts; others wait for it as long as they want
	sums   map[spentKey]spent
	front  time.Time // runs that were created later were not looked at yet
	todo   []span    // that is not counted, the oldest first
	open   map[string]*openRun
	turn   []string // the order in which those are looked at again
}

func newSpending() *spending {
	return &spending{counts: make(chan struct{}, 1), sums: make(map[spentKey]spent), open: make(map[string]*openRun)}
}

// spentKey is what is told apart.
type spentKey struct{ Day, Agent, Model string }

// span is a part of the list of runs.
type span struct {
	since, until time.Time
	after        string // cursor of the last run that is counted
}

// openRun is a run that has not ended, with what is counted of it.
type openRun struct {
	seq  int64
	sums map[spentKey]spent
}

// since counts on for a moment, and returns what was spent in the last days. Counted is the time back to
// which all runs are counted, zero if it is all of them.
func (s *spending) since(ctx context.Context, j store.Journal, now time.Time, days int) (all map[spentKey]spent, counted time.Time, err error) {
	select {
	case s.counts <- struct{}{}:
		defer func() { <-s.counts }()
	case <-ctx.Done():
		return nil, time.Time{}, context.Cause(ctx)
	}
	if err := s.count(ctx, j, now); err != nil {
		return nil, time.Time{}, err
	}
	first := dayOf(now.AddDate(0, 0, 1-days))
	all = make(map[spentKey]spent)
	for key, sum := range s.sums {
		if key.Day >= first {
			all[key] = sum
		}
	}
	if n := len(s.todo); n > 0 && dayOf(s.todo[n-1].until) >= first {
		counted = s.todo[n-1].until
	}
	return all, counted, nil
}

func dayOf(t time.Time) string { return t.Local().Format(time.DateOnly) }

// count looks at runs that were not looked at, the newest first, and then again at those that go on.
func (s *spending) count(ctx context.Context, j store.Journal, now time.Time) error {
	if s.front.IsZero() {
		s.front = now.AddDate(0, 0, -spendDays)
	}
	if until := now.Add(-settleAfter); until.After(s.front) && len(s.todo) < maxSpans {
		s.todo = append(s.todo, span{since: s.front, until: until})
		s.front = until
	}
	oldest := dayOf(now.AddDate(0, 0, -spendDays))
	for key := range s.sums {
		if key.Day < oldest {
			delete(s.sums, key)
		}
	}
	end := time.Now().Add(spendTime)
	for len(s.todo) > 0 {
		over, err := s.span(ctx, j, &s.todo[len(s.todo)-1], end)
		if err != nil || !over {
			return err
		}
		s.todo = s.todo[:len(s.todo)-1]
	}
	for range len(s.turn) {
		if time.Now().After(end) {
			return nil
		}
		if err := s.again(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// spanPage is how many runs are listed at once.
const spanPage = 100

// span counts the runs of a span until it is over, or the time is.
func (s *spending) span(ctx context.Context, j store.Journal, p *span, end time.Time) (over bool, err error) {
	for {
		page, err := j.Runs(ctx, store.Query{Since: p.since, Until: p.until, After: p.after, Limit: spanPage})
		if err != nil {
			return false, err
		}
		for i := range page {
			if err := s.run(ctx, j, &page[i]); err != nil {
				return false, err
			}
			p.after, p.until = page[i].Cursor(), page[i].Created.Add(time.Microsecond)
			if time.Now().After(end) {
				return false, nil
			}
		}
		if len(page) < spanPage {
			return true, nil
		}
	}
}

// run counts a run.
func (s *spending) run(ctx context.Context, j store.Journal, r *store.Run) error {
	sums, err := sumsOf(ctx, j, r)
	if err != nil {
		return err
	}
	for key, sum := range sums {
		if _, ok := s.sums[key]; ok || len(s.sums) < maxSpent {
			s.sums[key] = s.sums[key].plus(sum)
		}
	}
	if !r.State.Ended() && len(s.open) < maxOpen {
		s.open[r.ID] = &openRun{r.Seq, sums}
		s.turn = append(s.turn, r.ID)
	}
	return nil
}

// again looks at the next run that has not ended.
func (s *spending) again(ctx context.Context, j store.Journal) error {
	id := s.turn[0]
	s.turn = s.turn[1:]
	was := s.open[id]
	r, err := j.Run(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		delete(s.open, id) // what it has spent stays spent
		return nil
	case err != nil:
		s.turn = append(s.turn, id)
		return err
	case r.Seq == was.seq && !r.State.Ended():
		s.turn = append(s.turn, id)
		return nil
	}
	for key, sum := range was.sums {
		s.sums[key] = s.sums[key].plus(spent{-sum.Turns, -sum.Input, -sum.Output, -sum.Cost})
	}
	delete(s.open, id)
	return s.run(ctx, j, &r)
}

// sumsOf adds up what one run has spent, without the runs that it has started. A journal that cannot be
// read counts as far as it can.
func sumsOf(ctx context.Context, j store.Journal, r *store.Run) (map[spentKey]spent, error) {
	sums := make(map[spentKey]spent)
	agent, model := r.Agent, ""
	for ev, err := range store.Replay(ctx, j, r.ID, 0) {
		if errors.Is(err, store.ErrNotFound) {
			return sums, nil // it was removed
		}
		if err != nil {
			return nil, err
		}
		switch ev.Type {
		case store.RunStarted, runlog.AgentChangedType, store.ModelResult, runlog.ModelFailedType, runlog.SpentType:
		default:
			continue
		}
		e, err := runlog.Decode(ev)
		if err != nil {
			continue
		}
		var usage runlog.Usage
		by := model
		switch b := e.Body.(type) {
		case *runlog.RunStarted:
			model = b.Model
			continue
		case *runlog.AgentChanged:
			agent, model = b.To, b.Model
			continue
		case *runlog.ModelResult:
			if usage = b.Usage; b.Model != "" {
				by = b.Model
			}
			if b.Chosen != nil {
				by = b.Chosen.Model
			}
		case *runlog.ModelFailed:
			usage = b.Usage
		case *runlog.Spent:
			if usage = b.Usage; b.Model != "" {
				by = b.Model
			}
		}
		key := spentKey{dayOf(ev.Time), agent, by}
		sums[key] = sums[key].plus(spent{1, usage.Input, usage.Output, usage.Cost})
	}
	return sums, nil
}

// now is how the counting stands, as a text that changes with it.
func (s *spending) now(ctx context.Context, j store.Journal) (string, error) {
	all, counted, err := s.since(ctx, j, time.Now(), spendDays)
	var sum spent
	for _, one := range all {
		sum = sum.plus(one)
	}
	return fmt.Sprint(sum, counted), err
}
