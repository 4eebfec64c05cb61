package sampler

import (
	"context"
	"iter"
	"math"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/llm"
)

// liar says a text and a usage of its own invention, or is left before it ends.
type liar struct {
	text  string
	usage llm.Usage
	left  context.CancelFunc // ends the request in the middle; nil lets it end
}

func (m *liar) Name() string { return "llmtest/liar" }

func (m *liar) Stream(ctx context.Context, _ *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if !yield(llm.TextDelta{Text: m.text}, nil) {
			return
		}
		if m.left != nil {
			m.left()
			yield(nil, context.Cause(ctx))
			return
		}
		if yield(m.usage, nil) {
			yield(llm.Finish{Reason: llm.FinishStop, Model: "liar"}, nil)
		}
	}
}

// SECA-43: what a server samples is charged with what it can have cost, whatever the
// model's server says of it, and also if it is cancelled just before its end.
func TestLenderAgainstLies(t *testing.T) {
	text := strings.Repeat("word ", 800) // 1000 tokens
	for _, usage := range []llm.Usage{
		{}, {Input: -5, Output: -5}, {Input: 1, Output: 1}, {Input: 1 << 62, Output: 1 << 62}, {Input: math.MaxInt, Output: math.MaxInt},
		{Input: math.MaxInt, Output: 1}, {Input: math.MinInt, Output: math.MinInt},
	} {
		for _, left := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			model := &liar{text: text, usage: usage}
			if left {
				model.left = cancel
			}
			l := lending(t, model, Policy{})
			run := budget.New("run", budget.Limits{Tokens: 100_000})
			req := wants("bank")
			req.Params.MaxTokens = 1500
			res, err := l.sample(ctx, req, paying{run})
			cancel()
			if (err != nil) != left {
				t.Errorf("%+v, left %v: got %v, %v", usage, left, res, err)
			}
			for name, a := range map[string]*budget.Account{"the server": l.servers["bank"].budget, "the run": run} {
				if n := a.Report().Spent.Tokens; n < 900 || n > 1500 {
					t.Errorf("%+v, left %v: %s was charged %d tokens, want about 1000", usage, left, name, n)
				}
			}
		}
	}
}
