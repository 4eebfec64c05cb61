package call_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// CANC-05: a call with Late that ends without its answer is not withdrawn; the result
// that still comes is given to Late, once, and an error or another connection's is not.
func TestLate(t *testing.T) {
	tests := map[string]struct {
		gives func(b *bench, id mcp.ID)
		late  int
	}{
		"a result": {func(b *bench, id mcp.ID) { b.result(1, id, `{"a":1}`) }, 1},
		"twice":    {func(b *bench, id mcp.ID) { b.result(1, id, `{"a":1}`); b.result(1, id, `{"a":1}`) }, 1},
		"an error": {func(b *bench, id mcp.ID) {
			b.Deliver(1, &mcp.Message{Kind: mcp.KindError, ID: id, Error: mcp.ErrInternal})
		}, 0},
		"of another":        {func(b *bench, id mcp.ID) { b.result(2, id, `{}`) }, 0},
		"after a reconnect": {func(b *bench, id mcp.ID) { b.Lost(1, errCut); b.connect(2, nil); b.result(2, id, `{}`) }, 0},
		"nothing":           {func(*bench, mcp.ID) {}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTable(t, nil)
				w := b.connect(1, nil)
				var late atomic.Int32
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := b.Do(ctx, &call.Request{Method: "tools/call", Late: func(r call.Result) {
					if string(r.Raw) != `{"a":1}` {
						t.Errorf("Late: got %s", r.Raw)
					}
					late.Add(1)
				}})
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Do: got %v", err)
				}
				synctest.Wait()
				if got := w.methods(); !slices.Equal(got, []string{"tools/call"}) {
					t.Errorf("the peer heard %v, want the request alone", got)
				}
				tt.gives(b, w.all()[0].ID)
				synctest.Wait()
				if n := int(late.Load()); n != tt.late {
					t.Errorf("Late was called %d times, want %d", n, tt.late)
				}
			})
		})
	}
}

// A result that overtakes the cancel of its call is not lost either.
func TestLateRace(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			b := newTable(t, nil)
			w := b.connect(1, nil)
			var late, got atomic.Int32
			c := b.Start(&call.Request{Method: "tools/call", Late: func(call.Result) { late.Add(1) }}, nil)
			synctest.Wait()
			id := w.all()[0].ID
			go c.Cancel(nil)
			go b.result(1, id, `{}`)
			if _, err := c.Wait(t.Context()); err == nil {
				got.Add(1)
			}
			synctest.Wait()
			if n := late.Load() + got.Load(); n != 1 {
				t.Errorf("the result was seen %d times, want once", n)
			}
		})
	}
}

// A call with Late whose request was never written leaves nothing to wait for.
func TestLateUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := b.Do(ctx, &call.Request{Method: "tools/call", Late: func(call.Result) { t.Error("Late was called") }})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Do: got %v", err)
		}
		if w := b.connect(1, nil); len(w.all()) != 0 {
			t.Errorf("the peer heard %v", w.methods())
		}
	})
}

// PROG-06: with Token the progress token of an attempt stays valid while the call
// waits for what came of it, and no longer.
func TestToken(t *testing.T) {
	for _, keeps := range []bool{true, false} {
		t.Run(fmt.Sprint(keeps), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTable(t, nil)
				var token mcp.ID
				b.connect(1, func(_ *wire, s sent) {
					token = s.Params.Meta.ProgressToken()
					go b.result(1, s.ID, `{}`)
				})
				var seen []float64
				_, err := b.Do(t.Context(), &call.Request{
					Method: "tools/call", OnProgress: func(p call.Progress) { seen = append(seen, p.Progress) },
					Follow: func(call.Answer) call.Step {
						return call.Step{Token: keeps, Wait: func(resume func(call.Step)) func(error) {
							go func() {
								for i := range 3 {
									time.Sleep(time.Hour)
									b.progress(1, token, float64(i))
								}
								b.progress(1, token, 1) // does not increase (PROG-08)
								resume(call.Step{})
							}()
							return nil
						}}
					},
				})
				want := "[]"
				if keeps {
					want = "[0 1 2]"
				}
				if err != nil || fmt.Sprint(seen) != want {
					t.Errorf("got progress %v, %v, want %s", seen, err, want)
				}
				before := b.Stats().DroppedProgress
				b.progress(1, token, 9)
				if n := b.Stats().DroppedProgress - before; n != 1 {
					t.Errorf("%d reports after the end were dropped, want 1", n)
				}
			})
		})
	}
}

// TIME-03, TIME-05: an answer tells what is left of the call's maximum, without the
// time in which it stood still.
func TestLeft(t *testing.T) {
	for most, want := range map[time.Duration]time.Duration{time.Minute: 50 * time.Second, -1: 0} {
		synctest.Test(t, func(t *testing.T) {
			b := newTable(t, nil)
			b.connect(1, func(_ *wire, s sent) {
				go func() {
					time.Sleep(10 * time.Second)
					release := b.Hold(1, s.ID)
					time.Sleep(time.Hour)
					release()
					b.result(1, s.ID, `{}`)
				}()
			})
			var left time.Duration
			_, err := b.Do(t.Context(), &call.Request{Method: "tools/call", Idle: -1, Max: most, Follow: func(a call.Answer) call.Step {
				left = a.Left
				return call.Step{}
			}})
			if err != nil || left != want {
				t.Errorf("maximum %v: got %v left, %v, want %v", most, left, err, want)
			}
		})
	}
}
