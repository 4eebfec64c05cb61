package replay_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/replay"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// TestReplayLive: another model has the recorded results of the calls that the run made, in any turn
// and order, and the recorded answers of a person; a call that the run did not make is refused, and a
// difference.
func TestReplayLive(t *testing.T) {
	call := func(name, args string) llmtest.Turn { return llmtest.Call(name, args) }
	turns := []llmtest.Turn{llmtest.Calls(call("free", `{"n":1}`), call("asks", `{"n":2}`)), call("free", `{"n":3}`), llmtest.Say("ok")}
	for name, test := range map[string]struct {
		turns []llmtest.Turn
		want  []string // parts of the differences; none for no difference
	}{
		"the same":      {turns, nil},
		"another order": {[]llmtest.Turn{call("free", `{"n":3}`), call("asks", `{ "n": 2 }`), call("free", `{"n":1}`), llmtest.Say("ok")}, []string{"  question tool asks: accepted", "+ turn 3 calls free"}},
		"another call":  {[]llmtest.Turn{call("free", `{"n":4}`), llmtest.Say("ok")}, []string{"+ error of free: the recording has no such call", "- turn 2 calls free"}},
		"twice":         {[]llmtest.Turn{call("free", `{"n":1}`), call("free", `{"n":1}`), llmtest.Say("ok")}, []string{"+ error of free: the recording has no such call"}},
		"other words":   {append(slices.Clone(turns[:2]), llmtest.Say("done")), []string{"+ turn 3 says: done"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, agent.Config{}, turns...)
				want, got, err := again(t, p.recording(t, p.run), &replay.Options{Model: llmtest.Script(test.turns...)})
				d := difference(want, got)
				if err != nil || len(test.want) == 0 && !slices.Equal(want, got) {
					t.Errorf("got %v\n%s", err, d)
				}
				for _, part := range test.want {
					if !strings.Contains(d, part) {
						t.Errorf("want %q in\n%s", part, d)
					}
				}
			})
		})
	}
}
