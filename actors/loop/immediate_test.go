package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// readyTools are known, unless they are nil or a bug.
type readyTools struct {
	tools
	bug bool
}

func (t readyTools) OfferNow() *loop.Offer {
	switch {
	case t.bug:
		panic("a bug")
	case t.tools == nil:
		return nil
	}
	return loop.NewOffer(t.tools)
}

// TestImmediate: a run whose tools are known, and whose gate looks nothing up, has neither list nor
// rulings as messages; what may wait is a task as ever.
func TestImmediate(t *testing.T) {
	tests := []struct {
		name   string
		change func(*loop.Config)
		trace  string
	}{
		{"both", func(*loop.Config) {}, "run modelReplied run toolReturned run modelReplied"},
		{"a guard may wait", func(cfg *loop.Config) {
			cfg.Guards = []guard.Guard{{Name: "g", BeforeTool: func(context.Context, *guard.Call) guard.Result { return guard.Result{} }}}
		}, "run modelReplied run decided run toolReturned run modelReplied"},
		{"a gate may wait", func(cfg *loop.Config) { cfg.GateNow = false }, "run modelReplied run decided run toolReturned run modelReplied"},
		{"tools may wait", func(cfg *loop.Config) { cfg.Tools = tools{tool("echo", echo)} }, "run listed run modelReplied run toolReturned run listed run modelReplied"},
		{"a bug of the gate asks, and there is no person", func(cfg *loop.Config) {
			cfg.Gate = func(context.Context, *loop.Tool, json.RawMessage) guard.Verdict { panic("a bug") }
			cfg.Journal = nil
		}, "run modelReplied run modelReplied"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				cfg := b.config(llmtest.Script(llmtest.Call("echo", nil), llmtest.Say("ok")))
				cfg.Tools, cfg.GateNow = readyTools{tools: tools{tool("echo", echo)}}, true
				tt.change(cfg)
				if out := b.finish(b.start(cfg)); out.Err != nil || out.Text != "ok" {
					t.Errorf("outcome: %+v", out)
				}
				got := strings.TrimSuffix(strings.TrimPrefix(strings.Join(b.trace.Lines(), " "), "run Started "), " run Stopping")
				got = strings.TrimPrefix(got, "run Creation ")
				if got != tt.trace {
					t.Errorf("messages:\n got %s\nwant %s", got, tt.trace)
				}
			})
		})
	}
}

// TestImmediateBug: a panic of tools that are known fails the run, as one of others does.
func TestImmediateBug(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		cfg := b.config(llmtest.Script(llmtest.Say("ok")))
		cfg.Tools = readyTools{bug: true}
		out := b.finish(b.start(cfg))
		if _, panicked := errors.AsType[*actors.PanicError](out.Err); !panicked {
			t.Errorf("outcome: %+v", out)
		}
		b.wantTypes("run.started run.finished")
	})
}
