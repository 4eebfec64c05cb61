package actors

import (
	"context"
	"sync"
	"sync/atomic"
)

// Reply is an answer that is given once: the first Complete wins, the others do
// nothing. It may have several owners (the actor that works, the parent that
// answers for it when it dies), so every caller gets exactly one outcome. The
// zero value is ready, must not be copied, and may be used from any goroutine.
type Reply[T any] struct {
	done  atomic.Bool // value and err are there, and will not change
	value T
	err   error

	mu    sync.Mutex
	ready chan struct{} // made by the first who waits, released by the answer
}

// Complete gives the answer and reports whether it was the first.
func (r *Reply[T]) Complete(value T, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done.Load() {
		return false
	}
	r.value, r.err = value, err
	r.done.Store(true)
	if r.ready != nil {
		close(r.ready)
		r.ready = nil
	}
	return true
}

// Completed reports whether the answer was given.
func (r *Reply[T]) Completed() bool { return r.done.Load() }

// closed serves all who ask for Done after the answer.
var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Done returns a channel that is closed by the answer.
func (r *Reply[T]) Done() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done.Load() {
		return closed
	}
	if r.ready == nil {
		r.ready = make(chan struct{})
	}
	return r.ready
}

// Result returns the answer; before there is one, zero values.
func (r *Reply[T]) Result() (T, error) {
	if !r.done.Load() {
		var zero T
		return zero, nil
	}
	return r.value, r.err
}

// Wait waits for the answer or for ctx, whose cause is then the error.
func (r *Reply[T]) Wait(ctx context.Context) (T, error) {
	if r.Completed() {
		return r.Result()
	}
	select {
	case <-r.Done():
		return r.Result()
	case <-ctx.Done():
		if r.Completed() { // both at once: the answer counts
			return r.Result()
		}
		var zero T
		return zero, context.Cause(ctx)
	}
}
