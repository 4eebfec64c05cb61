package agent_test

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
)

// BenchmarkRun is what a run costs beside its model: one turn with a tool call and
// one with the answer, in memory.
func BenchmarkRun(b *testing.B) {
	// A turn by what it is asked: many runs share the model.
	turn := llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
		last := req.Messages[len(req.Messages)-1]
		if _, ok := last.Content[0].(*mcp.ToolResultContent); ok {
			return llmtest.Say("done")
		}
		return llmtest.Call("double", in{2})
	})
	for _, live := range []int{1, 100} {
		b.Run(fmt.Sprintf("live=%d", live), func(b *testing.B) {
			rt, err := agent.Open(b.Context(), &agent.Options{Model: &forgetful{turn}, Tools: []agent.Tool{double}})
			if err != nil {
				b.Fatal(err)
			}
			defer rt.Close()
			b.ReportAllocs()
			for b.Loop() {
				var wg sync.WaitGroup
				for range live {
					wg.Go(func() {
						if res, err := rt.Run(b.Context(), "go"); err != nil || res.Text != "done" {
							b.Errorf("Run: got %+v, %v", res, err)
						}
					})
				}
				wg.Wait()
			}
			b.ReportMetric(float64(b.N*live)/b.Elapsed().Seconds(), "runs/s")
		})
	}
}

// forgetful plays the same turn for ever, without keeping what it was asked.
type forgetful struct{ turn llmtest.Turn }

func (f *forgetful) Name() string { return "forgetful" }

func (f *forgetful) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return llmtest.Script(f.turn).Stream(ctx, req)
}
