package worker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func rulesOf(j store.Job, draining bool) *rules {
	o := Options{Retry: Retry{MaxAttempts: 3, MaxLosses: 4, First: time.Second, Max: time.Minute}, GiveUp: 24 * time.Hour, Retryable: Retryable}
	return &rules{job: &j, opts: &o, now: noon, draining: draining}
}

// TestClaimed: rows 1, 15 and 16.
func TestClaimed(t *testing.T) {
	past := noon.Add(-time.Second)
	for _, tt := range []struct {
		name     string
		job      store.Job
		draining bool
		step     step
		state    store.JobState
	}{
		{"due", store.Job{}, false, begin, ""},
		{"goes on from a run", store.Job{From: "j.1"}, false, begin, ""},
		{"the worker drains", store.Job{}, true, leave, store.JobQueued},
		{"cancelled", store.Job{Cancelling: true}, false, leave, store.JobCancelled},
		{"expired", store.Job{Expires: past}, false, leave, store.JobFailed},
		{"expired after it was begun", store.Job{Expires: past, From: "j.1"}, false, begin, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := rulesOf(tt.job, tt.draining).claimed()
			if v.step != tt.step || v.write.update.State != tt.state {
				t.Errorf("got step %d and state %q, want %d and %q", v.step, v.write.update.State, tt.step, tt.state)
			}
		})
	}
}

// TestTaken: rows 2, 3, 4, 11 and 12.
func TestTaken(t *testing.T) {
	open := func(progress int64, asks ...*runlog.Question) *facts {
		return &facts{begun: true, whole: true, progress: progress, state: &runlog.State{Asks: asks}}
	}
	own := func(status store.AskStatus, known bool) *facts {
		q := &runlog.Question{Ask: store.Ask{ID: "q", Kind: agent.KindJob}}
		if known {
			q.Settled = &runlog.AskSettled{Status: status}
		}
		f := open(5, q)
		f.own = &store.Ask{ID: "q", Kind: agent.KindJob, Decision: store.Decision{Status: status}}
		return f
	}
	finished := func(state store.RunState) *facts {
		f := open(5)
		f.finished = &runlog.RunFinished{State: state, Error: "why"}
		return f
	}
	running := func(losses int, progress int64) store.Job {
		return store.Job{ID: "j", Run: "j.1", State: store.JobRunning, Lost: true, Losses: losses, Progress: progress}
	}
	waiting := store.Job{ID: "j", Run: "j.1", State: store.JobWaiting, Lost: true}
	suspect := store.Job{ID: "j", Run: "j.1", State: store.JobWaiting, Lost: true, Losses: 2, Progress: 5}
	cancelling := running(0, 0)
	cancelling.Cancelling = true
	for _, tt := range []struct {
		name  string
		job   store.Job
		facts *facts
		step  step
		state store.JobState
		lost  bool
	}{
		{"its run was not begun", running(0, 0), &facts{whole: true}, begin, "", false},
		{"its run is half a fork", running(0, 0), &facts{begun: true}, leave, store.JobQueued, false},
		{"the first loss", running(0, 0), open(5), resume, "", true},
		{"the second one", running(1, 5), open(5), alone, store.JobWaiting, true},
		{"the second one, with progress between", running(1, 4), open(5), resume, "", true},
		{"the third one", running(2, 5), open(5), alone, store.JobWaiting, true},
		{"the last one", running(3, 5), open(5), ask, "", true},
		{"the hundredth one, with progress between", running(99, 4), open(5), resume, "", true},
		{"waits", waiting, open(5), resume, "", false},
		{"waits to run alone", suspect, open(5), alone, "", false},
		{"waits after two losses, with progress since", suspect, open(6), resume, "", false},
		{"cancelled", cancelling, open(5), end, "", false},
		{"cancelled, with an open question of its own", cancelling, own(store.AskPending, false), end, "", false},
		{"its own question is open", waiting, own(store.AskPending, false), leave, store.JobWaiting, false},
		{"its own question says go on", waiting, own(store.AskAccepted, false), settle, "", false},
		{"and that is written down", waiting, own(store.AskAccepted, true), resume, "", false},
		{"and its worker was lost before it wrote that down", running(3, 5), own(store.AskAccepted, false), settle, "", false},
		{"and after", running(3, 5), own(store.AskAccepted, true), ask, "", true},
		{"its own question says end", waiting, own(store.AskDeclined, false), settle, "", false},
		{"and that end is written down", waiting, own(store.AskDeclined, true), end, "", false},
		{"its own question has expired", waiting, own(store.AskExpired, true), end, "", false},
		{"ended with an answer", running(3, 5), finished(store.Finished), leave, store.JobDone, false},
		{"ended by a limit", waiting, finished(store.Limited), leave, store.JobLimited, false},
		{"ended by a cancel", waiting, finished(store.Cancelled), leave, store.JobCancelled, false},
		{"ended by a failure", waiting, finished(store.Failed), leave, store.JobFailed, false},
		{"ended, and cancelled too late", cancelling, finished(store.Finished), leave, store.JobDone, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := rulesOf(tt.job, false).taken(tt.facts)
			if v.step != tt.step || v.write.update.State != tt.state || v.write.update.Lost != tt.lost {
				t.Errorf("got step %d, state %q, a loss %v; want %d, %q, %v", v.step, v.write.update.State, v.write.update.Lost, tt.step, tt.state, tt.lost)
			}
			if ends := v.write.update.State.Ended(); ends && tt.facts.finished == nil {
				t.Errorf("it ends as %s, and its run has not ended", v.write.update.State)
			}
		})
	}
}

// TestLeft: rows 6, 7, 8 and 13. None ends a job.
func TestLeft(t *testing.T) {
	away := fmt.Errorf("a turn: %w", &agent.OutageError{Provider: "p", Class: "server", RetryAt: noon.Add(time.Minute), Err: llm.ErrUnreachable})
	for _, tt := range []struct {
		name  string
		err   error
		waits []string
		since time.Time
		wants string
		step  step
		wake  time.Time
		why   string
	}{
		{"questions", agent.ErrSuspended, []string{"q"}, time.Time{}, "", leave, time.Time{}, ""},
		{"no question", agent.ErrSuspended, nil, time.Time{}, "", leave, time.Time{}, "waits for a worker"},
		{"an instance", agent.ErrSuspended, nil, time.Time{}, "an instance of x", leave, time.Time{}, "waits for an instance of x"},
		{"an instance and questions", agent.ErrSuspended, []string{"q"}, time.Time{}, "an instance of x", leave, time.Time{}, ""},
		{"an outage", away, nil, noon.Add(-time.Hour), "", leave, noon.Add(time.Minute), "provider p: server"},
		{"an outage with questions", away, []string{"q"}, noon, "", leave, noon.Add(time.Minute), "provider p: server"},
		{"an outage for too long", away, nil, noon.Add(-24 * time.Hour), "", ask, time.Time{}, ""},
		{"its resume is refused", &agent.NotResumableError{Run: "j.1", Why: "there is no agent"}, nil, time.Time{}, "", leave, noon.Add(refusedFor), "there is no agent"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := rulesOf(store.Job{ID: "j", Run: "j.1", State: store.JobRunning}, false).left(tt.err, tt.waits, tt.since, tt.wants)
			u := v.write.update
			if v.step != tt.step || !u.NotBefore.Equal(tt.wake) || !strings.Contains(u.Error, tt.why) {
				t.Errorf("got step %d, %+v; want %d, to wake at %v, for %q", v.step, u, tt.step, tt.wake, tt.why)
			}
			if v.step == leave && (u.State != store.JobWaiting || !u.Release || u.Failed || u.Lost) {
				t.Errorf("got %+v, want a job that waits without a worker, and that nothing counts against it", u)
			}
		})
	}
}

// TestFailed: row 10.
func TestFailed(t *testing.T) {
	passing := fmt.Errorf("calling: %w", mcpclient.ErrNotSent)
	for _, tt := range []struct {
		name   string
		job    store.Job
		err    error
		state  store.JobState
		failed bool
	}{
		{"a limit", store.Job{}, &agent.LimitError{Limit: "tokens", Max: "3"}, store.JobLimited, false},
		{"a cancel", store.Job{}, &agent.CancelledError{}, store.JobCancelled, false},
		{"an unknown outcome that was to end it", store.Job{}, agent.ErrOutcomeUnknown, store.JobUnknown, false},
		{"a bug", store.Job{}, errors.New("boom"), store.JobFailed, true},
		{"what may pass", store.Job{}, passing, store.JobQueued, true},
		{"what may pass, for the last time", store.Job{Failures: 2}, passing, store.JobFailed, true},
		{"what may pass, of a job with a bound of its own", store.Job{Failures: 2, MaxAttempts: 4}, passing, store.JobQueued, true},
		{"what may pass, of a job that was cancelled", store.Job{Cancelling: true}, passing, store.JobCancelled, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := rulesOf(tt.job, false).failed(nil, tt.err).update
			if u.State != tt.state || u.Failed != tt.failed {
				t.Errorf("got %+v, want %s, a failure %v", u, tt.state, tt.failed)
			}
		})
	}
}

// TestPutBackIsBounded: however many jobs wait for an instance at once, a claim excepts no more than it may.
func TestPutBackIsBounded(t *testing.T) {
	w := new(Worker)
	for i := range 2 * store.MaxClaim {
		w.notePutBack(fmt.Sprint(i), "s")
	}
	if n := len(w.back.jobs); n != store.MaxClaim || w.mayPutBack() {
		t.Errorf("%d jobs are left to others, want %d and no more", n, store.MaxClaim)
	}
}
