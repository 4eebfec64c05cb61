package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcpclient"
)

// A tool of the program or of a server may be marked as one that polls: its calls may be repeated. Without that a run wraps up.
func TestPolls(t *testing.T) {
	status := agent.Func("status", "Looks.", func(context.Context, struct{}) (string, error) { return "not yet", nil })
	polls := status
	polls.Polls = true
	for _, tt := range []struct {
		name, call string
		tool       agent.Tool
		polls      []string
		config     *agent.Config
		stop       agent.StopReason
	}{
		{"a function", "status", status, nil, nil, agent.StopRepeats},
		{"a function that polls", "status", polls, nil, nil, agent.StopEnd},
		{"a server's tool", "raw__status", status, []string{"raw__other", "status"}, nil, agent.StopRepeats},
		{"a server's tool that polls", "raw__status", status, []string{"raw__s*"}, nil, agent.StopEnd},
		{"an agent that may", "status", status, nil, &agent.Config{MaxRepeats: -1}, agent.StopEnd},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				raw := &rawServer{tools: `[{"name":"status","inputSchema":{"type":"object"}}]`, result: `{"content":[{"type":"text","text":"not yet"}]}`}
				var turns []llmtest.Turn
				for range 8 {
					turns = append(turns, call(tt.call, struct{}{}))
				}
				model := llmtest.Script(append(turns, llmtest.Say("ok"))...)
				rt := open(t, &agent.Options{Model: model, Servers: []mcpclient.Server{mcpclient.InProcess("raw", raw)}, Approve: agent.NeverAsk,
					Tools: []agent.Tool{tt.tool}, Polls: tt.polls})
				a, err := rt.Agent("a", tt.config)
				if err != nil {
					t.Fatal(err)
				}
				res, err := a.Run(t.Context(), "go", nil)
				limit, over := errors.AsType[*agent.LimitError](err)
				if res == nil || res.StopReason != tt.stop || over != (tt.stop == agent.StopRepeats) || over && limit.Limit != "repeats" {
					t.Errorf("got %+v, %v", res, err)
				}
			})
		})
	}
	if _, err := agent.Open(t.Context(), &agent.Options{Polls: []string{"["}}); err == nil || !strings.Contains(err.Error(), "of Polls is no pattern") {
		t.Errorf("Open with a pattern that is none: %v", err)
	}
}
