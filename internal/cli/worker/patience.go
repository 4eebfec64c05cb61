package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/internal/pause"
	"github.com/troupe-dev/troupe/store"
)

// The waits of a worker that starts while its store does not write: they double up to the longest.
const (
	firstWait   = 250 * time.Millisecond
	longestWait = 15 * time.Second
)

// patience is how a worker starts on a store that is full or locked: it waits as one does that runs,
// and goes on by itself.
type patience struct {
	log   *slog.Logger
	waits atomic.Pointer[error] // why the worker waits; nil while it does not
}

// until does a step of the start again until it does not fail for the store's state any more, or ctx
// ends. It says once that it waits.
func (p *patience) until(ctx context.Context, step func() error) error {
	told := false
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		err := step()
		if !errors.Is(err, store.ErrFull) && !errors.Is(err, store.ErrBusy) {
			if p.waits.Store(nil); told && err == nil {
				p.log.Info("the store works again: the worker starts")
			}
			return err
		}
		p.waits.Store(&err)
		if !told {
			told = true
			p.log.Warn("the worker waits for its store before it starts", "error", err)
		}
		if err := pause.For(ctx, wait); err != nil {
			return err
		}
	}
}

// leave is the error of a start that has failed. A worker that is told to end while it waits has nothing to
// drain: that is no error.
func (p *patience) leave(ctx context.Context, err error) error {
	if p.waits.Load() != nil && ctx.Err() != nil {
		return nil
	}
	return err
}

// ready says why the worker has not started.
func (p *patience) ready(context.Context) error {
	switch err := p.waits.Load(); {
	case err == nil:
		return errors.New("the worker is starting")
	case errors.Is(*err, store.ErrFull):
		return errors.New("the worker waits for its store, which is full")
	}
	return errors.New("the worker waits for its store, which is busy")
}
