package jobs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// queue has jobs that a worker has failed, by their IDs.
func queue(t *testing.T, failures map[string]string) *memstore.Store {
	t.Helper()
	s, ctx := memstore.New(nil), t.Context()
	for id, text := range failures {
		agent, _, _ := strings.Cut(id, "-")
		if _, err := s.AddJob(ctx, store.Job{ID: id, Agent: agent, Prompt: "x", Batch: "b"}); err != nil {
			t.Fatal(err)
		}
		claimed, err := s.ClaimJobs(ctx, "w", 1, time.Hour, []string{agent})
		if err != nil || len(claimed) != 1 {
			t.Fatal(claimed, err)
		}
		if _, err := s.Create(ctx, store.Run{ID: claimed[0].Run, Agent: agent, Job: id, Epoch: claimed[0].Epoch}, "w", time.Hour); err != nil {
			t.Fatal(err)
		}
		state := store.JobFailed
		if text == "unknown" {
			state = store.JobUnknown
		}
		if _, err := s.UpdateJob(ctx, store.JobUpdate{JobLease: store.JobLease{ID: id, Epoch: claimed[0].Epoch}, Owner: "w", State: state, Error: text}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// offline is an environment without a terminal.
func offline(t *testing.T, out *strings.Builder) *env.Env {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	in, err := os.Create(filepath.Join(t.TempDir(), "stdin"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	return &env.Env{Stdin: in, Stdout: out, Stderr: out}
}

func TestRetrySelects(t *testing.T) {
	failures := map[string]string{"a-1": "openai: Status 503", "a-2": "no", "b-1": "openai: status 503", "b-2": "unknown", "a-3": "status 503"}
	tests := []struct {
		flags retryFlags
		names []string
		want  string
	}{
		{retryFlags{}, []string{"a-1", "b-2", "a-1"}, "a-1 b-2"},
		{retryFlags{error: "STATUS 503"}, nil, "a-1 a-3 b-1"},
		{retryFlags{error: "status 503", agent: "a"}, nil, "a-1 a-3"},
		{retryFlags{states: []string{"unknown"}}, nil, "b-2"},
		{retryFlags{states: []string{"unknown", "failed"}, agent: "b"}, nil, "b-1 b-2"},
		{retryFlags{since: time.Hour}, nil, "a-1 a-2 a-3 b-1"},
		{retryFlags{since: time.Nanosecond}, nil, ""},
		{retryFlags{batch: "b"}, nil, "a-1 a-2 a-3 b-1 b-2"},
		{retryFlags{states: []string{"queued"}}, nil, ""},
		{retryFlags{error: "status 503", dry: true}, nil, ""},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%+v", tt.flags), func(t *testing.T) {
			var out strings.Builder
			s := queue(t, failures)
			if err := tt.flags.retry(t.Context(), offline(t, &out), s, tt.names); err != nil {
				t.Fatal(err)
			}
			jobs, err := s.Jobs(t.Context(), store.JobQuery{States: []store.JobState{store.JobQueued}})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, j := range jobs {
				if got = append(got, j.ID); j.From != j.Run {
					t.Errorf("%s goes on from %q, want %q", j.ID, j.From, j.Run)
				}
			}
			slices.Sort(got)
			if strings.Join(got, " ") != tt.want {
				t.Errorf("queued: got %v, want %s\n%s", got, tt.want, out.String())
			}
			if tt.flags.dry && (!strings.Contains(out.String(), "3 jobs to go on behind") || !strings.Contains(out.String(), "a-3  failed since")) {
				t.Errorf("--dry-run says\n%s", out.String())
			}
		})
	}
	bad := retryFlags{states: []string{"broken"}}
	if err := bad.retry(t.Context(), offline(t, new(strings.Builder)), queue(t, nil), nil); env.ExitCode(err) != env.ExitUsage {
		t.Errorf("a state that is none: got %v", err)
	}
}

// From the start a job repeats its calls: without a terminal that needs --yes, and what it repeats is said.
func TestRetryFromStart(t *testing.T) {
	for _, yes := range []bool{false, true} {
		var out strings.Builder
		e, s := offline(t, &out), queue(t, map[string]string{"a-1": "no"})
		var events []store.Event
		for _, entry := range []runlog.Entry{{Type: store.RunStarted, Body: &runlog.RunStarted{Agent: "a"}},
			{Type: store.ToolIntent, Key: "k", Body: &runlog.ToolIntent{Turn: 1, CallID: "k", Tool: "pay", Server: "bank"}},
			{Type: store.ToolDispatched, Key: "k", Body: &runlog.ToolDispatched{Turn: 1, CallID: "k"}}} {
			entry.Time = time.Now()
			ev, err := entry.Encode()
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, ev)
		}
		r, err := s.Claim(t.Context(), "a-1.1", "w", time.Hour)
		if err == nil {
			_, err = s.Append(t.Context(), store.Append{Run: r.ID, Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: events})
		}
		if err != nil {
			t.Fatal(err)
		}
		f := retryFlags{fromStart: true, yes: yes}
		err = f.retry(t.Context(), e, s, []string{"a-1"})
		j, _ := s.Job(t.Context(), "a-1")
		if yes && (err != nil || j.State != store.JobQueued || j.From != "") || !yes && (env.ExitCode(err) != env.ExitUsage || j.State != store.JobFailed) {
			t.Errorf("yes %v: got %v and a job that is %s from %q", yes, err, j.State, j.From)
		}
		said := out.String()
		if err != nil {
			said = err.Error()
		}
		if !strings.Contains(said, "pay of the server bank, 1 call, of them 1 of unknown outcome") {
			t.Errorf("yes %v: it says\n%s", yes, said)
		}
	}
}
