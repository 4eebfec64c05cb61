package provider_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/provider"
	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/ollama"
	"github.com/troupe-dev/troupe/llm/openai"
)

const key = "sk-live-0123456789abcdef"

// apis makes a client of each kind for a server.
var apis = map[string]func(*http.Client) llm.Model{
	"openai": func(c *http.Client) llm.Model {
		return openai.New("m", &openai.Options{BaseURL: "http://llm.test", APIKey: key, HTTPClient: c})
	},
	"ollama": func(c *http.Client) llm.Model {
		return ollama.New("m", &ollama.Options{Host: "llm.test", APIKey: key, HTTPClient: c})
	},
}

// Every fault, over and over, ends in one error after as many attempts as it is worth; and
// each is made up for by a server that comes back, after exactly the time it asked for.
func TestFaults(t *testing.T) {
	for api, client := range apis {
		for i, f := range llmtest.FaultsOf(api, time.Now()) {
			t.Run(api+"/"+f.Name, func(t *testing.T) {
				t.Run("for good", func(t *testing.T) {
					bubble(t, func(t *testing.T) { faultForGood(t, client, llmtest.FaultsOf(api, time.Now())[i]) })
				})
				t.Run("once", func(t *testing.T) {
					bubble(t, func(t *testing.T) { faultOnce(t, client, llmtest.FaultsOf(api, time.Now())[i]) })
				})
			})
		}
	}
}

func faultForGood(t *testing.T, client func(*http.Client) llm.Model, f llmtest.FaultCase) {
	b := newBench(t, provider.Options{Retry: &llm.RetryOptions{MaxAttempts: 3, MaxWait: time.Hour}, Circuit: provider.Circuit{Failures: -1}})
	s := llmtest.NewServer(f.Turn).Loop()
	m := b.Model(client(memhttp.Serve(t, s)))
	start := time.Now()
	err := read(t.Context(), m).once(t)
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || f.Err != nil && !errors.Is(err, f.Err) || e.Retryable != f.Retryable {
		t.Errorf("got %v, want retryable %v and %v", err, f.Retryable, f.Err)
	}
	want := 1
	if f.Retryable && !f.Begun {
		want = 3
	}
	if n := len(s.Chats()); n != want {
		t.Errorf("asked %d times, want %d", n, want)
	}
	if took := time.Since(start); f.RetryAfter > 0 && took < f.RetryAfter || took > time.Hour {
		t.Errorf("it took %v", took)
	}
	if err != nil && strings.Contains(err.Error(), key) { // SECA-27
		t.Errorf("the key is in %v", err)
	}
	synctest.Wait()
	if n := s.Active(); n != 0 {
		t.Errorf("the server still answers %d requests", n)
	}
	for name, state := range b.States() {
		if state.InFlight != 0 || state.Waiting != 0 {
			t.Errorf("%s: got %+v, want nothing out", name, state)
		}
	}
}

func faultOnce(t *testing.T, client func(*http.Client) llm.Model, f llmtest.FaultCase) {
	b := newBench(t, provider.Options{Retry: &llm.RetryOptions{MaxWait: 2 * time.Minute}})
	s := llmtest.NewServer(f.Turn, llmtest.Say("better"))
	m := b.Model(client(memhttp.Serve(t, s)))
	text, waits := "", time.Duration(0)
	var failedAt time.Time
	o := &llm.Observer{Restart: func() { text = "" }, Retry: func(a llm.Attempt) { failedAt, waits = time.Now(), a.Wait }}
	var got error
	for ev, err := range m.Stream(llm.Observe(t.Context(), o), hello()) {
		if delta, ok := ev.(llm.TextDelta); ok {
			text += delta.Text
		}
		got = err
	}
	switch {
	case !f.Retryable:
		if got == nil || len(s.Chats()) != 1 {
			t.Errorf("got %v after %d requests, want an error after one", got, len(s.Chats()))
		}
		return
	case got != nil || text != "better":
		t.Errorf("got %q and %v, want the second answer", text, got)
	}
	if took := time.Since(failedAt); took != waits || f.RetryAfter > 0 && took != f.RetryAfter {
		t.Errorf("waited %v, want %v, as the server asked", took, f.RetryAfter)
	}
}
