package worker

import (
	"cmp"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/troupe-dev/troupe/actors/provider"
	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// Retry is how a job that failed is tried again.
type Retry struct {
	// MaxAttempts is how many attempts may fail, unless the job has its own bound. Zero
	// means 3.
	MaxAttempts int
	// MaxLosses is how often a worker may be lost while the job runs and nothing new of it is recorded. Then
	// a person is asked whether it goes on. Zero means 10. A job that lost two workers so goes on with no
	// other job beside it: it may be the cause.
	MaxLosses int
	// First is the wait after the first failure, about; it doubles up to Max. Zero means
	// 1 second and 5 minutes.
	First, Max time.Duration
}

// Retryable reports whether a run that ended with this error may do better later: a
// server or the store is unreachable. It is false for a limit, a
// refusal, a bad request and a bug, which would end the same way again. A model's provider that is away ends no run: the job
// waits for it, see [Options].GiveUp.
func Retryable(err error) bool {
	if _, ok := errors.AsType[*agent.LimitError](err); ok {
		return false
	}
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return e.Retryable && !errors.Is(err, llm.ErrQuota)
	}
	for _, passing := range []error{provider.ErrBusy, provider.ErrCircuitOpen, llm.ErrUnreachable, llm.ErrRateLimit, llm.ErrStreamCut,
		llm.ErrIdle, mcpclient.ErrNotSent, agent.ErrTooManyRuns, store.ErrBusy, store.ErrFull} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

// maxAttempts is how many attempts of j may fail.
func (r *Retry) maxAttempts(j store.Job) int {
	return cmp.Or(j.MaxAttempts, r.MaxAttempts)
}

// delay is the wait after that many failures, from one. A provider may ask for a longer one,
// up to an hour.
func (r *Retry) delay(failures int, err error) time.Duration {
	b := backoff.NewExponentialBackOff(backoff.WithInitialInterval(r.First), backoff.WithMaxInterval(r.Max),
		backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0.2), backoff.WithMaxElapsedTime(0))
	wait := r.First
	for range min(failures, 64) {
		wait = b.NextBackOff()
	}
	if e, ok := errors.AsType[*llm.Error](err); ok {
		wait = max(wait, min(e.RetryAfter, time.Hour))
	}
	return wait
}
