package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// TestPatience: a step is done again while the store is full or busy, each time later, and the log has one
// warning; another error, and the end of ctx, end it.
func TestPatience(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		name   string
		errs   []error
		stop   time.Duration // ctx ends then; zero is never
		want   error
		steps  int
		at     time.Duration
		warned int
	}{
		{"well", []error{nil}, 0, nil, 1, 0, 0},
		{"full, then well", []error{store.ErrFull, fmt.Errorf("opening: %w", store.ErrBusy), store.ErrFull, nil}, 0, nil, 4, 1750 * time.Millisecond, 1},
		{"full, then broken", []error{store.ErrFull, broken}, 0, broken, 2, 250 * time.Millisecond, 1},
		{"broken", []error{broken}, 0, broken, 1, 0, 0},
		{"told to end", []error{store.ErrFull}, time.Minute, context.DeadlineExceeded, 9, time.Minute, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				if tt.stop > 0 {
					ctx, cancel = context.WithTimeout(ctx, tt.stop)
				}
				defer cancel()
				var log strings.Builder
				p := &patience{log: slog.New(slog.NewTextHandler(&log, nil))}
				begun, n := time.Now(), 0
				err := p.until(ctx, func() error {
					n++
					return tt.errs[min(n, len(tt.errs))-1]
				})
				if !errors.Is(err, tt.want) || n != tt.steps || time.Since(begun) != tt.at {
					t.Errorf("got %v after %d steps and %v, want %v, %d and %v", err, n, time.Since(begun), tt.want, tt.steps, tt.at)
				}
				if warned := strings.Count(log.String(), "WARN"); warned != tt.warned {
					t.Errorf("the log has %d warnings, want %d:\n%s", warned, tt.warned, log.String())
				}
				if left := p.leave(ctx, err); tt.stop > 0 && left != nil || tt.stop == 0 && left != err {
					t.Errorf("leave: got %v of %v", left, err)
				}
			})
		})
	}
}
