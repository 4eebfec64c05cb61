// Package pause waits on a timer, but no longer than a context or a channel.
package pause

import (
	"context"
	"time"
)

// For waits for d. If ctx ends before, it returns why.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Until waits for c, but not longer than d, and reports whether c was ready.
func Until(c <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
		return false
	}
}
