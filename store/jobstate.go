package store

import (
	"cmp"
	"time"
)

// The transitions of a job. They are here, and not in each store, so that a job moves
// in the same way in all of them; a store makes them atomic.

// Queued returns j as [Jobs].AddJob records it.
func (j Job) Queued(now time.Time) Job {
	return Job{ID: j.ID, Agent: j.Agent, Key: j.Key, Batch: j.Batch, Prompt: j.Prompt, Input: j.Input, MaxAttempts: j.MaxAttempts,
		NotBefore: Clock(j.NotBefore), Expires: Clock(j.Expires), Timeout: j.Timeout, Hook: j.Hook, Schedule: j.Schedule,
		State: JobQueued, Created: now, Updated: now}
}

// Held reports whether the job has an unexpired lease at that time.
func (j Job) Held(now time.Time) bool { return j.Owner != "" && now.Before(j.Lease) }

// Claim leases j to owner, and reports whether that can be done: see [Jobs].ClaimJobs.
func (j *Job) Claim(owner string, now time.Time, ttl time.Duration) bool {
	switch {
	case j.State.Ended() || j.Held(now), j.Owner == owner: // its own, expired or not, are renewed and never taken over
		return false
	case j.State == JobQueued && now.Before(j.Due()), j.State == JobWaiting && j.Owner == "" && now.Before(j.NotBefore):
		return false
	case j.State == JobQueued:
		j.State, j.Attempts, j.Updated = JobRunning, j.Attempts+1, now
		j.Run = j.RunID(j.Attempts)
	default:
		j.Lost = true
	}
	j.Owner, j.Epoch, j.Lease = owner, j.Epoch+1, now.Add(ttl)
	return true
}

// Update applies u: see [Jobs].UpdateJob.
func (j *Job) Update(u JobUpdate, now time.Time) error {
	switch {
	case j.State.Ended():
		return ErrFinished
	case j.Owner != u.Owner || j.Epoch != u.Epoch:
		return ErrFenced
	case u.Release && cmp.Or(u.State, j.State) == JobRunning:
		return &InvalidError{"update.Release", "leaves a job that is running without a worker"}
	}
	j.Error, j.Updated = u.Error, now
	if u.State != "" {
		j.State = u.State
	}
	if u.Failed {
		j.Failures++
	}
	if u.Lost {
		j.Losses++
	}
	if len(u.Result) > 0 {
		j.Result = u.Result
	}
	if u.State == JobQueued || u.Release && j.State == JobWaiting && !j.Cancelling {
		j.NotBefore = Clock(u.NotBefore)
	}
	if u.Release || u.State == JobQueued || u.State.Ended() {
		j.Owner, j.Lease = "", time.Time{}
	}
	switch {
	case u.State.Ended():
		j.Cancelling, j.Untold = false, j.Hook != ""
	case u.State == JobQueued && j.Cancelling: // requested while it was being worked on; no worker would see it before it is due
		j.Cancelling = false
		return j.Cancel(now)
	}
	return nil
}

// Cancel ends j, or marks it: see [Jobs].CancelJob.
func (j *Job) Cancel(now time.Time) error {
	switch {
	case j.State.Ended():
		return ErrFinished
	case j.State == JobQueued:
		j.State, j.Updated, j.Untold = JobCancelled, now, j.Hook != ""
		if j.Attempts == 0 {
			j.Error = "cancelled before it was begun"
		} else {
			j.Error = "cancelled before it was begun again"
		}
	default:
		j.Cancelling = true
		j.Wake()
	}
	return nil
}

// Wake has a job that waits without a worker given out at once.
func (j *Job) Wake() {
	if j.State == JobWaiting && j.Owner == "" {
		j.NotBefore = time.Time{}
	}
}

// never is when a job is given out whose questions do not expire.
const never = 100 * 366 * 24 * time.Hour

// Until sets NotBefore of an update that releases a job that waits, by its questions as they
// are. One that the store does not have is decided.
func (u *JobUpdate) Until(asks []Ask, now time.Time) {
	u.NotBefore = time.Time{}
	if len(asks) == 0 || len(asks) < len(u.Waits) {
		return
	}
	until := now.Add(never)
	for _, a := range asks {
		if a.Seen(now).Status != AskPending {
			return
		}
		if !a.Expires.IsZero() && a.Expires.Before(until) {
			until = a.Expires
		}
	}
	u.NotBefore = until
}

// Retry queues j again: see [Jobs].RetryJob.
func (j *Job) Retry(now time.Time, fromStart bool) error {
	switch {
	case j.State == JobDone:
		return &InvalidError{"job", "is done"}
	case j.State == JobQueued:
		return &InvalidError{"job", "is queued"}
	case !j.State.Ended() && (j.Owner != "" || j.Cancelling):
		return &InvalidError{"job", "is being worked on"}
	}
	if j.From = j.Run; fromStart {
		j.From = ""
	}
	j.State, j.Failures, j.Losses, j.Result, j.Error, j.Cancelling, j.Untold = JobQueued, 0, 0, nil, "", false, false
	j.NotBefore, j.Expires, j.Updated = time.Time{}, time.Time{}, now
	return nil
}

// ClaimNotification marks the end of the job as announced: see [Jobs].ClaimNotification.
func (j *Job) ClaimNotification(epoch int64) error {
	if !j.Untold || j.Epoch != epoch {
		return ErrFenced
	}
	j.Untold = false
	return nil
}

// Put returns s as [Jobs].PutSchedule records it in place of old, nil for none. Next stays
// where the times are the same: a firing since s was made moved it on, and would come a
// second time.
func (s Schedule) Put(old *Schedule, now time.Time) Schedule {
	s.Next, s.Created, s.Updated = Clock(s.Next), now, now
	s.Last, s.LastJob = time.Time{}, ""
	if old != nil {
		s.Created, s.Last, s.LastJob = old.Created, old.Last, old.LastJob
		if old.Cron == s.Cron && old.Zone == s.Zone && !old.Paused && !old.Next.IsZero() {
			s.Next = old.Next
		}
	}
	return s
}

// Fires reports whether s can fire for that time: see [Jobs].FireSchedule.
func (s Schedule) Fires(at time.Time) error {
	if s.Paused || !s.Next.Equal(Clock(at)) || s.Next.IsZero() {
		return ErrFenced
	}
	return nil
}
