package relay

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// noSession is a client's session that does nothing.
type noSession struct{}

func (noSession) PageEnded(string) error { return nil }
func (noSession) RootsChanged()          {}
func (noSession) OperationEnded()        {}

// newAsking is an operation of a client whose call waits, without any work.
func newAsking(c *Client) *Operation {
	op := c.newOperation("", new(mcpserver.ToolRequest))
	c.add(op)
	return op
}

// SECA-6: what a server asks after the call has ended may be meant for another call of the
// same client. A shared client's question is never put to another call, which may be a
// stranger's.
func TestQuestionAfterItsCall(t *testing.T) {
	for _, tt := range []struct {
		name  string
		id    Identity
		moves bool
	}{
		{"a session", Identity{}, true},
		{"a principal", Identity{Owner: "ada"}, true},
		{"shared", Identity{Shared: true}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := NewOperations(Options{}).NewClient(t.Context(), noSession{}, tt.id)
				over, other := newAsking(c), newAsking(c)
				c.remove(over)
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

// SECA-9: the client that left the most behind gives way, and no other.
func TestMostOf(t *testing.T) {
	for _, tt := range []struct {
		all  string
		want int
	}{
		{"a", 0}, {"ab", 0}, {"abb", 1}, {"bababb", 0}, {"vffffff", 1}, {"fffvf", 0}, {"aabb", 0},
	} {
		if got := MostOf([]rune(tt.all), func(r rune) any { return r }); got != tt.want {
			t.Errorf("MostOf(%q): got %d, want %d", tt.all, got, tt.want)
		}
	}
}

// SECA-9: a question that a client thinks about is not given up because another client
// leaves more of them behind than are kept.
func TestLeftBehindByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := NewOperations(Options{Keep: time.Hour})
		made := 0
		leave := func(owner string) *Operation {
			made++
			op := table.NewClient(t.Context(), noSession{}, Identity{Owner: owner}).newOperation(fmt.Sprint(made), nil)
			if err := table.add(op); err != nil {
				t.Fatal(err)
			}
			table.leave(op)
			return op
		}
		ada := leave("Ada")
		for range 3 * maxLeft {
			leave("Eve")
		}
		if ada.ctx.Err() != nil {
			t.Errorf("the question of Ada: got %v, want it kept", context.Cause(ada.ctx))
		}
		if _, err := table.find(ada.id, "Ada"); err != nil {
			t.Errorf("Ada comes back: %v", err)
		}
		if n := len(table.left); n > maxLeft {
			t.Errorf("left: got %d, want %d at most", n, maxLeft)
		}
		table.Close()
		if n := len(table.left); n != 0 {
			t.Errorf("left after close: got %d, want none", n)
		}
	})
}

// A call that comes again before its earlier round has quite left takes the operation all the
// same: the clock of the operations left behind does not end it.
func TestComesBackEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := NewOperations(Options{Keep: time.Hour, TaskAfter: 3 * time.Hour})
		op := table.NewClient(t.Context(), noSession{}, Identity{Owner: "Ada"}).newOperation("1", nil)
		if err := table.add(op); err != nil {
			t.Fatal(err)
		}
		op.slot <- struct{}{} // the earlier round
		time.AfterFunc(2*time.Hour, func() { op.ended.Complete("done", nil) })
		found, err := table.find("1", "Ada")
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, func() {
			table.leave(op)
			<-op.slot
		})
		if out, err := found.attend(t.Context(), new(mcpserver.ToolRequest)); out != "done" || err != nil {
			t.Errorf("attend: got %v, %v, want done", out, err)
		}
		if op.ctx.Err() != nil {
			t.Errorf("the operation: got %v, want it to go on", context.Cause(op.ctx))
		}
	})
}
