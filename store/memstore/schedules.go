package memstore

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// schedules are by their names.
type schedules struct {
	*memory
	jobs *jobs // which they add to
	rows map[string]*store.Schedule
}

// PutSchedule implements [store.Jobs].
func (s *schedules) PutSchedule(ctx context.Context, in store.Schedule) (store.Schedule, error) {
	if err := in.Check(); err != nil {
		return store.Schedule{}, err
	}
	return get(ctx, s.memory, func(now time.Time) (store.Schedule, error) {
		old := s.rows[in.Name]
		n := sizeOfSchedule(in)
		if old == nil && len(s.rows) >= store.MaxSchedules {
			return store.Schedule{}, &store.LimitError{Field: "schedules", Size: len(s.rows) + 1, Max: store.MaxSchedules}
		}
		if old != nil {
			n -= sizeOfSchedule(*old)
		}
		if err := s.grow(n); err != nil {
			return store.Schedule{}, err
		}
		put := in.Put(old, now)
		put.Input = body(put.Input)
		s.rows[in.Name] = &put
		return cloneSchedule(put), nil
	})
}

// Schedules implements [store.Jobs].
func (s *schedules) Schedules(ctx context.Context) ([]store.Schedule, error) {
	list := []store.Schedule{}
	err := s.do(ctx, func(time.Time) error {
		for _, one := range s.rows {
			list = append(list, cloneSchedule(*one))
		}
		slices.SortFunc(list, func(a, b store.Schedule) int { return strings.Compare(a.Name, b.Name) })
		return nil
	})
	return list, err
}

// DeleteSchedule implements [store.Jobs].
func (s *schedules) DeleteSchedule(ctx context.Context, name string) error {
	if err := store.CheckID("schedule.Name", name); err != nil {
		return err
	}
	return s.do(ctx, func(time.Time) error {
		one := s.rows[name]
		if one == nil {
			return store.ErrNotFound
		}
		s.used -= sizeOfSchedule(*one)
		delete(s.rows, name)
		return nil
	})
}

// FireSchedule implements [store.Jobs].
func (s *schedules) FireSchedule(ctx context.Context, name string, at, next time.Time) (store.Job, error) {
	if err := store.CheckFiring(name, at, next); err != nil {
		return store.Job{}, err
	}
	var out store.Job
	err := s.do(ctx, func(now time.Time) error {
		one := s.rows[name]
		if one == nil {
			return store.ErrNotFound
		}
		if err := one.Fires(at); err != nil {
			return err
		}
		if last := s.jobs.rows[one.LastJob]; one.Overlap || last == nil || last.State.Ended() {
			in := one.Job()
			in.ID = store.NewJobID()
			added, err := s.jobs.addJob(in, now)
			if err != nil {
				return err
			}
			one.LastJob, out = added.ID, added
		}
		one.Next, one.Last = store.Clock(next), store.Clock(at)
		return nil
	})
	return out, err
}

func cloneSchedule(s store.Schedule) store.Schedule {
	s.Input = body(s.Input)
	return s
}

// sizeOfSchedule leaves out LastJob, which changes.
func sizeOfSchedule(s store.Schedule) int64 {
	return int64(2*entryBytes + len(s.Name) + len(s.Cron) + len(s.Zone) + len(s.Agent) + len(s.Prompt) + len(s.Input) +
		len(s.Batch) + len(s.Hook))
}
