package doctor

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// What waits for a provider is one line for each provider and class, however many jobs do.
func TestCheckWaiting(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "store.db")
	s, err := sqlite.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	soon := time.Now().Add(time.Hour)
	for i, why := range []string{"waits for provider openai@host:1: auth: no 1", "waits for provider openai@host:1: auth: no 2", "waits for provider ollama: unreachable: no", "waits for an instance of server x"} {
		if _, err := s.AddJob(ctx, store.Job{Agent: "main", Prompt: why}); err != nil {
			t.Fatal(err)
		}
		claimed, err := s.ClaimJobs(ctx, "w", 1, time.Hour, []string{"main"})
		if err != nil || len(claimed) != 1 {
			t.Fatal(claimed, err)
		}
		u := store.JobUpdate{JobLease: store.JobLease{ID: claimed[0].ID, Epoch: claimed[0].Epoch}, Owner: "w", State: store.JobWaiting, Release: true, NotBefore: soon.Add(time.Duration(i) * time.Minute), Error: why}
		if _, err := s.UpdateJob(ctx, u); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	got := checkWaiting(ctx, &doctor{env: &env.Env{StorePath: path, LogLevel: "warn", LogFormat: "text"}})
	if len(got) != 2 {
		t.Fatalf("got %+v, want two checks", got)
	}
	for i, want := range []string{"waits for it: ollama: unreachable", "2 jobs wait for it: openai@host:1: auth\ntried again at " + soon.Local().Format(time.DateTime)} {
		if got[i].Status != checkWarning || !strings.Contains(got[i].Text, want) {
			t.Errorf("check %d: got %+v, want %q", i, got[i], want)
		}
	}
	if got := checkWaiting(ctx, &doctor{env: &env.Env{StorePath: path + ".none", LogLevel: "warn", LogFormat: "text"}}); got != nil {
		t.Errorf("without a store: got %+v", got)
	}
}
