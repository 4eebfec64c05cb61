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
		j.State, j.Attempts, j.Progress, j.Updated = JobRunning, j.Attempts+1, 0, now
		j.Run = j.RunID(j.Attempts)
	default:
		j.Lost = true
	}
	j.Owner, j.Epoch, j.Lease = owner, j.Epoch+1, now.Add(ttl)
	return true
}

// Leases reports whether the lease of the tree with that root is j's: j has not ended, and the root is its newest attempt.
func (j *Job) Leases(root string) bool { return !j.State.Ended() && j.Run == root && root != "" }

// TakeUp leases j to owner by its run, which is claimed, and reports whether that can be done: see [Leases].Claim.
func (j *Job) TakeUp(owner string, now time.Time, ttl time.Duration) bool {
	if j.Owner != owner && j.Held(now) {
		return false
	}
	if j.State != JobRunning {
		j.State, j.Updated = JobRunning, now
	}
	j.Owner, j.Epoch, j.Lease = owner, j.Epoch+1, now.Add(ttl)
	return true
}

// LeaveRun releases j by its run, which is released; asks are the pending ones of the run's tree: see [Leases].Release.
func (j *Job) LeaveRun(asks []Ask, now time.Time) {
	var u JobUpdate
	u.Until(asks, now)
	j.leave(now)
	j.rest(u.NotBefore, now)
}

func (j *Job) leave(now time.Time) {
	j.State, j.Owner, j.Lease, j.Updated = JobWaiting, "", time.Time{}, now
}

// restTime is the least time between a job's release and its next claim: one that each worker gives back would
// keep all of them, and the disk, busy.
const restTime = time.Second

// rest sets when a job that has been released is due.
func (j *Job) rest(notBefore, now time.Time) {
	if j.NotBefore = Clock(notBefore); j.Cancelling || j.NotBefore.Before(now.Add(restTime)) {
		j.NotBefore = now.Add(restTime)
	}
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
		if j.Losses++; u.Progress > j.Progress {
			j.Losses, j.Progress = 1, u.Progress
		}
	}
	if len(u.Result) > 0 {
		j.Result = u.Result
	}
	if u.State == JobQueued || u.Release && j.State == JobWaiting {
		j.rest(u.NotBefore, now)
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

// Wake has a job that waits without a worker given out, a second after its release at the earliest.
func (j *Job) Wake() {
	if at := j.Updated.Add(restTime); j.State == JobWaiting && j.Owner == "" && j.NotBefore.After(at) {
		j.NotBefore = at
	}
}

// never is when a job is given out whose questions do not expire.
const never = 100 * 366 * 24 * time.Hour

// Until sets NotBefore of an update that releases a job that waits, by its questions as they
// are. One that the store does not have is decided.
func (u *JobUpdate) Until(asks []Ask, now time.Time) {
	until := u.NotBefore
	u.NotBefore = time.Time{}
	if len(asks) == 0 || len(asks) < len(u.Waits) {
		return
	}
	if until.IsZero() {
		until = now.Add(never)
	}
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

// Retry queues j again, or has one that waits look now: see [Jobs].RetryJob. Its store then has one that is queued go on from
// its run: see [Job].GoOn.
func (j *Job) Retry(now time.Time, fromStart bool) error {
	switch {
	case j.State == JobDone:
		return &InvalidError{"job", "is done"}
	case j.State == JobQueued:
		return &InvalidError{"job", "is queued"}
	case !j.State.Ended() && (j.Owner != "" || j.Cancelling):
		return &InvalidError{"job", "is being worked on"}
	case !j.State.Ended() && fromStart:
		return &InvalidError{"job", "waits, and its run has not ended: cancel it first"}
	case !j.State.Ended():
		j.NotBefore, j.Updated = now, now
		return nil
	}
	if fromStart {
		j.From = ""
	}
	j.State, j.Failures, j.Losses, j.Result, j.Error, j.Cancelling, j.Untold = JobQueued, 0, 0, nil, "", false, false
	j.NotBefore, j.Expires, j.Updated = time.Time{}, time.Time{}, now
	return nil
}

// GoOn has the next attempt of j, which is queued, go on from its run. Of a run that was never recorded there is nothing to go on
// from.
func (j *Job) GoOn(recorded bool) {
	if recorded && j.State == JobQueued {
		j.From = j.Run
	}
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
