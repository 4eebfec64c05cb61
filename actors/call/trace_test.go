package call_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// What happens to a retried call are messages to its actor, in order.
func TestTraceOfRetries(t *testing.T) {
	tests := []struct {
		name string
		end  func(b *bench, c *call.Call)
		want string
	}{
		{"cancel", func(_ *bench, c *call.Call) { c.Cancel(errLeft) }, "cancel"},
		{"timeout", func(*bench, *call.Call) { time.Sleep(time.Hour) }, "deadline"},
		{"result", func(b *bench, _ *call.Call) { b.result(1, b.Out(1)[0].ID, `{}`) }, "response"},
		{"failed", func(b *bench, _ *call.Call) { b.Failed(1, b.Out(1)[0].ID, errGone) }, "failed"},
		{"lost", func(b *bench, _ *call.Call) { b.Lost(1, errGone) }, "connectionLost"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tracer := &actors.Tracer{Keep: func(ev actors.TraceEvent) bool { return ev.Actor.Kind() == actors.KindCall }}
				b := newTableOn(t, newSystem(t, &actors.Options{Trace: tracer.Record}), nil)
				b.connect(1, nil)
				asked := &asking{}
				done := make(chan struct{})
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				needed := &mcp.Error{Code: -32042, Message: "visit a page"}
				go func() {
					defer close(done)
					_, _ = b.Do(ctx, &call.Request{
						Method: "tools/call", OnProgress: func(call.Progress) {},
						Follow: func(a call.Answer) call.Step {
							if errors.Is(a.Err, needed) { // URL-41
								return asked.step(false)
							}
							return call.Step{}
						},
					})
				}()
				synctest.Wait()
				id := b.Out(1)[0].ID
				b.progress(1, id, 1)
				release := b.Hold(1, id)
				release()
				b.Deliver(1, &mcp.Message{Kind: mcp.KindError, ID: id, Error: needed})
				asked.resume(again)
				synctest.Wait()
				b.progress(1, b.Out(1)[0].ID, 0)
				if tt.name == "cancel" {
					cancel(errLeft)
				} else {
					tt.end(b, nil)
				}
				<-done
				synctest.Wait()
				want := []string{"Started", "begin", "progressReceived", "held", "released", "response", "resumed", "followed", "progressReceived", tt.want}
				var got []string
				for _, l := range tracer.Lines() {
					if l = strings.TrimPrefix(l, "call "); l != "Stopping" {
						got = append(got, l)
					}
				}
				if got = slices.Compact(got); tt.name == "timeout" { // the clock may have rung early
					got = slices.DeleteFunc(got, func(l string) bool { return l == "deadline" })
					got = append(got, "deadline")
				}
				if !slices.Equal(got, want) {
					t.Errorf("got  %v\nwant %v", got, want)
				}
			})
		})
	}
}
