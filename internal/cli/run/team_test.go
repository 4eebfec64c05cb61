package run

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
)

// team runs an agent with a sub-agent that hands over, is guarded and has to ask, and
// shows it.
func team(t *testing.T, output string) (stdout, stderr string) {
	t.Helper()
	rt, err := agent.Open(t.Context(), &agent.Options{Model: llmtest.Script()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rt.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}()
	define := func(name string, cfg agent.Config) *agent.Agent {
		a, err := rt.Agent(name, &cfg)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	remove := agent.NeedsApproval(agent.Func("remove", "", func(context.Context, struct{}) (string, error) { return "gone", nil }))
	last := define("last", agent.Config{Model: llmtest.Script(llmtest.Call("remove", nil), llmtest.Say("4711")), Tools: []agent.Tool{remove},
		Guards: []agent.Guard{{Name: "mask", Final: func(_ context.Context, a *agent.GuardAnswer) agent.GuardResult {
			a.Text = "****"
			return agent.Change("a\x1bnumber")
		}}}})
	sub := define("sub", agent.Config{Model: llmtest.Script(llmtest.Call("transfer_to_last", nil)), Tools: agent.HandOff(last)})
	main := define("main", agent.Config{Model: llmtest.Script(llmtest.Call("sub", `{"prompt":"x"}`), llmtest.Say("done")),
		Tools: []agent.Tool{sub.AsTool("sub", "")}})
	run, err := main.Start(t.Context(), "go", nil)
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	v := &view{questions: questions{env: &env.Env{Stdout: &out, Stderr: &errs}}, stream: output == "stream-json"}
	if waiting, err := v.watch(t.Context(), run); err != nil || waiting != nil {
		t.Fatalf("watch: %+v, %v", waiting, err)
	}
	return out.String(), errs.String()
}

// TestViewOfATeam: what happens in sub-agents is told with their names, and what no
// person can be asked is declined.
func TestViewOfATeam(t *testing.T) {
	stdout, stderr := team(t, "text")
	want := `  sub > last: last goes on in place of sub (llmtest/script)
  sub > last: a question, and there is no terminal to ask on: declined (remove)
  sub > last: the guard "mask" (final) has changed: a` + "\uFFFD" + `number
`
	if stderr != want || stdout != "" {
		t.Errorf("stderr: got %q, want %q; stdout %q", stderr, want, stdout)
	}
}

// TestStreamOfATeam: as JSON a sub-agent's events are whole, in events of their run.
func TestStreamOfATeam(t *testing.T) {
	stdout, _ := team(t, "stream-json")
	nested := 0
	for line := range strings.Lines(stdout) {
		var ev struct {
			Type, RunID, Key string
			Event            struct{ Type, RunID string }
		}
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if ev.Type == "nested" {
			nested++
			if ev.Event.Type == "" || ev.Event.RunID == ev.RunID || ev.Key == "" {
				t.Errorf("nested: %s", line)
			}
		}
	}
	if nested < 8 {
		t.Errorf("%d events of the sub-agent in %s", nested, stdout)
	}
}

// TestRemarks: what is worth a line is told, and of a tainted call its human is warned
// (SECA-44).
func TestRemarks(t *testing.T) {
	tests := []struct {
		ev   agent.Event
		want string
	}{
		{agent.ModelChosen{Model: "a", Reason: "cheap"}, ""},
		{agent.ModelChosen{Model: "b", Reason: "next", Fallback: 1}, "now asking b (next)"},
		{agent.TurnRestarted{}, "the model broke off and begins its turn again"},
		{agent.HistoryCut{Results: 2, Messages: 3}, "the conversation is too long for the model: 2 results were shortened, 3 messages left out"},
		{agent.StopConditionMet{Condition: "enough"}, "the run ends here: enough"},
		{agent.ToolResult{Result: &mcp.CallToolResult{}}, ""},
	}
	for _, tt := range tests {
		if got := remark(tt.ev); got != tt.want {
			t.Errorf("remark(%T): got %q, want %q", tt.ev, got, tt.want)
		}
	}
	if got := warning(agent.Ask{Tainted: true}); !strings.Contains(got, "Beware") {
		t.Errorf("warning: got %q", got)
	}
	if got := warning(agent.Ask{}); got != "" {
		t.Errorf("warning: got %q", got)
	}
	ask := agent.Ask{Header: agent.Header{Path: []string{"main", "sub"}}}
	if got := asker(ask); got != "the agent main > sub" {
		t.Errorf("asker: got %q", got)
	}
}

// TestViewOfManyTools: that a model is given more tools than many take is said once for each
// agent, also where the log shows errors only.
func TestViewOfManyTools(t *testing.T) {
	var errs bytes.Buffer
	v := &view{questions: questions{env: &env.Env{Stdout: io.Discard, Stderr: &errs}}}
	most := make([]string, agent.ManyTools)
	tooMany := append(most, "one more")
	v.event("", agent.ToolsListed{Tools: most})
	if errs.Len() > 0 {
		t.Errorf("with %d tools: got %q", len(most), errs.String())
	}
	for range 2 { // a list that changes comes again
		v.event("", agent.ToolsListed{Tools: tooMany})
		v.event("sub: ", agent.ToolsListed{Tools: tooMany})
	}
	const note = "the model is given 129 tools, and many models take 128 at most: leave some out with --tool and --no-tool, or with the agent's allow and deny\n"
	if want := "  " + note + "  sub: " + note; errs.String() != want {
		t.Errorf("got %q, want %q", errs.String(), want)
	}
}
