package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/agenttest"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// Each job is done once, however often the program is started.
func TestRun(t *testing.T) {
	agenttest.Bubble(t, func(t *testing.T) {
		s := memstore.New(nil)
		defer s.Close()
		model := llmtest.Loop(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
			return llmtest.Say("The tower of " + req.Messages[0].Content.Text())
		}))
		for _, want := range []string{
			"sight of Lima done\nsight of Oslo done\nsight of Turin done", "",
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // virtual
			var out strings.Builder
			if err := run(ctx, model, s, []string{"Turin", "Oslo", "Lima"}, &out); err != nil {
				t.Error(err)
			}
			cancel()
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			slices.Sort(lines)
			if got := strings.Join(lines, "\n"); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		jobs, err := s.Jobs(t.Context(), store.JobQuery{})
		if err != nil || len(jobs) != 3 {
			t.Fatalf("Jobs: got %d and %v, want 3", len(jobs), err)
		}
		for _, job := range jobs {
			var res agent.Result
			if err := json.Unmarshal(job.Result, &res); err != nil || res.Text != "The tower of "+job.Prompt {
				t.Errorf("%s: got %s, %v", job.Prompt, job.Result, err)
			}
		}
	})
}
