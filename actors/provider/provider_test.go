package provider_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/provider"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// busy is an error that is worth a retry, after a wait or at the client's choice.
func busy(after time.Duration) *llm.Error {
	return &llm.Error{Provider: "test", Status: 429, RetryAfter: after, Retryable: true, Err: llm.ErrRateLimit}
}

// down is a failure that counts against the provider.
func down() llmtest.Turn {
	return llmtest.Fail(&llm.Error{Provider: "test", Status: 503, Retryable: true, Message: "down"})
}

// once is a policy without retries.
var once = &llm.RetryOptions{MaxAttempts: 1}

func TestModel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, provider.Options{})
		script := llmtest.Script(llmtest.Join(llmtest.Think("hm"), llmtest.Say("a", "b"), llmtest.Call("f", `{"x":1}`)))
		m := b.Model(script)
		if m.Name() != script.Name() || b.Model(m) != m || m.(interface{ Unwrap() llm.Model }).Unwrap() != llm.Model(script) {
			t.Errorf("Model(%q): got %q; it must be itself behind the provider, once", script.Name(), m.Name())
		}
		resp, err := llm.Generate(t.Context(), m, hello())
		if err != nil {
			t.Fatal(err)
		}
		if resp.Text() != "ab" || resp.Thinking != "hm" || len(resp.Calls()) != 1 || resp.Finish != llm.FinishToolCalls || resp.Usage.Input == 0 {
			t.Errorf("Generate: got %+v", resp)
		}
		b.quiet(t)
		if got := b.States(); len(got) != 1 || got["llmtest"] != (provider.State{Circuit: provider.CircuitClosed}) {
			t.Errorf("States: got %+v", got)
		}
	})
}

func TestNameOf(t *testing.T) {
	tests := []struct {
		m    llm.Model
		want string
	}{
		{llmtest.Script(), "llmtest"},
		{llmtest.Script().Named("plain"), "plain"},
		{backend{llmtest.Script()}, "openai@host"},
		{wrapper{backend{llmtest.Script()}}, "openai@host"},
		{wrapper{llmtest.Script().Named("p/m/x")}, "p"},
	}
	for _, tt := range tests {
		if got := provider.NameOf(tt.m); got != tt.want {
			t.Errorf("NameOf(%T of %q): got %q, want %q", tt.m, tt.m.Name(), got, tt.want)
		}
	}
}

type backend struct{ llm.Model }

func (backend) Backend() string { return "openai@host" }

type wrapper struct{ llm.Model }

func (w wrapper) Unwrap() llm.Model { return w.Model }

// The options of a provider are its own, or its first part's, or everybody's.
func TestOptionsByName(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sys := newSystem(t, nil)
		g, err := provider.Open(sys, &provider.GroupOptions{Providers: map[string]provider.Options{
			"openai@host": {Retry: &llm.RetryOptions{MaxAttempts: 2}},
			"openai":      {Retry: &llm.RetryOptions{MaxAttempts: 3}},
			"":            {Retry: &llm.RetryOptions{MaxAttempts: 4}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]int{"openai@host": 2, "openai@other": 3, "openai": 3, "ollama": 4} {
			script := llmtest.Loop(llmtest.Fail(busy(time.Second)))
			_, err := llm.Generate(t.Context(), g.Provider(name).Model(script), hello())
			if n := len(script.Requests()); n != want || !errors.Is(err, llm.ErrRateLimit) {
				t.Errorf("%s: got %d attempts and %v, want %d", name, n, err, want)
			}
		}
	})
}

// Section 2.4 of the design of models: what is asked for again, and when.
func TestRetry(t *testing.T) {
	final := &llm.Error{Provider: "test", Status: 401, Err: llm.ErrAuth}
	again := llmtest.Fail(busy(0))
	tests := []struct {
		name     string
		turns    []llmtest.Turn
		opts     *llm.RetryOptions
		restart  bool
		want     error
		text     string
		requests int
		atLeast  time.Duration // of waiting
		atMost   time.Duration
	}{
		{"at once", []llmtest.Turn{llmtest.Say("ok")}, nil, false, nil, "ok", 1, 0, 0},
		{"exactly what the server asks for", []llmtest.Turn{llmtest.Fail(busy(7 * time.Second)), llmtest.Say("ok")}, nil, false, nil, "ok", 2, 7 * time.Second, 7 * time.Second},
		{"each time", []llmtest.Turn{llmtest.Fail(busy(7 * time.Second)), llmtest.Fail(busy(1234 * time.Millisecond)), llmtest.Say("ok")}, nil, false, nil, "ok", 3, 8234 * time.Millisecond, 8234 * time.Millisecond},
		{"growing waits", []llmtest.Turn{again, again, again, llmtest.Say("ok")}, nil, false, nil, "ok", 4, 1750 * time.Millisecond, 5250 * time.Millisecond},
		{"a bound of attempts", []llmtest.Turn{again, again, again}, &llm.RetryOptions{MaxAttempts: 2}, false, llm.ErrRateLimit, "", 2, 250 * time.Millisecond, 750 * time.Millisecond},
		{"five by default", []llmtest.Turn{again, again, again, again, again, again}, nil, false, llm.ErrRateLimit, "", 5, 3750 * time.Millisecond, 11250 * time.Millisecond},
		{"a server that asks for too much", []llmtest.Turn{llmtest.Fail(busy(time.Hour))}, nil, false, llm.ErrRateLimit, "", 1, 0, 0},
		{"an error for good", []llmtest.Turn{llmtest.Fail(final)}, nil, false, llm.ErrAuth, "", 1, 0, 0},
		{"an error of another kind", []llmtest.Turn{llmtest.Fail(context.Canceled)}, nil, false, context.Canceled, "", 1, 0, 0},
		{"after the first event", []llmtest.Turn{llmtest.Join(llmtest.Say("a"), again)}, nil, false, llm.ErrRateLimit, "a", 1, 0, 0},
		{"after the first event, for a reader who begins anew", []llmtest.Turn{llmtest.Join(llmtest.Say("a"), llmtest.Fail(busy(time.Second))), llmtest.Say("ok")}, nil, true, nil, "ok", 2, time.Second, time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t, provider.Options{Retry: tt.opts})
				script := llmtest.Script(tt.turns...)
				text := ""
				o := &llm.Observer{}
				if tt.restart {
					o.Restart = func() { text = "" }
				}
				start := time.Now()
				var got error
				for ev, err := range b.Model(script).Stream(llm.Observe(t.Context(), o), hello()) {
					if delta, ok := ev.(llm.TextDelta); ok {
						text += delta.Text
					}
					got = err
				}
				waited := time.Since(start)
				if !errors.Is(got, tt.want) || text != tt.text {
					t.Errorf("Stream: got %q and %v, want %q and %v", text, got, tt.text, tt.want)
				}
				if n := len(script.Requests()); n != tt.requests {
					t.Errorf("Stream: made %d requests, want %d", n, tt.requests)
				}
				if waited < tt.atLeast || waited > tt.atMost {
					t.Errorf("Stream: waited %v, want %v to %v", waited, tt.atLeast, tt.atMost)
				}
				b.quiet(t)
			})
		})
	}
}

// What is told of a retry, and in which order: first that what there was is void.
func TestObserver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var told []string
		tell := func(who string) func(llm.Attempt) {
			return func(a llm.Attempt) {
				told = append(told, fmt.Sprintf("%s %s %d %v %v", who, a.Model, a.Number, errors.Is(a.Err, llm.ErrRateLimit), a.Wait))
			}
		}
		b := newBench(t, provider.Options{Retry: &llm.RetryOptions{OnRetry: tell("options")}})
		ctx := llm.Observe(t.Context(), &llm.Observer{Retry: tell("observer"), Restart: func() { told = append(told, "restart") }})
		m := b.Model(llmtest.Script(llmtest.Fail(busy(time.Second)), llmtest.Join(llmtest.Say("a"), llmtest.Fail(busy(2*time.Second))), llmtest.Say("b")))
		read(ctx, m)
		want := []string{
			"observer llmtest/script 1 true 1s", "options llmtest/script 1 true 1s",
			"restart", "observer llmtest/script 2 true 2s", "options llmtest/script 2 true 2s",
		}
		if !slices.Equal(told, want) {
			t.Errorf("told: got  %q\nwant %q", told, want)
		}
	})
}

// A wait that its context would not survive is not begun.
func TestRetryAndDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, provider.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		err := read(ctx, b.Model(llmtest.Script(llmtest.Fail(busy(10*time.Second))))).once(t)
		if !errors.Is(err, llm.ErrRateLimit) || time.Since(start) != 0 {
			t.Errorf("got %v after %v, want %v at once", err, time.Since(start), llm.ErrRateLimit)
		}
	})
}

// So many are out at once, and those that wait come in the order of their coming.
func TestConcurrency(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, provider.Options{Concurrency: 2})
		var mu sync.Mutex
		var order []int
		out, most := 0, 0
		var wg sync.WaitGroup
		for i := range 7 {
			m := b.Model(fake{"llmtest/x", func(_ context.Context, yield func(llm.Event, error) bool) {
				mu.Lock()
				order = append(order, i)
				out++
				most = max(most, out)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				out--
				mu.Unlock()
				yield(llm.Finish{}, nil)
			}})
			wg.Go(func() {
				if err := read(t.Context(), m).once(t); err != nil {
					t.Errorf("request %d: %v", i, err)
				}
			})
			synctest.Wait()
		}
		if s := b.state(); s.InFlight != 2 || s.Waiting != 5 {
			t.Errorf("State: got %+v, want 2 out and 5 waiting", s)
		}
		start := time.Now()
		wg.Wait()
		if took := time.Since(start); took != 4*time.Second || most != 2 {
			t.Errorf("7 requests of 1 s took %v with %d at once, want 4s with 2", took, most)
		}
		// Two places become free at the same time: which of both is served first is open.
		for i, n := range order {
			if i/2 != n/2 {
				t.Errorf("served in the order %v", order)
				break
			}
		}
		b.quiet(t)
	})
}

// Beyond the queue a request fails at once, and says that another model may do better.
func TestQueueIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, provider.Options{Concurrency: 1, Queue: 2})
		gate := llmtest.NewGate()
		m := b.Model(llmtest.Loop(llmtest.Join(llmtest.Hold(gate), llmtest.Say("ok"))))
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := read(t.Context(), m).once(t); err != nil {
					t.Errorf("a request that was taken in: %v", err)
				}
			})
		}
		synctest.Wait()
		err := read(t.Context(), m).once(t)
		e, ok := errors.AsType[*llm.Error](err)
		if !ok || !errors.Is(err, provider.ErrBusy) || !e.Retryable {
			t.Errorf("one more: got %v, want a retryable %v", err, provider.ErrBusy)
		}
		gate.Open()
		wg.Wait()
		b.quiet(t)
	})
}

// A request that waits for its next attempt takes no place, and is older than those that
// came later.
func TestPauseTakesNoPlace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, provider.Options{Concurrency: 1})
		var mu sync.Mutex
		var order []string
		slow := func(name string, turns ...llmtest.Turn) llm.Model {
			script := llmtest.Script(turns...)
			return b.Model(fake{"llmtest/" + name, func(ctx context.Context, yield func(llm.Event, error) bool) {
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				for ev, err := range script.Stream(ctx, hello()) {
					if !yield(ev, err) {
						return
					}
				}
			}})
		}
		second := llmtest.Join(llmtest.Slow(time.Second), llmtest.Say("ok"))
		models := []llm.Model{slow("first", llmtest.Fail(busy(1500*time.Millisecond)), second), slow("second", second), slow("third", second), slow("fourth", second)}
		var wg sync.WaitGroup
		for _, m := range models {
			wg.Go(func() { read(t.Context(), m) })
			synctest.Wait()
		}
		wg.Wait()
		if want := []string{"first", "second", "third", "first", "fourth"}; !slices.Equal(order, want) {
			t.Errorf("out in the order %q, want %q", order, want)
		}
	})
}

// So many begin in any minute; an attempt of a retry is one as well.
func TestPerMinute(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, provider.Options{PerMinute: 3})
		start := time.Now()
		var mu sync.Mutex
		var began []time.Duration
		m := b.Model(fake{"llmtest/x", func(_ context.Context, yield func(llm.Event, error) bool) {
			mu.Lock()
			n := len(began)
			began = append(began, time.Since(start))
			mu.Unlock()
			if n == 0 {
				yield(nil, busy(10*time.Second))
				return
			}
			yield(llm.Finish{}, nil)
		}})
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { read(t.Context(), m) })
		}
		time.Sleep(20 * time.Second)
		for range 4 {
			wg.Go(func() { read(t.Context(), m) })
		}
		time.Sleep(35 * time.Second) // one more comes while no timer is due: there is no place for it either
		wg.Go(func() { read(t.Context(), m) })
		wg.Wait()
		want := []time.Duration{0, 0, 10 * time.Second, 60 * time.Second, 60 * time.Second, 70 * time.Second, 120 * time.Second, 120 * time.Second}
		if !slices.Equal(began, want) {
			t.Errorf("began at %v, want %v", began, want)
		}
		b.quiet(t)
	})
}

// SECA-27: what is shown of a provider and its models holds no key.
func TestNothingShowsTheKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const key = "sk-live-0123456789abcdef"
		b := newBench(t, provider.Options{Retry: once})
		m := b.Model(secret{llmtest.Script(down()), key})
		err := read(t.Context(), m).once(t)
		for _, shown := range []string{fmt.Sprint(err), fmt.Sprintf("%v %+v %#v", m, m, m), fmt.Sprintf("%v %+v %#v", b.state(), b.state(), b.state()), fmt.Sprintf("%+v", b.States())} {
			if strings.Contains(shown, key) {
				t.Errorf("the key is in %q", shown)
			}
		}
	})
}

type secret struct {
	llm.Model
	Key string
}

// Closed groups refuse, also through providers that are asked for later.
func TestClosed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, provider.Options{})
		b.works(t)
		b.Close()
		<-b.Stopped()
		for _, name := range []string{"llmtest", "new"} {
			if err := read(t.Context(), b.Model(llmtest.Script(llmtest.Say("x")).Named(name+"/m"))).once(t); !errors.Is(err, provider.ErrClosed) {
				t.Errorf("%s: got %v, want %v", name, err, provider.ErrClosed)
			}
		}
		if n := b.live(actors.KindProvider) + b.live(actors.KindLLM); n != 0 {
			t.Errorf("%d actors are left", n)
		}
	})
}
