package agent_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/openai"
	"github.com/troupe-dev/troupe/llm/router"
)

// All runs share what a provider lets through, and each provider has its own.
func TestProvidersAreShared(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := llmtest.NewGate()
		held := llmtest.Join(llmtest.Hold(gate), llmtest.Say("ok"))
		rt := open(t, &agent.Options{
			Model:     llmtest.Loop(held).Named("narrow/m"),
			Providers: map[string]agent.ProviderOptions{"narrow": {Concurrency: 2}},
		})
		other, err := rt.Agent("other", &agent.Config{Model: llmtest.Loop(llmtest.Say("ok")).Named("wide/m")})
		if err != nil {
			t.Fatal(err)
		}
		var runs []*agent.Run
		for i := range 5 {
			runs = append(runs, start(t, rt, fmt.Sprint(i)))
		}
		synctest.Wait()
		if s := rt.Providers()["narrow"]; s.InFlight != 2 || s.Waiting != 3 {
			t.Errorf("Providers: got %+v, want 2 out and 3 waiting", s)
		}
		if _, err := other.Run(t.Context(), "go", nil); err != nil {
			t.Errorf("the other provider: %v", err)
		}
		gate.Open()
		for _, run := range runs {
			if _, err := run.Wait(t.Context()); err != nil {
				t.Errorf("Wait: %v", err)
			}
		}
	})
}

// Each model of a router is behind its own provider, and the next one takes a turn at once
// when a provider is left alone.
func TestRouterBehindProviders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		down := llmtest.Loop(llmtest.Fail(&llm.Error{Provider: "a", Status: 503, Retryable: true})).Named("a/m")
		r, err := router.New([]router.Card{{Model: down}, {Model: llmtest.Loop(llmtest.Say("from b")).Named("b/m")}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		rt := open(t, &agent.Options{Model: r, Providers: map[string]agent.ProviderOptions{
			"": {Circuit: agent.Circuit{Failures: 3, Open: time.Hour}},
		}})
		for _, want := range []int{3, 3} { // the second run finds the circuit open
			before := time.Now()
			res, err := rt.Run(t.Context(), "go")
			if err != nil || res.Text != "from b" {
				t.Errorf("Run: got %+v, %v", res, err)
			}
			if n := len(down.Requests()); n != want {
				t.Errorf("the first model was asked %d times, want %d", n, want)
			}
			if took := time.Since(before); took > time.Minute {
				t.Errorf("Run: took %v", took)
			}
		}
		if s := rt.Providers(); s["a"].Circuit != "open" || s["b"].Circuit != "closed" {
			t.Errorf("Providers: got %+v", s)
		}
	})
}

// A turn that breaks off is asked for again by a run, and what it had said is void.
func TestTurnIsRestarted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cut := &llm.Error{Provider: "p", Err: llm.ErrStreamCut, Retryable: true}
		rt := open(t, &agent.Options{Model: llmtest.Script(llmtest.Join(llmtest.Say("half"), llmtest.Fail(cut)), llmtest.Say("whole"))})
		run := start(t, rt, "r")
		if res, err := run.Wait(t.Context()); err != nil || res.Text != "whole" {
			t.Errorf("Wait: got %+v, %v, want the second answer alone", res, err)
		}
		got := types(t, run)
		if i, j := slices.Index(got, "turn_restarted"), slices.Index(got, "model_retried"); i < 0 || j < i {
			t.Errorf("events: got %v, want a restart and then a retry", got)
		}
	})
}

// A completion that is killed ends its run's turn and nobody else's; a run that is
// cancelled leaves no completion.
func TestCompletionOfARun(t *testing.T) {
	// With a rate each request has a completion, and without one those that wait.
	for rate, each := range map[int]int{0: 0, 1 << 20: 1} {
		bubble(t, func(t *testing.T) {
			gate := llmtest.NewGate()
			held := llmtest.Join(llmtest.Say("a"), llmtest.Hold(gate), llmtest.Say("b"))
			rt := open(t, &agent.Options{Model: llmtest.Script(llmtest.Say("x"), held, held), Providers: map[string]agent.ProviderOptions{"llmtest": {PerMinute: rate}}})
			out := func(want int) {
				t.Helper()
				synctest.Wait()
				if n := rt.Providers()["llmtest"].InFlight; n != want {
					t.Errorf("%d requests are out, want %d", n, want)
				}
				if n := rt.System().Census().Live(actors.KindCompletion); n != want*each {
					t.Errorf("%d completions, want %d", n, want*each)
				}
			}
			if _, err := start(t, rt, "first").Wait(t.Context()); err != nil { // the provider has started
				t.Fatal(err)
			}
			out(0)
			cancelled, goesOn := start(t, rt, "cancelled"), start(t, rt, "goes on")
			out(2)
			cancelled.Cancel(errTest)
			if _, err := cancelled.Wait(t.Context()); !errors.Is(err, errTest) {
				t.Errorf("the cancelled run: got %v, want %v", err, errTest)
			}
			out(1)
			gate.Open()
			if res, err := goesOn.Wait(t.Context()); err != nil || res.Text != "ab" {
				t.Errorf("the other run: got %+v, %v", res, err)
			}
			out(0)
		})
	}
}

// Options.Retry is every provider's, but for one that has its own; its OnRetry is told.
func TestRetryOptions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		told := 0
		busy := &llm.Error{Provider: "p", Err: llm.ErrRateLimit, Retryable: true}
		model := func(name string) *llmtest.Model { return llmtest.Loop(llmtest.Fail(busy)).Named(name + "/m") }
		plain, own := model("plain"), model("own")
		rt := open(t, &agent.Options{
			Model: plain, Retry: &llm.RetryOptions{MaxAttempts: 2, OnRetry: func(llm.Attempt) { told++ }},
			Providers: map[string]agent.ProviderOptions{"own": {Retry: &llm.RetryOptions{MaxAttempts: 3}}},
		})
		second, err := rt.Agent("second", &agent.Config{Model: own})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rt.Run(t.Context(), "go"); !errors.Is(err, llm.ErrRateLimit) {
			t.Errorf("Run: got %v, want %v", err, llm.ErrRateLimit)
		}
		if _, err := second.Run(t.Context(), "go", nil); !errors.Is(err, llm.ErrRateLimit) {
			t.Errorf("Run: got %v, want %v", err, llm.ErrRateLimit)
		}
		if a, b := len(plain.Requests()), len(own.Requests()); a != 2 || b != 3 || told != 1 {
			t.Errorf("asked %d and %d times and told of %d retries, want 2, 3 and 1", a, b, told)
		}
	})
}

// SECA-27: a key that a server sends back is in no event, no journal, no log and no result.
func TestKeyOfAModelStaysHidden(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const key = "sk-live-0123456789abcdef"
		st := memory()
		var log strings.Builder // its handler writes one record after the other
		rt := open(t, &agent.Options{Model: keyed(t, key), Store: st,
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		run := start(t, rt, "r")
		_, err := run.Wait(t.Context())
		if !errors.Is(err, llm.ErrAuth) || strings.Contains(err.Error(), key) {
			t.Errorf("Wait: got %v, want %v without the key", err, llm.ErrAuth)
		}
		for ev, err := range run.Events(t.Context()) {
			if errors.Is(err, agent.ErrSuspended) {
				break // it is left, as its provider refuses the key
			}
			if err != nil || strings.Contains(fmt.Sprintf("%+v", ev), key) {
				t.Errorf("the event %+v, %v", ev, err)
			}
		}
		events, err := st.Events(context.WithoutCancel(t.Context()), "r", 0, 100)
		if err != nil || len(events) == 0 {
			t.Errorf("Events: got %d, %v", len(events), err)
		}
		for _, ev := range events {
			if strings.Contains(string(ev.Body), key) {
				t.Errorf("the journal has the key in %s", ev.Body)
			}
		}
		if err := rt.Close(); err != nil || strings.Contains(log.String(), key) {
			t.Errorf("Close: %v; the log: %s", err, log.String())
		}
		if strings.Contains(fmt.Sprintf("%+v", rt.Providers()), key) {
			t.Errorf("the key is in %+v", rt.Providers())
		}
	})
}

// keyed is a client whose server repeats the key in its error.
func keyed(t *testing.T, key string) llm.Model {
	t.Helper()
	s := llmtest.NewServer(llmtest.Reply(401, `{"error":{"message":"Incorrect API key provided: `+key+`","code":"invalid_api_key"}}`))
	return openai.New("m", &openai.Options{BaseURL: "http://llm.test", APIKey: key, HTTPClient: memhttp.Serve(t, s)})
}
