package provider_test

import (
	"context"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/actors/provider"
	"github.com/troupe-dev/troupe/llm"
)

// quick is a model that answers with three events at once.
var quick = fake{"llmtest/quick", func(_ context.Context, yield func(llm.Event, error) bool) {
	_ = yield(llm.TextDelta{Text: "ok"}, nil) && yield(llm.Usage{Input: 1, Output: 1}, nil) && yield(llm.Finish{Reason: llm.FinishStop}, nil)
}}

// One completion, by the model itself, with retries, and through a provider.
func BenchmarkCompletion(b *testing.B) {
	g, err := provider.Open(newSystem(b, nil), nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, m := range []struct {
		name  string
		model llm.Model
	}{{"direct", quick}, {"retry", llm.Retry(quick, nil)}, {"provider", g.Model(quick)}} {
		b.Run(m.name, func(b *testing.B) {
			b.ReportAllocs()
			req, ctx := hello(), b.Context()
			for b.Loop() {
				for _, err := range m.model.Stream(ctx, req) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// A thousand at once, of which 64 are out.
func BenchmarkThousandCompletions(b *testing.B) {
	g, err := provider.Open(newSystem(b, nil), &provider.GroupOptions{Providers: map[string]provider.Options{"": {Concurrency: 64}}})
	if err != nil {
		b.Fatal(err)
	}
	m := g.Model(quick)
	b.ReportAllocs()
	req := hello()
	for b.Loop() {
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				for _, err := range m.Stream(b.Context(), req) {
					if err != nil {
						b.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/completion")
}
