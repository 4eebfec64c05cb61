package loop_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// TestTaintOfWhatWasMade: a call that was refused has brought nothing; one that was made
// has, once, and a run of a tree that has seen it already says so of its own first result
// (SECA-44).
func TestTaintOfWhatWasMade(t *testing.T) {
	seen := runlog.Taint{Untrusted: true, Private: true}
	for _, tt := range []struct {
		name  string
		deny  bool
		other bool // another run of the tree has seen it
		want  int
	}{
		{"denied", true, false, 0},
		{"made", false, false, 1},
		{"denied, of a tree that has seen it", true, true, 0},
		{"made, of a tree that has seen it", false, true, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				web := tool("web", echo)
				web.Taint = runlog.Taint{Untrusted: true, Private: true, Outbound: true}
				state := new(guard.TaintState)
				if tt.other {
					first := b.config(llmtest.Script(llmtest.Call("web", nil), llmtest.Say("ok")), web)
					first.ID, first.Nonce, first.Taint, first.Sink = "other", "other", state, &recorder{asked: b.sink.asked}
					<-b.start(first).Ended()
					web.Taint = runlog.Taint{}
				}
				cfg := b.config(llmtest.Script(llmtest.Call("web", `{"n":1}`), llmtest.Call("web", `{"n":2}`), llmtest.Say("ok")), web)
				cfg.Taint = state
				cfg.Gate = func(context.Context, *loop.Tool, json.RawMessage) guard.Verdict {
					if tt.deny {
						return guard.Deny
					}
					return guard.Allow
				}
				b.finish(b.start(cfg))
				var got []runlog.Taint
				for _, e := range b.events() {
					if body, ok := e.Body.(*runlog.Tainted); ok {
						got = append(got, body.Seen)
					}
				}
				if len(got) != tt.want || tt.want > 0 && got[0] != seen || state.Lethal() != (tt.want > 0 || tt.other) {
					t.Errorf("journal: got %+v, the tree has seen %+v", got, state.Seen())
				}
			})
		})
	}
}
