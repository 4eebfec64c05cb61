package agent

import (
	"time"

	"github.com/troupe-dev/troupe/llm"
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
	// Class says why the provider is away, as [llm.Class] does: its circuit is not closed, or it
	// refuses the key ("auth") or the account ("quota"); then each request tries again. Empty
	// means that it works, as far as is known.
	Class string
	Since time.Time // it is away; else zero
}
