package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store/memstore"
)

// bubble runs f in a bubble of virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Second) }) // virtual: what is asleep when the runtimes have closed ends
		f(t)
	})
}

// open opens a runtime that must close cleanly when the test ends.
func open(t *testing.T, opts *agent.Options) *agent.Runtime {
	t.Helper()
	rt, err := agent.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if n := rt.System().Census().Live(); n != 0 {
			t.Errorf("actors left: %+v", rt.System().Census().Actors)
		}
	})
	return rt
}

func start(t *testing.T, rt *agent.Runtime, id string) *agent.Run {
	t.Helper()
	run, err := rt.Start(t.Context(), "go", &agent.RunOptions{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// types reads all of a run's events and returns their types, with what is behind a
// colon where the test asks for more.
func types(t *testing.T, run *agent.Run) []string {
	t.Helper()
	var out []string
	for ev, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatalf("Events: %v", err)
		}
		out = append(out, ev.EventType())
	}
	return out
}

// transcript is a run's events in one line each, without what varies.
func transcript(t *testing.T, run *agent.Run) []string {
	t.Helper()
	var out []string
	var last agent.Header
	for ev, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatalf("Events: %v", err)
		}
		h := ev.Head()
		if h.RunID != run.ID() || h.Seq < last.Seq || h.Time.IsZero() || !slices.Equal(h.Path, []string{"agent"}) {
			t.Errorf("%s: header %+v after %+v", ev.EventType(), h, last)
		}
		last = h
		out = append(out, line(ev))
	}
	return out
}

func line(ev agent.Event) string {
	switch ev := ev.(type) {
	case agent.Text:
		return fmt.Sprintf("text %d %q", ev.Turn, ev.Delta)
	case agent.Thinking:
		return fmt.Sprintf("thinking %d %q", ev.Turn, ev.Delta)
	case agent.ModelTurn:
		return fmt.Sprintf("turn %d %s, %d calls", ev.Turn, ev.Finish, ev.Calls)
	case agent.ToolStarted:
		return fmt.Sprintf("started %s %s", ev.Tool, ev.Arguments)
	case agent.ToolResult:
		return fmt.Sprintf("result %s %v %q", ev.Tool, ev.Made, ev.Result.Content.Text())
	case agent.Ask:
		return fmt.Sprintf("ask %s %s", ev.Tool, ev.Arguments)
	case agent.AskSettled:
		return fmt.Sprintf("settled %s %q", ev.Status, ev.Reason)
	case agent.RunFinished:
		return fmt.Sprintf("finished %s %q", ev.State, ev.Result.Text)
	}
	return ev.EventType()
}

type in struct {
	N int `json:"n"`
}

// double is a tool of the program.
var double = agent.Func("double", "Doubles a number.", func(_ context.Context, in in) (string, error) {
	return fmt.Sprint(2 * in.N), nil
})

// hang is a tool that waits for its context.
var hang = agent.Func("hang", "Hangs.", func(ctx context.Context, _ struct{}) (string, error) {
	<-ctx.Done()
	return "", context.Cause(ctx)
})

func call(name string, args any) llmtest.Turn { return llmtest.Call(name, args) }

var errTest = errors.New("for the test")

func memory() *memstore.Store { return memstore.New(nil) }

// resultsOf are the texts of the tool results that a model was shown last.
func resultsOf(req *llm.Request) []string {
	var out []string
	for _, c := range req.Messages[len(req.Messages)-1].Content {
		if r, ok := c.(*mcp.ToolResultContent); ok {
			out = append(out, r.Content.Text())
		}
	}
	return out
}
