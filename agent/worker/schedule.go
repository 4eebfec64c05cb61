package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/adhocore/gronx"

	"github.com/troupe-dev/troupe/store"
)

// Check reports the fault of a cron expression and a time zone, as [Next] accepts them.
func Check(cron, zone string) error {
	_, err := Next(cron, zone, time.Now())
	return err
}

// Next returns the first time of a cron expression after that time. The expression has five
// fields, or six with seconds in front, or is @hourly, @daily and the like. Zone is a name
// of the IANA database, such as "Europe/Berlin"; empty is UTC. When clocks are set back, the
// repeated hour counts once; when they are set forward, a time in the missing hour is left
// out that day.
func Next(cron, zone string, after time.Time) (time.Time, error) {
	if len(cron) > 256 {
		return time.Time{}, errors.New("the cron expression is longer than 256 bytes")
	}
	if !gronx.IsValid(cron) {
		return time.Time{}, fmt.Errorf("the cron expression %q is not valid: want five fields (minute hour day month weekday) or @hourly, @daily, @weekly, @monthly", cron)
	}
	if zone == "Local" { // each process reads it in another way
		return time.Time{}, errors.New(`the time zone "Local" is not the same everywhere: name it, such as "Europe/Berlin"`)
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		return time.Time{}, fmt.Errorf("the time zone: %w", err)
	}
	next, err := gronx.NextTickAfter(cron, after.In(loc), false)
	if err != nil {
		return time.Time{}, fmt.Errorf("the cron expression %q never comes true: %w", cron, err)
	}
	if !next.After(after) {
		return time.Time{}, fmt.Errorf("the cron expression %q has no next time", cron)
	}
	return store.Clock(next), nil
}

// PutSchedule adds a schedule, or replaces the one of that name, and sets when it fires
// next. A schedule whose times have not changed keeps its next one: putting the same
// schedule at every start neither loses a firing nor makes one.
func PutSchedule(ctx context.Context, jobs store.Jobs, in store.Schedule) (store.Schedule, error) {
	next, err := Next(in.Cron, in.Zone, time.Now())
	if err != nil {
		return store.Schedule{}, fmt.Errorf("schedule %q: %w", in.Name, err)
	}
	in.Next = next // the store keeps the one it has: a worker may fire it right now
	out, err := jobs.PutSchedule(ctx, in)
	if err != nil {
		return store.Schedule{}, fmt.Errorf("schedule %q: %w", in.Name, err)
	}
	return out, nil
}

// fire adds the jobs of the schedules that are due. Of several workers that find one due, one
// fires it; times that passed without a worker are one firing.
func (w *Worker) fire(ctx context.Context) error {
	list, err := w.store.Schedules(ctx)
	if err != nil {
		return fmt.Errorf("looking at the schedules: %w", err)
	}
	now := time.Now()
	var errs []error
	for _, s := range list {
		if s.Paused || s.Next.IsZero() || now.Before(s.Next) {
			continue
		}
		next, err := Next(s.Cron, s.Zone, now)
		if err != nil { // it was not put by PutSchedule
			next = time.Time{}
			errs = append(errs, fmt.Errorf("schedule %q does not fire any more: %w", s.Name, err))
		}
		job, err := w.store.FireSchedule(ctx, s.Name, s.Next, next)
		switch {
		case errors.Is(err, store.ErrFenced), errors.Is(err, store.ErrNotFound): // another worker was faster
		case err != nil:
			errs = append(errs, fmt.Errorf("firing schedule %q: %w", s.Name, err))
		case job.ID == "":
			w.opts.Logger.Info("a firing is left out: the last job of the schedule has not ended", "schedule", s.Name, "job", s.LastJob)
		default:
			w.events.emit(report{typ: ScheduleFired, job: &job})
		}
	}
	return errors.Join(errs...)
}
