package provider_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/provider"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// fails asks so often in vain.
func (b *bench) fails(t *testing.T, n int, with llmtest.Turn) {
	t.Helper()
	for range n {
		if err := read(t.Context(), b.Model(llmtest.Script(with))).once(t); err == nil {
			t.Error("a failure: got none")
		}
	}
}

// impatient is a reader who has another model.
var impatient = llm.Observer{Fallback: true}

// What opens a circuit is a row of failures of the server, and nothing else.
func TestWhatOpensTheCircuit(t *testing.T) {
	bad := llmtest.Fail(&llm.Error{Provider: "test", Status: 400, Err: llm.ErrInvalidRequest})
	tests := []struct {
		name string
		do   func(t *testing.T, b *bench)
		want string
	}{
		{"failures in a row", func(t *testing.T, b *bench) { b.fails(t, 3, down()) }, provider.CircuitOpen},
		{"too few", func(t *testing.T, b *bench) { b.fails(t, 2, down()) }, provider.CircuitClosed},
		{"an answer between", func(t *testing.T, b *bench) { b.fails(t, 2, down()); b.works(t); b.fails(t, 2, down()) }, provider.CircuitClosed},
		{"a refusal between", func(t *testing.T, b *bench) { b.fails(t, 2, down()); b.fails(t, 1, bad); b.fails(t, 2, down()) }, provider.CircuitClosed},
		{"refusals", func(t *testing.T, b *bench) { b.fails(t, 9, bad) }, provider.CircuitClosed},
		{"rate limits", func(t *testing.T, b *bench) { b.fails(t, 9, llmtest.Fail(busy(0))) }, provider.CircuitClosed},
		{"readers who leave", func(t *testing.T, b *bench) {
			b.fails(t, 2, down())
			for range 5 {
				for range b.Model(llmtest.Script(llmtest.Say("a", "b"))).Stream(t.Context(), hello()) {
					break
				}
			}
		}, provider.CircuitClosed},
		{"streams that end early", func(t *testing.T, b *bench) {
			for range 3 {
				err := read(t.Context(), b.Model(fake{"llmtest/x", func(context.Context, func(llm.Event, error) bool) {}})).once(t)
				if !errors.Is(err, llm.ErrStreamCut) {
					t.Errorf("got %v, want %v", err, llm.ErrStreamCut)
				}
			}
		}, provider.CircuitOpen},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t, provider.Options{Retry: once, Circuit: provider.Circuit{Failures: 3}})
				tt.do(t, b)
				b.quiet(t)
				if got := b.state(); got.Circuit != tt.want {
					t.Errorf("State: got %+v, want the circuit %s", got, tt.want)
				}
			})
		})
	}
}

// An open circuit makes nobody ask; who can go elsewhere does so at once, and the others
// wait exactly until one may try.
func TestOpenCircuit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, provider.Options{Circuit: provider.Circuit{Failures: 1, Open: 20 * time.Second}})
		b.fails(t, 1, llmtest.Join(llmtest.Say("a"), down()))
		synctest.Wait()
		if s := b.state(); s.Circuit != provider.CircuitOpen || s.Failures != 1 || s.LastError == nil || time.Until(s.Until) != 20*time.Second {
			t.Errorf("State: got %+v, want it open for 20 s", s)
		}
		time.Sleep(5 * time.Second)
		script := llmtest.Script(llmtest.Say("ok"))
		err := read(llm.Observe(t.Context(), &impatient), b.Model(script)).once(t)
		e, ok := errors.AsType[*llm.Error](err)
		if !ok || !errors.Is(err, provider.ErrCircuitOpen) || !e.Retryable || e.RetryAfter != 15*time.Second {
			t.Errorf("with a fallback: got %v, want a retryable %v in 15 s", err, provider.ErrCircuitOpen)
		}
		start := time.Now()
		var told []llm.Attempt
		o := &llm.Observer{Retry: func(a llm.Attempt) { told = append(told, a) }}
		if err := read(llm.Observe(t.Context(), o), b.Model(script)).once(t); err != nil || time.Since(start) != 15*time.Second {
			t.Errorf("got %v after %v, want an answer after 15s", err, time.Since(start))
		}
		if len(told) != 1 || told[0].Wait != 15*time.Second || !errors.Is(told[0].Err, provider.ErrCircuitOpen) {
			t.Errorf("told: got %+v", told)
		}
		if len(script.Requests()) != 1 {
			t.Errorf("the model was asked %d times, want once", len(script.Requests()))
		}
		synctest.Wait()
		if s := b.state(); s != (provider.State{Circuit: provider.CircuitClosed}) {
			t.Errorf("State: got %+v, want it closed", s)
		}
	})
}

// A server that cannot be reached is tried once more, and is left to a fallback then, if
// there is one; a server that is only busy is not.
func TestUnreachableWithFallback(t *testing.T) {
	away := llmtest.Fail(&llm.Error{Provider: "test", Retryable: true, Err: llm.ErrUnreachable})
	tests := []struct {
		name     string
		observer llm.Observer
		turn     llmtest.Turn
		want     error
		requests int
		atMost   time.Duration // of waiting
	}{
		{"alone", llm.Observer{}, away, llm.ErrUnreachable, 5, 11250 * time.Millisecond},
		{"with a fallback", impatient, away, llm.ErrUnreachable, 2, 750 * time.Millisecond},
		{"busy, with a fallback", impatient, llmtest.Fail(busy(0)), llm.ErrRateLimit, 5, 11250 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t, provider.Options{Circuit: provider.Circuit{Failures: 9}})
				script := llmtest.Loop(tt.turn)
				start := time.Now()
				err := read(llm.Observe(t.Context(), &tt.observer), b.Model(script)).once(t)
				if waited := time.Since(start); !errors.Is(err, tt.want) || waited > tt.atMost {
					t.Errorf("got %v after %v, want %v within %v", err, waited, tt.want, tt.atMost)
				}
				if n := len(script.Requests()); n != tt.requests {
					t.Errorf("got %d requests, want %d", n, tt.requests)
				}
				b.quiet(t)
			})
		})
	}
}

// A circuit that stays open longer than a request may wait ends it at once.
func TestCircuitBeyondPatience(t *testing.T) {
	tests := []struct {
		name    string
		timeout time.Duration
		open    time.Duration
	}{
		{"the deadline", 10 * time.Second, 20 * time.Second},
		{"the policy", time.Hour, 2 * time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t, provider.Options{Circuit: provider.Circuit{Failures: 1, Open: tt.open}})
				b.fails(t, 1, llmtest.Join(llmtest.Say("a"), down()))
				ctx, cancel := context.WithTimeout(t.Context(), tt.timeout)
				defer cancel()
				start := time.Now()
				err := read(ctx, b.Model(llmtest.Script(llmtest.Say("ok")))).once(t)
				if !errors.Is(err, provider.ErrCircuitOpen) || time.Since(start) != 0 {
					t.Errorf("got %v after %v, want %v at once", err, time.Since(start), provider.ErrCircuitOpen)
				}
			})
		})
	}
}

// When the time has come one request goes out alone; the others follow with its first
// event, or wait anew if it fails.
func TestHalfOpen(t *testing.T) {
	tests := []struct {
		name  string
		probe func() llmtest.Turn      // made in the bubble
		end   func(cancel func(error)) // of the probe, if it does not end itself
		asked int                      // in all, once the probe has been decided on
		state string
	}{
		{"the first event closes it", func() llmtest.Turn { return llmtest.Join(llmtest.Say("a"), llmtest.Hold(llmtest.NewGate())) }, nil, 4, provider.CircuitClosed},
		{"a refusal closes it", func() llmtest.Turn { return llmtest.Fail(&llm.Error{Status: 400, Err: llm.ErrInvalidRequest}) }, nil, 4, provider.CircuitClosed},
		{"a failure opens it", down, nil, 1, provider.CircuitOpen},
		{"the next one tries if it is cancelled", func() llmtest.Turn { return llmtest.Hold(llmtest.NewGate()) }, func(cancel func(error)) { cancel(errLeft) }, 4, provider.CircuitClosed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t, provider.Options{Retry: &llm.RetryOptions{MaxAttempts: 3}, Circuit: provider.Circuit{Failures: 1, Open: 20 * time.Second}})
				b.fails(t, 1, llmtest.Join(llmtest.Say("a"), down()))
				time.Sleep(20 * time.Second)
				synctest.Wait()
				if s := b.state(); s.Circuit != provider.CircuitHalfOpen {
					t.Errorf("State: got %+v, want it half-open", s)
				}
				script := llmtest.Script(tt.probe(), llmtest.Say("ok"), llmtest.Say("ok"), llmtest.Say("ok"))
				m := b.Model(script)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				gate := llmtest.NewGate()
				held := fake{"llmtest/held", func(ctx context.Context, yield func(llm.Event, error) bool) {
					for range llmtest.Script(llmtest.Hold(gate)).Stream(ctx, hello()) {
						break
					}
					for ev, err := range script.Stream(ctx, hello()) {
						if !yield(ev, err) {
							return
						}
					}
				}}
				var wg sync.WaitGroup
				wg.Go(func() { read(ctx, b.Model(held)) })
				synctest.Wait()
				for range 3 {
					wg.Go(func() { read(t.Context(), m) })
				}
				synctest.Wait()
				if n := len(script.Requests()); n != 0 {
					t.Errorf("beside the one that tries %d were asked", n)
				}
				if s := b.state(); s.InFlight != 1 || s.Waiting != 3 {
					t.Errorf("State: got %+v, want 1 out and 3 waiting", s)
				}
				gate.Open()
				synctest.Wait()
				if tt.end != nil {
					tt.end(cancel)
					synctest.Wait()
				}
				if n := len(script.Requests()); n != tt.asked {
					t.Errorf("asked %d times, want %d", n, tt.asked)
				}
				if s := b.state(); s.Circuit != tt.state {
					t.Errorf("State: got %+v, want %s", s, tt.state)
				}
				cancel(errLeft)
				wg.Wait()
				b.quiet(t)
			})
		})
	}
}

// Those that are between their attempts when a server is away for a while get through it.
func TestServerComesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, provider.Options{})
		start := time.Now()
		m := b.Model(fake{"llmtest/x", func(_ context.Context, yield func(llm.Event, error) bool) {
			if time.Since(start) < 3*time.Second {
				yield(nil, &llm.Error{Provider: "test", Status: 503, Retryable: true})
				return
			}
			yield(llm.Finish{}, nil)
		}})
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if err := read(t.Context(), m).once(t); err != nil {
					t.Errorf("got %v, want an answer in the end", err)
				}
			})
		}
		wg.Wait()
		b.quiet(t)
	})
}

// lines returns a logger and what it has been told, without the times.
func lines() (*slog.Logger, *strings.Builder) {
	var log strings.Builder // its handler writes one record after the other
	return slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "until" {
			return slog.Attr{}
		}
		return a
	}})), &log
}

// A provider that is away is told of once, and that it works again as well, however many requests
// meet it. It is away when its circuit opens, and when it refuses the key or the account; then
// requests go out all the same, so that a key that is accepted again mends it.
func TestAProviderIsAway(t *testing.T) {
	refuses := func(err error) llmtest.Turn {
		return llmtest.Fail(&llm.Error{Provider: "test", Status: 401, Message: "no", Err: err})
	}
	tests := []struct {
		name    string
		turn    func() llmtest.Turn
		after   time.Duration // until a request goes out again
		class   string
		circuit string
		log     string
	}{
		{"unreachable", func() llmtest.Turn {
			return llmtest.Fail(&llm.Error{Provider: "test", Retryable: true, Err: llm.ErrUnreachable})
		}, 20 * time.Second, "unreachable", provider.CircuitOpen, `level=WARN msg="a provider of models is left alone after repeated failures: its circuit is open" provider=llmtest class=unreachable error="test: the server cannot be reached"
level=WARN msg="a provider of models works again" provider=llmtest class=unreachable away=20s
`},
		{"a status from 500", down, 20 * time.Second, "server", provider.CircuitOpen, `level=WARN msg="a provider of models is left alone after repeated failures: its circuit is open" provider=llmtest class=server error="test: status 503: down"
level=WARN msg="a provider of models works again" provider=llmtest class=server away=20s
`},
		{"a key", func() llmtest.Turn { return refuses(llm.ErrAuth) }, 5 * time.Second, "auth", provider.CircuitClosed, `level=WARN msg="a provider of models refuses its key or account: each request tries again" provider=llmtest class=auth error="test: status 401: the server does not accept the credentials: no"
level=WARN msg="a provider of models works again" provider=llmtest class=auth away=5s
`},
		{"an account", func() llmtest.Turn { return refuses(llm.ErrQuota) }, 5 * time.Second, "quota", provider.CircuitClosed, `level=WARN msg="a provider of models refuses its key or account: each request tries again" provider=llmtest class=quota error="test: status 401: the account has no quota left: no"
level=WARN msg="a provider of models works again" provider=llmtest class=quota away=5s
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				logger, log := lines()
				b := newBenchWith(t, &provider.GroupOptions{Logger: logger, Providers: map[string]provider.Options{
					"": {Retry: once, Circuit: provider.Circuit{Failures: 3, Open: 20 * time.Second}}}})
				b.works(t)
				before := time.Now()
				b.fails(t, 9, tt.turn())
				synctest.Wait()
				s := b.state()
				if s.Circuit != tt.circuit || s.Class != tt.class || !s.Since.Equal(before) || s.LastError == nil {
					t.Errorf("State: got %+v, want %s and away since %v: %s", s, tt.circuit, before, tt.class)
				}
				time.Sleep(tt.after)
				b.works(t)
				b.works(t)
				if s := b.state(); s != (provider.State{Circuit: provider.CircuitClosed}) {
					t.Errorf("State: got %+v, want one that works", s)
				}
				if log.String() != tt.log {
					t.Errorf("the log: got\n%swant\n%s", log, tt.log)
				}
				want := map[string]int64{tt.class: 9}
				if tt.circuit == provider.CircuitOpen {
					want[tt.class] = 3 // the others did not go out
				}
				if got := b.Errors()["llmtest"]; !maps.Equal(got, want) {
					t.Errorf("Errors: got %v, want %v", got, want)
				}
			})
		})
	}
}

// A provider that refuses one of two keys is away and back with every other request. The log hears
// of it once a minute, and has the last word.
func TestAProviderComesAndGoes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, log := lines()
		b := newBenchWith(t, &provider.GroupOptions{Logger: logger, Providers: map[string]provider.Options{"": {Retry: once}}})
		refused := llmtest.Fail(&llm.Error{Provider: "test", Status: 403, Err: llm.ErrAuth})
		for range 90 {
			b.fails(t, 1, refused)
			b.works(t)
			time.Sleep(time.Second)
		}
		if got := strings.Count(log.String(), "refuses"); got != 2 {
			t.Errorf("in 90 seconds: got %d lines that it refuses, want 2:\n%s", got, log)
		}
		for range 60 { // refused for good
			b.fails(t, 1, refused)
			time.Sleep(time.Second)
		}
		if got := log.String(); !strings.Contains(got[strings.LastIndex(strings.TrimSpace(got), "\n")+1:], "refuses") || strings.Count(got, "refuses") != 3 {
			t.Errorf("a key that is refused for good: got\n%s", got)
		}
	})
}
