package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// late is the store of a process that stands still until then, right before it records the run of a
// sub-agent.
type late struct {
	store.Store
	until time.Time
	still bool // it renews nothing meanwhile
}

func (l *late) Create(ctx context.Context, r store.Run, owner string, ttl time.Duration, first ...store.Event) (store.Run, error) {
	if strings.HasPrefix(r.ID, "sub-") {
		time.Sleep(time.Until(l.until))
	}
	return l.Store.Create(ctx, r, owner, ttl, first...)
}

func (l *late) Renew(ctx context.Context, run, owner string, epoch int64, ttl time.Duration) error {
	if l.still {
		time.Sleep(time.Until(l.until))
	}
	return l.Store.Renew(ctx, run, owner, epoch, ttl)
}

// TestSubAgentBegunLate: a process that has lost a run would begin that of a sub-agent late, and is
// refused: the process that has the run begins it.
func TestSubAgentBegunLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, until := memory(), time.Now().Add(3*time.Minute)
		begin := func(s store.Store) *agent.Run {
			rt := open(t, &agent.Options{Store: s, Model: llmtest.ByHistory(call("below", `{"prompt":"go"}`), llmtest.Say("done"))})
			below, err := rt.Agent("below", &agent.Config{Model: llmtest.ByHistory(llmtest.Join(llmtest.Slow(5*time.Minute), llmtest.Say("below done")))})
			if err != nil {
				t.Fatal(err)
			}
			top, err := rt.Agent("top", &agent.Config{Tools: []agent.Tool{below.AsTool("below", "Does it.")}})
			if err != nil {
				t.Fatal(err)
			}
			run, err := top.Start(t.Context(), "go", &agent.RunOptions{ID: "r"})
			if err != nil {
				t.Fatal(err)
			}
			return run
		}
		first := begin(&late{s, until, true})
		time.Sleep(2 * time.Minute)
		second := begin(&late{s, until.Add(time.Second), false})
		res, err := second.Wait(t.Context())
		if err != nil || res.Text != "done" {
			t.Errorf("the process that has the run: got %+v, %v", res, err)
		}
		if _, err := first.Wait(t.Context()); !errors.Is(err, store.ErrFenced) {
			t.Errorf("the process that has lost it: got %v, want %v", err, store.ErrFenced)
		}
		for ev, err := range second.Events(t.Context()) {
			if r, ok := ev.(agent.ToolResult); err != nil || ok && r.Result.Text() != "below done" {
				t.Errorf("the sub-agent: got %q, %v", r.Result.Text(), err)
			}
		}
	})
}
