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
