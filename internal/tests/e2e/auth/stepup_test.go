package auth_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/mcpclient/auth"
)

// A tool that wants more leads to a question that names what is new; meanwhile the calls of other
// tools go on with the token that there is, and afterwards all have the new one (AUTH-61).
func TestStepUp(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		p := w.start()
		p.good("read")
		asked, enough, wrote := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		p.visits(func(ctx context.Context, r *auth.Request) error {
			close(asked)
			select {
			case <-enough:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			return p.agree(ctx, r)
		})
		go func() { wrote <- p.call("write") }()
		select {
		case <-asked:
		case err := <-wrote:
			t.Fatalf("calling write: no person was asked, and it returned %v", err)
		}
		var reads sync.WaitGroup
		for range 20 {
			reads.Go(func() {
				if err := p.call("read"); err != nil {
					t.Errorf("calling read while the person is asked: %v", err)
				}
			})
		}
		reads.Wait()
		close(enough)
		if err := <-wrote; err != nil {
			t.Errorf("calling write: %v", err)
		}
		p.good("read")
		p.good("write")
		p.asks("at the end", 2)
		if r := p.requests()[1]; !slices.Equal(r.New, []string{"tools:write"}) || !slices.Contains(r.Scopes, "tools:read") {
			t.Errorf("the person was asked for %q, of them new %q, want that tools:write is new", r.Scopes, r.New)
		}
	})
}
