package agent

import (
	"time"

	"github.com/troupe-dev/troupe/actors/provider"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/router"
)

// ProviderOptions bounds the requests to one provider of models; see [Options].Providers.
type ProviderOptions struct {
	// Concurrency bounds the requests that are out at once. Zero means 8.
	Concurrency int
	// Queue bounds those that wait, for a place or for another attempt. Beyond it a
	// request fails with [ErrProviderBusy]. Zero means 1024.
	Queue int
	// PerMinute bounds how many attempts begin within any minute. Zero means no limit.
	PerMinute int
	// Circuit stops requests to a provider that fails.
	Circuit Circuit
	// Retry says which failures are followed by another attempt. Nil means
	// [Options].Retry; MaxAttempts 1 switches it off.
	Retry *llm.RetryOptions
}

// Circuit stops the requests to a failing provider for a while. A failure is a retryable
// one but for a rate limit (status 429). After the pause one request goes out: its success
// closes the circuit, its failure begins the next pause. Requests in a pause fail with
// [ErrProviderDown].
type Circuit struct {
	// Failures in a row begin a pause. Zero means 5; below zero there is none.
	Failures int
	// Open is how long the pause is. Zero means 30 s.
	Open time.Duration
}

// ProviderState is how a provider stands at the moment. It holds no keys.
type ProviderState struct {
	InFlight int    // requests that are out
	Waiting  int    // for a place, or for their next attempt
	Circuit  string // "closed", "open" or "half-open"
	Failures int    // in a row
	// Until is when an open circuit lets the next request through; else zero.
	Until time.Time
	// LastError is the error of the newest failed attempt, nil if none has failed since
	// the last one that did not.
	LastError error
}

// openProviders starts what is between the runtime and its models.
func (rt *Runtime) openProviders() (err error) {
	all := map[string]provider.Options{"": {Retry: &rt.opts.Retry}}
	for name, o := range rt.opts.Providers {
		if o.Retry == nil {
			o.Retry = &rt.opts.Retry
		}
		all[name] = provider.Options{Concurrency: o.Concurrency, Queue: o.Queue, PerMinute: o.PerMinute,
			Circuit: provider.Circuit(o.Circuit), Retry: o.Retry}
	}
	rt.llm, err = provider.Open(rt.sys, &provider.GroupOptions{Providers: all})
	return err
}

// model returns a model behind its provider, and a router with each of its models behind
// theirs: every model that the runtime asks has gone through here, once or more often.
func (rt *Runtime) model(m llm.Model) llm.Model {
	switch m := m.(type) {
	case nil:
		return nil
	case *router.Router:
		return m.Wrap(rt.llm.Model)
	}
	return rt.llm.Model(m)
}

// Providers returns how the providers of the runtime's models stand, by name.
func (rt *Runtime) Providers() map[string]ProviderState {
	states := rt.llm.States()
	out := make(map[string]ProviderState, len(states))
	for name, s := range states {
		out[name] = ProviderState(s)
	}
	return out
}
