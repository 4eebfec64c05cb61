package agenttest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/agenttest"
)

// failures is a test that reports no failure but keeps it.
type failures struct {
	testing.TB
	text string
}

func (f *failures) Errorf(format string, args ...any) { f.text += fmt.Sprintf(format, args...) }

// TestReplay: the same agent does the same; one with another policy does not, and the test says
// where.
func TestReplay(t *testing.T) {
	asks := agent.NeedsApproval(agent.Func("asks", "Does it.", func(context.Context, struct {
		N int `json:"n"`
	}) (string, error) {
		t.Error("the function was called")
		return "", nil
	}))
	for name, test := range map[string]struct {
		agent *agent.Config
		want  string // in the failure; empty for none
	}{
		"as recorded": {nil, ""},
		"today's":     {&agent.Config{Instructions: "In other words.", Tools: []agent.Tool{asks}}, ""},
		"no approval": {&agent.Config{}, "- question tool asks: accepted"},
		"no step":     {&agent.Config{Limits: agent.Limits{Steps: 1}, Tools: []agent.Tool{asks}}, "+ limit of steps reached: stop"},
	} {
		t.Run(name, func(t *testing.T) {
			agenttest.Bubble(t, func(t *testing.T) {
				f := &failures{TB: t}
				agenttest.Replay(f, "testdata/run.jsonl", &agenttest.ReplayOptions{Agent: test.agent})
				if test.want == "" && f.text != "" || !strings.Contains(f.text, test.want) {
					t.Errorf("the failure is %q, want %q in it", f.text, test.want)
				}
			})
		})
	}
}
