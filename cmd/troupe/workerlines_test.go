package main

import (
	"io"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/store"
)

// A job of stdin that is to be tried again may be ended by another worker: --stdin must
// not wait for this one to do it.
func TestStdinJobRetriedElsewhere(t *testing.T) {
	out := newJobLines(io.Discard, "none")
	in := newStdinJobs(nil, nil, nil, out, nil)
	j := store.Job{ID: "j", State: store.JobRunning}
	ended := store.Job{ID: "j", State: store.JobDone, Updated: time.Now().Add(-time.Minute)}
	out.begun(worker.Event{Type: worker.JobStarted, Job: j})
	if in.elsewhere(ended) {
		t.Error("while it is worked on here: got elsewhere, want not")
	}
	for _, left := range []worker.EventType{worker.JobRetried, worker.JobReturned, worker.JobLost} {
		out.begun(worker.Event{Type: worker.JobStarted, Job: j})
		out.event(worker.Event{Type: left, Job: j})
		if !in.elsewhere(ended) {
			t.Errorf("after %s: got not elsewhere, want elsewhere", left)
		}
	}
}
