package agenttest_test

import (
	"testing"

	"github.com/troupe-dev/troupe/agent/agenttest"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// What a test with this package looks like.
func TestTidy(t *testing.T) {
	agenttest.Bubble(t, func(t *testing.T) {
		files := agenttest.Server("files", agenttest.Tool("remove", agenttest.Text("removed")))
		rt := agenttest.Open(t, &agenttest.Options{
			Model: llmtest.Script(
				llmtest.Call("files__remove", `{"path":"notes.txt"}`),
				llmtest.Say("It is gone."),
			),
			Servers: []*agenttest.FakeServer{files},
			Human:   agenttest.Human(agenttest.Accept().Tool("remove")),
		})
		res, err := rt.Run(t.Context(), "Remove the notes.")
		if err != nil || res.Text != "It is gone." {
			t.Errorf("got %+v, %v", res, err)
		}
		if calls := files.Calls(); len(calls) != 1 || string(calls[0].Arguments) != `{"path":"notes.txt"}` {
			t.Errorf("the server's calls: got %+v", calls)
		}
	})
}
