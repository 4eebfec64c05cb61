package call_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// slowWire is a link that takes its time over each request.
type slowWire struct {
	wire
	begun, open chan struct{}
}

func (w *slowWire) Send(m mcp.Outgoing) error {
	if m.Kind == mcp.KindRequest {
		w.begun <- struct{}{}
		<-w.open
	}
	return w.wire.Send(m)
}

// CANC-02: a request is withdrawn after it was sent, never before: the peer would
// not know the id, and carry the request out. CANC-04: initialize never is.
func TestCancelDoesNotOvertakeItsRequest(t *testing.T) {
	tests := []struct {
		method string
		want   []string
	}{
		{mcp.MethodCallTool, []string{mcp.MethodCallTool, mcp.NotificationCancelled}},
		{mcp.MethodInitialize, []string{mcp.MethodInitialize}},
	}
	for _, tt := range tests {
		t.Run(tt.method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTable(t, nil)
				w := &slowWire{begun: make(chan struct{}), open: make(chan struct{})}
				b.Open(1, w)
				b.Ready()
				c := b.Start(&call.Request{Method: tt.method}, nil)
				<-w.begun
				c.Cancel(errGone)
				c.Cancel(errGone)
				if _, err := c.Wait(t.Context()); err != errGone {
					t.Errorf("outcome: got %v, want %v", err, errGone)
				}
				synctest.Wait()
				if got := w.methods(); len(got) != 0 {
					t.Errorf("sent before the request: %v", got)
				}
				close(w.open)
				synctest.Wait()
				if got := w.methods(); !slices.Equal(got, tt.want) {
					t.Errorf("sent: got %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// CANC-02: what is over is not cancelled.
func TestCancelOfAFinishedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, nil)
		w := b.connect(1, b.echo(1))
		c := b.Start(&call.Request{Method: "m"}, nil)
		if _, err := c.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.Cancel(errGone)
		synctest.Wait()
		if got := w.methods(); !slices.Equal(got, []string{"m"}) {
			t.Errorf("sent: got %v, want the request alone", got)
		}
	})
}

// A link that can not take a request ends it at once, also one that may be
// repeated: no other connection is to come.
func TestRequestTheLinkDoesNotTake(t *testing.T) {
	for _, want := range []error{call.ErrBusy, call.ErrTooLong} {
		synctest.Test(t, func(t *testing.T) {
			b := newTable(t, nil)
			b.Open(1, &wire{err: want})
			b.Ready()
			start := time.Now()
			_, err := b.Do(t.Context(), &call.Request{Method: "m", Safe: true})
			if !errors.Is(err, want) || time.Since(start) != 0 {
				t.Errorf("Do: got %v after %v, want %v at once", err, time.Since(start), want)
			}
		})
	}
}

// ROB-3: the peer can not fill the memory with the texts of progress that nobody takes.
func TestProgressTextIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, nil)
		text := strings.Repeat("ü", 1<<20)
		b.connect(1, func(_ *wire, s sent) {
			for i := range 100 {
				b.Progress(1, &mcp.ProgressParams{ProgressToken: s.ID, Progress: float64(i), Message: text})
			}
			b.result(1, s.ID, `{}`)
		})
		got := 0
		_, err := b.Do(t.Context(), &call.Request{Method: "m", OnProgress: func(p call.Progress) { got += len(p.Message) }})
		if err != nil || got == 0 || got > 128<<10 {
			t.Errorf("got %d bytes of text and %v, want 64 messages of about 1 KiB", got, err)
		}
	})
}

// BASE-11: a result without a type is complete, in 2026-07-28 too.
func TestResultWithoutType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, nil)
		b.connect(1, b.echo(1))
		b.Agree(1, mcp.V2026_07_28, nil)
		if res, err := b.Do(t.Context(), &call.Request{Method: "m"}); err != nil || res.Type != "" {
			t.Errorf("Do: got %+v, %v, want a result", res, err)
		}
	})
}
