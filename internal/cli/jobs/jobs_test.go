package jobs

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/store"
)

func TestTimeOf(t *testing.T) {
	now := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	tests := []struct {
		text string
		want time.Time
		bad  bool
	}{
		{"", time.Time{}, false},
		{"10m", now.Add(10 * time.Minute), false},
		{"2026-02-01T08:00:00Z", now.Add(24 * time.Hour), false},
		{"-10m", time.Time{}, true},
		{"tomorrow", time.Time{}, true},
	}
	for _, tt := range tests {
		got, err := timeOf("not-before", tt.text, now)
		if (err != nil) != tt.bad || err == nil && !got.Equal(tt.want) {
			t.Errorf("timeOf(%q): got %v, %v, want %v", tt.text, got, err, tt.want)
		}
		if err != nil && (env.ExitCode(err) != env.ExitUsage || !strings.Contains(err.Error(), "--not-before")) {
			t.Errorf("timeOf(%q): got %v, want a usage error that names the flag", tt.text, err)
		}
	}
}

func TestJobError(t *testing.T) {
	for state, want := range map[store.JobState]int{store.JobDone: env.ExitOK, store.JobLimited: env.ExitLimit, store.JobFailed: env.ExitFailed} {
		if got := env.ExitCode(jobError(store.Job{ID: "a", State: state})); got != want {
			t.Errorf("jobError of a job that is %s: got the exit code %d, want %d", state, got, want)
		}
	}
	cut := store.Job{ID: "a", State: store.JobDone, Result: []byte(`{"text":"Once","stopReason":"length","incomplete":"length"}`)}
	if err := jobError(cut); env.ExitCode(err) != env.ExitIncomplete || !strings.Contains(err.Error(), "the limit of output tokens cut it") {
		t.Errorf("jobError of a job whose answer is cut: got %v, want exit code %d", err, env.ExitIncomplete)
	}
	if err := jobError(store.Job{ID: "a", State: store.JobFailed, Error: "a\x1b[2Jb"}); strings.Contains(err.Error(), "\x1b") {
		t.Errorf("jobError: got %q, which moves the cursor", err)
	}
}

func TestJobState(t *testing.T) {
	now := time.Now()
	tests := []struct {
		job  store.Job
		want string
	}{
		{store.Job{State: store.JobDone, Cancelling: true}, "done"},
		{store.Job{State: store.JobRunning, Cancelling: true}, "cancelling"},
		{store.Job{State: store.JobRunning, Owner: "a"}, "lost"},
		{store.Job{State: store.JobQueued}, "queued"},
		{store.Job{State: store.JobQueued, NotBefore: now.Add(time.Hour)}, "queued for " + env.When(now.Add(time.Hour), now)},
	}
	for _, tt := range tests {
		if got := jobState(tt.job, now); got != tt.want {
			t.Errorf("jobState(%+v): got %q, want %q", tt.job, got, tt.want)
		}
	}
}
