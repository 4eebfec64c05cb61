package call_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// What becomes of a request whose own stream fails while the connection goes on.
func TestFailed(t *testing.T) {
	refused := &call.TransportError{Method: "tools/call", Status: 403, Err: errors.New("no")}
	unsent := fmt.Errorf("%w: %w", call.ErrUnsent, errGone)
	tests := []struct {
		name string
		err  error
		safe bool
		next bool // another connection follows at once
		want error
		sent int // on each of the connections together
		time time.Duration
	}{
		{name: "unsafe", err: errGone, want: call.ErrConnectionLost, sent: 1},
		{name: "safe, this connection", err: errGone, safe: true, sent: 2, time: 250 * time.Millisecond},
		{name: "safe, next connection", err: errGone, safe: true, next: true, sent: 2},
		{name: "unsent, this connection", err: unsent, sent: 2, time: 250 * time.Millisecond},
		{name: "unsent, next connection", err: unsent, next: true, sent: 2},
		{name: "refused", err: refused, want: refused, sent: 1},
		{name: "refused though safe", err: refused, safe: true, want: refused, sent: 1},
		{name: "refused before it was carried out", err: fmt.Errorf("%w: %w", call.ErrUnsent, refused), sent: 2, time: 250 * time.Millisecond},
		{name: "an error of the peer", err: mcp.ErrInternal, want: mcp.ErrInternal, sent: 1},
		{name: "no room", err: call.ErrBusy, want: call.ErrBusy, sent: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTable(t, nil)
				times := 0
				var follows []error
				fail := func(_ *wire, s sent) {
					if times++; times > 1 {
						b.result(1, s.ID, `{}`)
						return
					}
					b.Failed(1, s.ID, tt.err)
					b.Failed(1, s.ID, tt.err) // counts once
					b.Failed(1, mcp.IntID(77), tt.err)
				}
				b.connect(1, fail)
				if tt.next {
					go func() {
						synctest.Wait()
						b.Lost(1, errGone)
						b.connect(2, func(_ *wire, s sent) { times++; b.result(2, s.ID, `{}`) })
					}()
				}
				start := time.Now()
				_, err := b.Do(t.Context(), &call.Request{Method: "tools/call", Safe: tt.safe, Follow: func(a call.Answer) call.Step {
					follows = append(follows, a.Err)
					return call.Step{}
				}})
				if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) || times != tt.sent || time.Since(start) != tt.time {
					t.Errorf("Do: got %v, sent %d times, after %v, want %v, %d and %v", err, times, time.Since(start), tt.want, tt.sent, tt.time)
				}
				if len(follows) != 1 || follows[0] != err {
					t.Errorf("Follow saw %v, want %v", follows, err)
				}
			})
		})
	}
}

// A request that could not be written does not stay in the books while its Follow
// waits, and its end then says nothing to the peer.
func TestUnwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, nil)
		b.Open(1, &wire{err: call.ErrBusy})
		b.Ready()
		asked := &asking{}
		c := b.Start(&call.Request{Method: "tools/call", Follow: follower(asked.step(false), asked.step(false))}, nil)
		synctest.Wait()
		if out := b.Out(1); len(out) != 0 || asked.resume == nil {
			t.Errorf("out: %+v, waits %v, want a call that waits", out, asked.resume != nil)
		}
		w := b.connect(2, b.echo(2))
		asked.resume(again)
		synctest.Wait()
		c.Cancel(errLeft)
		synctest.Wait()
		if _, err := c.Result(); !errors.Is(err, errLeft) || !slices.Equal(w.methods(), []string{"tools/call"}) {
			t.Errorf("outcome: got %v after %v, want %v after one attempt", err, w.methods(), errLeft)
		}
	})
}

// A request that is never carried out is not sent for ever.
func TestFailedAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, nil)
		w := b.connect(1, func(_ *wire, s sent) { b.Failed(1, s.ID, call.ErrUnsent) })
		_, err := b.Do(t.Context(), &call.Request{Method: "tools/call"})
		var lost *call.LostError
		if !errors.As(err, &lost) || !lost.Unsent || len(w.all()) != 3 {
			t.Errorf("Do: got %v after %d times, want an unsent LostError after 3", err, len(w.all()))
		}
	})
}

// BASE-12: a result of an extension is understood if that was declared.
func TestResultTypes(t *testing.T) {
	for _, declared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newTable(t, nil)
			b.connect(1, func(_ *wire, s sent) {
				b.Agree(1, mcp.V2026_07_28, nil)
				b.Deliver(1, &mcp.Message{Kind: mcp.KindResult, ID: s.ID, Result: json.RawMessage(`{}`), ResultType: "task"})
			})
			req := &call.Request{Method: "tools/call"}
			if declared {
				req.ResultTypes = []string{"task"}
			}
			res, err := b.Do(t.Context(), req)
			if declared != (err == nil) || declared && res.Type != "task" || !declared && !errors.Is(err, call.ErrInvalidResponse) {
				t.Errorf("declared %v: got %+v, %v", declared, res, err)
			}
		})
	}
}

// CANC-09: the transport is told which request a notification withdraws.
func TestCancelledNamesItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, nil)
		w := b.connect(1, nil)
		_, _ = b.Do(t.Context(), &call.Request{Method: "tools/call", Idle: time.Second})
		synctest.Wait()
		sent := w.all()
		if len(sent) != 2 || sent[1].Out.Cancels != sent[0].ID || sent[0].Out.Cancels != (mcp.ID{}) {
			t.Errorf("sent %+v, want the second to cancel the first", sent)
		}
	})
}
