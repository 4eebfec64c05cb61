package expose

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// newAsking is an errand of an upstream whose call waits, without any work.
func newAsking(u *upstream) *errand {
	e := &errand{up: u, call: new(mcpserver.ToolRequest), wake: make(chan struct{}, 1), turn: make(chan struct{}, 1)}
	e.ctx, e.cancel = context.WithCancelCause(u.ctx)
	u.add(e)
	return e
}

// SECA-6: what a server asks after the call has ended may be meant for another call of the
// same client; of nobody it is never put to another call, which may be a stranger's.
func TestQuestionAfterItsCall(t *testing.T) {
	for _, tt := range []struct {
		name      string
		principal *mcpserver.Principal
		key       string
		moves     bool
	}{
		{"a session", nil, "", true},
		{"a principal", &mcpserver.Principal{ID: "ada"}, "k", true},
		{"nobody", nil, "k", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := &upstream{principal: tt.principal, key: tt.key, errands: make(map[*errand]struct{})}
				u.ctx, u.cancel = context.WithCancelCause(t.Context())
				defer u.cancel(nil)
				over, other := newAsking(u), newAsking(u)
				delete(u.errands, over)
				over.cancel(errLeft)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				q := &question{person: true, needs: (*mcp.ClientCapabilities).ElicitForm}
				_, err := over.ask(ctx, q)
				if moved := len(other.open) == 1; moved != tt.moves {
					t.Errorf("put to another call: got %v, want %v", moved, tt.moves)
				}
				if want := errLeft; !tt.moves && !errors.Is(err, want) {
					t.Errorf("ask: got %v, want %v", err, want)
				}
			})
		})
	}
}
