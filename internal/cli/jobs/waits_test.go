package jobs

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// Each question that a job waits for is on the screen once, with the command that shows it.
func TestNoteWaits(t *testing.T) {
	s := memstore.New(nil)
	if _, err := s.Create(t.Context(), store.Run{ID: "run", Agent: "main"}, "owner", time.Minute); err != nil {
		t.Fatal(err)
	}
	var screen strings.Builder
	e := &env.Env{Stderr: &screen}
	told := make(map[string]bool)
	job := &store.Job{ID: "job", Run: "run", State: store.JobWaiting}
	for _, kind := range []string{"url", "page"} {
		if err := s.OpenAsk(t.Context(), store.Ask{ID: "ask-" + kind, Run: "run", Kind: kind, Server: "bank"}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			noteWaits(t.Context(), e, s, job, told)
		}
	}
	for _, kind := range []string{"url", "page"} {
		if n := strings.Count(screen.String(), "it waits for a human ("+kind+", bank): troupe inbox show ask-"+kind); n != 1 {
			t.Errorf("the question of the kind %s is there %d times, want once:\n%s", kind, n, screen.String())
		}
	}
}

// A job that waits shows each open question of its run and of its sub-agents', with the command that answers it.
func TestShowJobAsks(t *testing.T) {
	s := memstore.New(nil)
	root, err := s.Create(t.Context(), store.Run{ID: "run", Agent: "main"}, "owner", time.Minute)
	if err == nil {
		_, err = s.Create(t.Context(), store.Run{ID: "sub", Agent: "helper", Parent: "run", Epoch: root.Epoch}, "owner", time.Minute)
	}
	for _, a := range []store.Ask{{ID: "ask-1", Run: "run", Kind: "tool", Tool: "pay", Server: "bank"}, {ID: "ask-2", Run: "sub", Kind: "form", Server: "bank"}, {ID: "ask-3", Run: "sub", Kind: "tool", Tool: "look"}} {
		if err == nil {
			err = s.OpenAsk(t.Context(), a)
		}
	}
	if err == nil {
		_, err = s.SettleAsk(t.Context(), "ask-3", store.Decision{Status: store.AskDeclined})
	}
	if err != nil {
		t.Fatal(err)
	}
	var screen strings.Builder
	if err := showJob(t.Context(), &env.Env{Stdout: &screen}, s, store.Job{ID: "job", Run: "run", State: store.JobWaiting}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"tool pay, answer it with: troupe inbox answer ask-1", "form bank, answer it with: troupe inbox answer ask-2"} {
		if strings.Count(screen.String(), want) != 1 {
			t.Errorf("want %q in\n%s", want, screen.String())
		}
	}
	if strings.Contains(screen.String(), "ask-3") {
		t.Errorf("a question that is decided is shown:\n%s", screen.String())
	}
}
