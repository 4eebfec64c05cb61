package agent_test

import (
	"context"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcpclient"
)

// TestDefinition: what policies and questions know a tool by is another one as soon as the
// tool, the server's definition or its file is another one; a policy may remember it in
// place of a human (SECA-38).
func TestDefinition(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ran := 0
		of := func(file, hash, says string) (definition string) {
			t.Helper()
			srv := adder(t, file, says, &ran)
			srv.Hash = hash
			rt := open(t, &agent.Options{Model: llmtest.Script(call("adder__add", in{1}), llmtest.Say("ok")), Servers: []mcpclient.Server{srv},
				Consent: func(context.Context, mcpclient.Server) error { return nil },
				Approve: func(_ context.Context, c *agent.ToolCall) agent.Verdict {
					definition = c.Definition
					return agent.VerdictAsk
				}})
			for ev, err := range start(t, rt, "").Events(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				ask, ok := ev.(agent.Ask)
				if !ok {
					continue
				}
				if ask.Definition != definition {
					t.Errorf("the question has the definition %q, the policy %q", ask.Definition, definition)
				}
				if err := ask.Answer(t.Context(), agent.Decline("")); err != nil {
					t.Fatal(err)
				}
			}
			return definition
		}
		first := of("a.json", "h1", "Adds.")
		if first == "" || of("a.json", "h1", "Adds.") != first {
			t.Errorf("got the definition %q, want the same one twice", first)
		}
		for name, other := range map[string]string{
			"another tool": of("a.json", "h1", "Adds more."), "another command": of("a.json", "h2", "Adds."), "another file": of("b.json", "h1", "Adds."),
		} {
			if other == first || other == "" {
				t.Errorf("%s: got the definition %q, which is that of the first", name, other)
			}
		}
		if got := of("", "", "Adds."); got != "" {
			t.Errorf("of a server in this process: got %q, want none", got)
		}
	})
}
