package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// schedules holds the statements on schedules.
type schedules struct{ *database }

// scheduleColumns are those of a schedule, in the order of scanSchedule.
const scheduleColumns = "name, cron, zone, agent, prompt, input, batch, max_attempts, timeout, hook, overlap, paused, next, last, last_job, created, updated"

func scanSchedule(row scanner) (s store.Schedule, err error) {
	err = row.Scan(&s.Name, &s.Cron, &s.Zone, &s.Agent, &s.Prompt, (*body)(&s.Input), &s.Batch, &s.MaxAttempts, (*int64)(&s.Timeout),
		&s.Hook, &s.Overlap, &s.Paused, (*micros)(&s.Next), (*micros)(&s.Last), &s.LastJob, (*micros)(&s.Created), (*micros)(&s.Updated))
	return s, found(err)
}

func (t *tx) schedule(name string) (store.Schedule, error) {
	return scanSchedule(t.row("SELECT "+scheduleColumns+" FROM schedules WHERE name = ?", name))
}

// PutSchedule implements [store.Jobs].
func (s *schedules) PutSchedule(ctx context.Context, in store.Schedule) (store.Schedule, error) {
	if err := in.Check(); err != nil {
		return store.Schedule{}, err
	}
	var out store.Schedule
	err := s.writer.do(ctx, "keeping a schedule", weight{1, len(in.Prompt) + len(in.Input)}, func(t *tx) error {
		old, err := t.schedule(in.Name)
		switch {
		case errors.Is(err, store.ErrNotFound):
			var n int
			if err := t.row("SELECT count(*) FROM schedules").Scan(&n); err != nil {
				return err
			}
			if n >= store.MaxSchedules {
				return &store.LimitError{Field: "schedules", Size: n + 1, Max: store.MaxSchedules}
			}
			out = in.Put(nil, t.now)
		case err != nil:
			return err
		default:
			out = in.Put(&old, t.now)
		}
		return t.exec("INSERT OR REPLACE INTO schedules ("+scheduleColumns+") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
			out.Name, out.Cron, out.Zone, out.Agent, out.Prompt, string(out.Input), out.Batch, out.MaxAttempts, int64(out.Timeout),
			out.Hook, out.Overlap, out.Paused, out.Next.UnixMicro(), out.Last.UnixMicro(), out.LastJob,
			out.Created.UnixMicro(), out.Updated.UnixMicro())
	})
	if err != nil {
		return store.Schedule{}, err
	}
	return out, nil
}

// Schedules implements [store.Jobs].
func (s *schedules) Schedules(ctx context.Context) ([]store.Schedule, error) {
	return list(ctx, s.database, "listing schedules", "SELECT "+scheduleColumns+" FROM schedules ORDER BY name", nil, scanSchedule, nil)
}

// DeleteSchedule implements [store.Jobs].
func (s *schedules) DeleteSchedule(ctx context.Context, name string) error {
	if err := store.CheckID("schedule.Name", name); err != nil {
		return err
	}
	return s.writer.do(ctx, "deleting a schedule", weight{events: 1}, func(t *tx) error {
		met, err := t.changed("DELETE FROM schedules WHERE name = ?", name)
		if err == nil && !met {
			return store.ErrNotFound
		}
		return err
	})
}

// FireSchedule implements [store.Jobs].
func (s *schedules) FireSchedule(ctx context.Context, name string, at, next time.Time) (store.Job, error) {
	if err := store.CheckFiring(name, at, next); err != nil {
		return store.Job{}, err
	}
	id := store.NewJobID()
	var j store.Job
	err := s.writer.do(ctx, "firing a schedule", weight{events: 1}, func(t *tx) error {
		j = store.Job{}
		sched, err := t.schedule(name)
		if err != nil {
			return err
		}
		if err := sched.Fires(at); err != nil {
			return err
		}
		last, err := t.job(sched.LastJob)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if sched.Overlap || err != nil || last.State.Ended() {
			in := sched.Job()
			in.ID = id
			if j, err = t.addJob(in); err != nil {
				return err
			}
			sched.LastJob = id
		}
		return t.exec("UPDATE schedules SET next = ?, last = ?, last_job = ? WHERE name = ?",
			store.Clock(next).UnixMicro(), store.Clock(at).UnixMicro(), sched.LastJob, name)
	})
	if err != nil {
		return store.Job{}, err
	}
	return j, nil
}
