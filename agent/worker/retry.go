package worker

import (
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/troupe-dev/troupe/actors/provider"
	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// Retryable reports whether a run that ended with this error may do better later: the
// model, a server or the store is unreachable or limits its rate. It is false for a limit, a
// refusal, a bad request and a bug, which would end the same way again.
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
func (o *Options) maxAttempts(j store.Job) int {
	if j.MaxAttempts > 0 {
		return j.MaxAttempts
	}
	return o.Retry.MaxAttempts
}

// delay is the wait after that many failures, from one. A provider may ask for a longer one,
// up to an hour.
func (o *Options) delay(failures int, err error) time.Duration {
	b := backoff.NewExponentialBackOff(backoff.WithInitialInterval(o.Retry.First), backoff.WithMaxInterval(o.Retry.Max),
		backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0.2), backoff.WithMaxElapsedTime(0))
	wait := o.Retry.First
	for range min(failures, 64) {
		wait = b.NextBackOff()
	}
	if e, ok := errors.AsType[*llm.Error](err); ok {
		wait = max(wait, min(e.RetryAfter, time.Hour))
	}
	return wait
}
