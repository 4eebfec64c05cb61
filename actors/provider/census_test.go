package provider_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/provider"
	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// A thousand requests that are cancelled wherever they are leave no actor, no goroutine
// and no place taken.
func TestCensusAfterAThousandCancels(t *testing.T) {
	t.Run("at once", func(t *testing.T) { censusAfterAThousandCancels(t, provider.Options{Concurrency: 100}, 900) })
	t.Run("by actor", func(t *testing.T) {
		censusAfterAThousandCancels(t, provider.Options{Concurrency: 100, PerMinute: byActor}, 1000)
	})
}

func censusAfterAThousandCancels(t *testing.T, opts provider.Options, completions int) {
	b := &bench{sys: newSystem(t, nil)}
	g, err := provider.Open(b.sys, &provider.GroupOptions{Providers: map[string]provider.Options{"": opts}})
	if err != nil {
		t.Fatal(err)
	}
	b.Group = g
	b.works1(t)
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	gate := llmtest.NewGate()
	stream := b.Model(llmtest.Loop(llmtest.Join(llmtest.Say("a"), llmtest.Hold(gate))))
	again := b.Model(llmtest.Loop(llmtest.Fail(busy(time.Minute))))
	var wg sync.WaitGroup
	var failed atomic.Int64
	for i := range 1000 {
		m, ctx := stream, ctx
		if i < 200 {
			m, ctx = again, llm.Observe(ctx, &llm.Observer{Retry: func(llm.Attempt) { failed.Add(1) }})
		}
		wg.Go(func() {
			if err := read(ctx, m).once(t); !errors.Is(err, errLeft) {
				t.Errorf("got %v, want %v", err, errLeft)
			}
		})
		if i == 199 { // these get their places before the others keep them
			waitFor(t, func() bool { return failed.Load() == 200 && b.state().InFlight == 0 })
		}
	}
	waitFor(t, func() bool {
		s := b.state()
		return s.InFlight == 100 && s.Waiting == 900 && b.live(actors.KindCompletion) == completions
	})
	cancel(errLeft)
	wg.Wait()
	waitFor(t, func() bool {
		s := b.state()
		return s.InFlight == 0 && s.Waiting == 0 && b.live(actors.KindCompletion) == 0
	})
	// The pool's workers end when they have not been needed for some seconds.
	waitFor(t, func() bool { return runtime.NumGoroutine() <= before+2 })
	b.works1(t)
}

// works1 is works outside of a bubble.
func (b *bench) works1(t *testing.T) {
	t.Helper()
	if err := read(t.Context(), b.Model(llmtest.Script(llmtest.Say("ok")))).once(t); err != nil {
		t.Errorf("a request: %v", err)
	}
}

// waitFor waits for what another goroutine is about to do.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("it did not happen within 30 s")
		}
	}
}

// Whatever happens in whatever order: one outcome each, never more out than places, and
// nothing left.
func TestChaos(t *testing.T) {
	for seed := range uint64(8) {
		bubble(t, func(t *testing.T) {
			b := newBench(t, provider.Options{
				Concurrency: 3, Queue: 60, PerMinute: 40 * int(seed%2),
				Circuit: provider.Circuit{Failures: 3, Open: 5 * time.Second},
				Retry:   &llm.RetryOptions{MaxAttempts: 4, InitialWait: 200 * time.Millisecond},
			})
			b.mu.Lock()
			b.fail = explode
			b.mu.Unlock()
			rnd := rand.New(rand.NewPCG(seed, 1)) // of this goroutine; each request has its own
			var mu sync.Mutex
			out := 0
			var wg sync.WaitGroup
			for i := range 60 {
				own := rand.New(rand.NewPCG(seed, uint64(i)+2))
				m := b.Model(fake{"llmtest/x", func(ctx context.Context, yield func(llm.Event, error) bool) {
					mu.Lock()
					// A killed request's place is free before its stream has ended.
					if out++; out > 3 && ctx.Err() == nil && seed%4 == 0 {
						t.Errorf("%d are out at once", out)
					}
					mu.Unlock()
					defer func() { mu.Lock(); out--; mu.Unlock() }()
					chaotic(ctx, own, yield)
				}})
				ctx, cancel := context.WithCancelCause(t.Context())
				if rnd.IntN(4) == 0 {
					time.AfterFunc(time.Duration(rnd.IntN(4000))*time.Millisecond, func() { cancel(errLeft) })
				}
				wg.Go(func() {
					defer cancel(nil)
					o := &llm.Observer{}
					if i%2 == 0 {
						o.Restart = func() {}
					}
					read(llm.Observe(ctx, o), m).once(t)
				})
				time.Sleep(time.Duration(rnd.IntN(100)) * time.Millisecond)
				if seed%4 != 0 && rnd.IntN(10) == 0 {
					kinds := []actors.Kind{actors.KindCompletion, actors.KindCompletion, actors.KindCompletion, actors.KindProvider}
					ref := b.newest(kinds[rnd.IntN(len(kinds))])
					if rnd.IntN(2) == 0 {
						ref.Stop()
					} else {
						ref.Send(boom{})
					}
				}
			}
			wg.Wait()
			time.Sleep(2 * time.Minute)
			b.works(t)
		})
	}
}

// chaotic does one of the things that models do.
func chaotic(ctx context.Context, rnd *rand.Rand, yield func(llm.Event, error) bool) {
	sleep := func() bool {
		select {
		case <-time.After(time.Duration(rnd.IntN(500)) * time.Millisecond):
			return true
		case <-ctx.Done():
			yield(nil, context.Cause(ctx))
			return false
		}
	}
	for range rnd.IntN(3) {
		if !sleep() || !yield(llm.TextDelta{Text: "a"}, nil) {
			return
		}
	}
	if !sleep() {
		return
	}
	switch rnd.IntN(8) {
	case 0:
		yield(nil, busy(time.Duration(rnd.IntN(2000))*time.Millisecond))
	case 1, 2:
		yield(nil, &llm.Error{Provider: "test", Status: 503, Retryable: true})
	case 3: // nothing
	case 4:
		panic(errBoom)
	default:
		yield(llm.Finish{}, nil)
	}
}

// A provider that does nothing has no goroutine; what waits has only that of its caller.
func TestIdleProviderCostsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, provider.Options{PerMinute: 2, Circuit: provider.Circuit{Failures: 1, Open: time.Second}})
		time.Sleep(time.Minute) // the pool's workers end
		before := mcptest.BubbleGoroutines()
		b.fails(t, 1, llmtest.Join(llmtest.Say("a"), down()))
		for range 5 { // with waits for the circuit and for the rate
			b.works(t)
		}
		time.Sleep(2 * time.Minute)
		if after := mcptest.BubbleGoroutines(); after > before {
			t.Errorf("%d goroutines after %d requests, %d before", after, 6, before)
		}
	})
}

// A request that waits takes some kilobytes, most of them its caller's stack.
func TestMemoryOfWaiting(t *testing.T) {
	const n = 1000
	g, err := provider.Open(newSystem(t, nil), &provider.GroupOptions{Providers: map[string]provider.Options{"": {Concurrency: 1, Queue: n}}})
	if err != nil {
		t.Fatal(err)
	}
	gate := llmtest.NewGate()
	script := llmtest.Loop(llmtest.Join(llmtest.Hold(gate), llmtest.Say("a")))
	m := g.Model(script)
	var wg sync.WaitGroup
	ask := func() {
		wg.Go(func() {
			if err := read(t.Context(), m).once(t); err != nil {
				t.Errorf("a request: %v", err)
			}
		})
	}
	ask()
	waitFor(t, func() bool { return g.States()["llmtest"].InFlight == 1 })
	before := heap()
	for range n {
		ask()
	}
	waitFor(t, func() bool { return g.States()["llmtest"].Waiting == n })
	each := (heap() - before) / n
	t.Logf("%d B of heap for each waiting request", each)
	if each > 4096 {
		t.Errorf("a waiting request takes %d B of heap, want at most 4096", each)
	}
	gate.Open()
	wg.Wait()
}

// heap returns the bytes in use after a collection.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
