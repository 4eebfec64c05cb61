package worker

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// Lines of stdin that are the same job are one, and what another worker has done is told.
func TestStdinJobs(t *testing.T) {
	t.Run("started", func(t *testing.T) {
		s := memstore.New(nil)
		testStdinJobs(t, s, s)
	})
	t.Run("one after the other", func(t *testing.T) {
		s := memstore.New(nil)
		testStdinJobs(t, s, struct{ store.Store }{s})
	})
}

func testStdinJobs(t *testing.T, s store.Store, to store.Jobs) {
	t.Helper()
	var out strings.Builder
	lines := newJobLines(&out, "ends")
	in := `{"id":"a","prompt":"x"}` + "\n" + `{"id":"a","prompt":"x"}` + "\n" + `{"id":"a","prompt":"y"}` + "\n" + `{"key":"k","prompt":"x"}` + "\n" + `{"key":"k","prompt":"x"}` + "\n"
	j := newStdinJobs(strings.NewReader(in), to, nil, lines, func() {})
	j.read(t.Context())
	if len(j.open) != 2 || j.failed != 3 || len(j.room) != 2 {
		t.Errorf("got %d open, %d failed, %d places taken, want 2, 3 and 2\n%s", len(j.open), j.failed, len(j.room), out.String())
	}
	jobs, err := s.Jobs(t.Context(), store.JobQuery{})
	if err != nil || len(jobs) != 2 {
		t.Fatalf("got %d jobs, %v, want 2", len(jobs), err)
	}
	if err := j.outcome(); err == nil || !strings.Contains(err.Error(), "2 jobs of stdin have not ended") {
		t.Errorf("before they have ended: got %v", err)
	}
	for _, job := range jobs {
		if _, err := s.CancelJob(t.Context(), job.ID); err != nil {
			t.Fatal(err)
		}
	}
	if !j.follow(t.Context()) {
		t.Error("follow: got false, want the end")
	}
	var numbers []int
	for line := range strings.Lines(out.String()) {
		var l struct {
			Type string `json:"type"`
			Line int    `json:"line"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l.Type == "job.ended" {
			numbers = append(numbers, l.Line)
		}
	}
	slices.Sort(numbers)
	if !slices.Equal(numbers, []int{1, 4}) || env.ExitCode(j.outcome()) != env.ExitFailed {
		t.Errorf("got the ends of the lines %v, %v, want 1 and 4, and a failure", numbers, j.outcome())
	}
}

// Jobs of stdin are queued in the order of their lines, and reported in it.
func TestStdinOrder(t *testing.T) {
	const jobs = 3*maxBatch + 1
	s, err := sqlite.Open(filepath.Join(t.TempDir(), "troupe.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var in, out strings.Builder
	for i := range jobs {
		fmt.Fprintf(&in, "{\"id\":\"job-%03d\",\"agent\":\"a\",\"prompt\":\"x\"}\n", i)
	}
	newStdinJobs(strings.NewReader(in.String()), s, nil, newJobLines(&out, "all"), func() {}).read(t.Context())
	claimed, err := s.ClaimJobs(t.Context(), "w", jobs, time.Minute, []string{"a"})
	if err != nil || len(claimed) != jobs {
		t.Fatalf("got %d jobs, %v, want %d", len(claimed), err, jobs)
	}
	for i, j := range claimed {
		if want := fmt.Sprintf("job-%03d", i); j.ID != want {
			t.Fatalf("job %d: got %s, want %s", i, j.ID, want)
		}
	}
	lines := slices.Collect(strings.Lines(out.String()))
	for i, line := range lines {
		if !strings.Contains(line, fmt.Sprintf(`"line":%d,`, i+1)) || !strings.Contains(line, "job.queued") {
			t.Errorf("line %d: %s", i, line)
		}
	}
	if len(lines) != jobs {
		t.Errorf("got %d lines, want %d", len(lines), jobs)
	}
}

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
