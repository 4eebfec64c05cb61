package llm

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/troupe-dev/troupe/internal/pause"
)

// RetryOptions changes how [Retry] waits; nil is the same as the zero value.
type RetryOptions struct {
	// MaxAttempts bounds the requests of one turn, the first included. Zero means 5.
	MaxAttempts int
	// InitialWait is about the first wait; each next one is twice as long, with half
	// of it up or down at random. Zero means 500 ms.
	InitialWait time.Duration
	// MaxWait bounds one wait. A server that asks for more ends the turn with its
	// error at once. Zero means 60 s.
	MaxWait time.Duration
	// OnRetry is called before each wait. Nil does nothing.
	OnRetry func(Attempt)
}

// Attempt tells of a request that failed and will be made again.
type Attempt struct {
	Model  string        // the model's name
	Number int           // of the attempt that failed, from one
	Err    error         // why
	Wait   time.Duration // until the next
}

func (o *RetryOptions) withDefaults() RetryOptions {
	d := *cmp.Or(o, new(RetryOptions))
	d.MaxAttempts = cmp.Or(d.MaxAttempts, 5)
	d.InitialWait = cmp.Or(d.InitialWait, 500*time.Millisecond)
	d.MaxWait = cmp.Or(d.MaxWait, time.Minute)
	if d.OnRetry == nil {
		d.OnRetry = func(Attempt) {}
	}
	return d
}

// Retry returns m with retries: a turn that fails with a retryable [*Error] before
// its first event is asked for again, after exactly the time the server asked for,
// or else after a growing random wait. A turn of which an event has been passed on
// is never repeated, since its reader would see the beginning twice.
//
// It does not wait where ctx would end first: the error is then the last attempt's.
func Retry(m Model, opts *RetryOptions) Model {
	return &retrying{model: m, opts: opts.withDefaults()}
}

type retrying struct {
	model Model
	opts  RetryOptions
}

func (r *retrying) Name() string { return r.model.Name() }

func (r *retrying) Stream(ctx context.Context, req *Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		waits := r.opts.Backoff()
		for n := 1; ; n++ {
			err := r.attempt(ctx, req, yield)
			if err == nil {
				return
			}
			wait, ok := waits.Next(ctx, n, err)
			if !ok {
				yield(nil, err)
				return
			}
			r.opts.OnRetry(Attempt{Model: r.Name(), Number: n, Err: err, Wait: wait})
			if err := pause.For(ctx, wait); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// attempt passes one try on. It returns an error only if nothing has been passed on
// yet; everything else is settled with the reader.
func (r *retrying) attempt(ctx context.Context, req *Request, yield func(Event, error) bool) error {
	started := false
	for ev, err := range r.model.Stream(ctx, req) {
		if err != nil && !started {
			return err
		}
		started = true
		if !yield(ev, err) || err != nil {
			return nil
		}
	}
	return nil
}

// Backoff is the policy of [RetryOptions] for one turn. It is for one goroutine.
type Backoff struct {
	opts  RetryOptions
	waits *backoff.ExponentialBackOff
}

// Backoff returns the policy for a turn that has not been asked for.
func (o *RetryOptions) Backoff() *Backoff {
	d := o.withDefaults()
	return &Backoff{opts: d, waits: backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(d.InitialWait),
		backoff.WithMaxInterval(d.MaxWait),
		backoff.WithMultiplier(2),
		backoff.WithMaxElapsedTime(0), // attempts are what is bounded
	)}
}

// Next says how long to wait before attempt n+1 now that attempt n, counted from one, has
// failed with err, or that there is none: the error is not a retryable one, there were
// enough attempts, or the wait would be too long for the options or for ctx. A server that
// cannot be reached gets two attempts where [Observer].Fallback says that another model
// takes the turn.
func (b *Backoff) Next(ctx context.Context, n int, err error) (wait time.Duration, again bool) {
	var e *Error
	if !errors.As(err, &e) || !e.Retryable || n >= b.opts.MaxAttempts || ctx.Err() != nil {
		return 0, false
	}
	if n >= 2 && errors.Is(err, ErrUnreachable) && ObserverOf(ctx).Fallback {
		return 0, false
	}
	// The library's jitter goes half beyond its own maximum.
	wait = min(b.waits.NextBackOff(), b.opts.MaxWait)
	if e.RetryAfter > 0 {
		wait = e.RetryAfter
	}
	if wait > b.opts.MaxWait {
		return 0, false
	}
	if deadline, ok := ctx.Deadline(); ok && time.Now().Add(wait).After(deadline) {
		return 0, false
	}
	return wait, true
}
