package actors_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// timed is an actor that notes when it receives a text, in milliseconds.
type timed struct {
	began time.Time
	got   []string
}

func (r *timed) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case string:
		r.got = append(r.got, fmt.Sprintf("%s@%d", m, time.Since(r.began).Milliseconds()))
	case do:
		m(c)
	case blow:
		panic("blown")
	}
}

func TestTimer(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name string
		f    func(t *testing.T, ref actors.Ref)
		want []string
	}{
		{"once", func(t *testing.T, ref actors.Ref) {
			run(t, ref, func(c *actors.Context) { c.NewTimer("a").Set(30 * ms) })
		}, []string{"a@30"}},
		{"at once", func(t *testing.T, ref actors.Ref) {
			run(t, ref, func(c *actors.Context) { c.NewTimer("a").Set(-time.Second) })
		}, []string{"a@0"}},
		{"later and later, as progress does", func(t *testing.T, ref actors.Ref) {
			var timer *actors.Timer
			run(t, ref, func(c *actors.Context) { timer = c.NewTimer("idle") })
			for range 20 {
				run(t, ref, func(*actors.Context) { timer.Set(100 * ms) })
				time.Sleep(7 * ms)
			}
		}, []string{"idle@233"}},
		{"earlier", func(t *testing.T, ref actors.Ref) {
			run(t, ref, func(c *actors.Context) {
				timer := c.NewTimer("a")
				timer.Set(100 * ms)
				timer.Set(10 * ms)
			})
		}, []string{"a@10"}},
		{"again after it was due", func(t *testing.T, ref actors.Ref) {
			var timer *actors.Timer
			run(t, ref, func(c *actors.Context) { timer = c.NewTimer("a"); timer.Set(10 * ms) })
			time.Sleep(50 * ms)
			run(t, ref, func(*actors.Context) { timer.Set(10 * ms) })
		}, []string{"a@10", "a@60"}},
		{"cleared", func(t *testing.T, ref actors.Ref) {
			var timer *actors.Timer
			run(t, ref, func(c *actors.Context) { timer = c.NewTimer("a"); timer.Set(10 * ms) })
			time.Sleep(9 * ms)
			run(t, ref, func(*actors.Context) { timer.Clear() })
		}, nil},
		{"cleared while its ring waits in the mailbox", func(t *testing.T, ref actors.Ref) {
			run(t, ref, func(c *actors.Context) {
				timer := c.NewTimer("a")
				timer.Set(10 * ms)
				time.Sleep(20 * ms) // an actor that is slow
				timer.Clear()
			})
		}, nil},
		{"set to later while its ring waits in the mailbox", func(t *testing.T, ref actors.Ref) {
			run(t, ref, func(c *actors.Context) {
				timer := c.NewTimer("a")
				timer.Set(10 * ms)
				time.Sleep(20 * ms)
				timer.Set(30 * ms)
			})
		}, []string{"a@50"}},
		{"set to earlier while its ring waits in the mailbox", func(t *testing.T, ref actors.Ref) {
			run(t, ref, func(c *actors.Context) {
				timer := c.NewTimer("a")
				timer.Set(10 * ms)
				time.Sleep(20 * ms)
				timer.SetAt(time.Now().Add(-15 * ms))
			})
			time.Sleep(time.Second)
		}, []string{"a@20"}},
		{"ended", func(t *testing.T, ref actors.Ref) {
			var timer *actors.Timer
			run(t, ref, func(c *actors.Context) {
				timer = c.NewTimer("a")
				timer.End() // and this does nothing
				c.After(10*ms, "b")
				timer.Set(10 * ms)
				c.After(10*ms, "c")
			})
			run(t, ref, func(*actors.Context) { timer.End(); timer.End() })
		}, []string{"b@10", "c@10"}},
		{"ended and set while its ring waits in the mailbox", func(t *testing.T, ref actors.Ref) {
			run(t, ref, func(c *actors.Context) {
				timer := c.NewTimer("a")
				timer.Set(10 * ms)
				time.Sleep(20 * ms)
				timer.End()
				timer.Set(30 * ms)
			})
		}, []string{"a@50"}},
		{"ended while its ring waits in the mailbox", func(t *testing.T, ref actors.Ref) {
			run(t, ref, func(c *actors.Context) {
				timer := c.NewTimer("a")
				timer.Set(10 * ms)
				time.Sleep(20 * ms)
				timer.End()
			})
		}, nil},
		{"cleared and set", func(t *testing.T, ref actors.Ref) {
			run(t, ref, func(c *actors.Context) {
				timer := c.NewTimer("a")
				timer.Set(10 * ms)
				timer.Clear()
				timer.Set(15 * ms)
			})
		}, []string{"a@15"}},
		{"without a monotonic clock", func(t *testing.T, ref actors.Ref) {
			run(t, ref, func(c *actors.Context) { c.NewTimer("a").SetAt(time.Now().Add(40 * ms).Round(0)) })
		}, []string{"a@40"}},
		{"never", func(t *testing.T, ref actors.Ref) {
			run(t, ref, func(c *actors.Context) {
				c.NewTimer("a").Set(math.MaxInt64)
				c.NewTimer("b").SetAt(time.Now().AddDate(400, 0, 0).Round(0))
			})
		}, nil},
		{"After, many at once and again", func(t *testing.T, ref actors.Ref) {
			for range 2 {
				run(t, ref, func(c *actors.Context) {
					c.After(20*ms, "b")
					c.After(10*ms, "a")
				})
				time.Sleep(50 * ms)
			}
		}, []string{"a@10", "b@20", "a@60", "b@70"}},
		{"not after a restart", func(t *testing.T, ref actors.Ref) {
			run(t, ref, func(c *actors.Context) {
				c.NewTimer("old").Set(500 * ms)
				c.After(500*ms, "older")
			})
			ref.Send(blow{})
			time.Sleep(200 * ms) // restarted at 100
			run(t, ref, func(c *actors.Context) { c.NewTimer("new").Set(500 * ms) })
		}, []string{"new@700"}},
		{"not after a restart, though its ring was in the mailbox", func(t *testing.T, ref actors.Ref) {
			run(t, ref, func(c *actors.Context) { c.NewTimer("old").Set(50 * ms) })
			ref.Send(blow{}) // suspended until 100
		}, nil},
		{"not after a stop", func(t *testing.T, ref actors.Ref) {
			var ctx *actors.Context
			var timer *actors.Timer
			run(t, ref, func(c *actors.Context) {
				ctx, timer = c, c.NewTimer("old")
				timer.Set(50 * ms)
			})
			ref.Stop()
			<-ref.Stopped()
			timer.Set(10 * ms) // as in a Stopping that goes on
			ctx.After(10*ms, "older")
		}, nil},
	}
	for _, inline := range []bool{false, true} {
		for _, tt := range tests {
			t.Run(tt.name+" "+mailboxName(inline), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sys := start(t, nil)
					state := &timed{began: time.Now()}
					ref := spawn(t, sys, actors.Spec{Kind: actors.KindClient, Inline: inline, New: func() actors.Actor { return state }})
					tt.f(t, ref)
					time.Sleep(time.Hour)
					synctest.Wait()
					if !slices.Equal(state.got, tt.want) {
						t.Errorf("got %v, want %v", state.got, tt.want)
					}
					if got := sys.Census().Dropped; got != 0 {
						t.Errorf("%d rings were sent to nobody", got)
					}
				})
			})
		}
	}
}

// TestTimersOfMany: the timers of all actors ring at their time, whatever the order in
// which they are set, set again and ended.
func TestTimersOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := start(t, nil)
		rnd := rand.New(rand.NewPCG(1, 2))
		var all []*timed
		var want [][]string
		for i := range 200 {
			state := &timed{began: time.Now()}
			ref := spawn(t, sys, actors.Spec{Kind: actors.KindCall, Inline: i%2 == 0, New: func() actors.Actor { return state }})
			at := rnd.IntN(1000)
			run(t, ref, func(c *actors.Context) {
				timer := c.NewTimer("due")
				timer.Set(time.Duration(rnd.IntN(1000)) * time.Millisecond)
				timer.Set(time.Duration(at) * time.Millisecond)
			})
			all, want = append(all, state), append(want, []string{fmt.Sprintf("due@%d", at)})
			if i%3 == 0 {
				ref.Stop()
				<-ref.Stopped()
				want[i] = nil
			}
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		for i, state := range all {
			if !slices.Equal(state.got, want[i]) {
				t.Errorf("actor %d: got %v, want %v", i, state.got, want[i])
			}
		}
	})
}

// TestTimerHoldsUpNoOther: an inline actor that does not return from what its timer sent
// it, or ends its goroutine there, delays no other's.
func TestTimerHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := start(t, nil)
		hung, state := make(chan struct{}), &timed{began: time.Now()}
		for _, msg := range []do{func(*actors.Context) { <-hung }, func(*actors.Context) { runtime.Goexit() }} {
			ref := spawn(t, sys, actors.Spec{Kind: actors.KindCall, Inline: true, New: func() actors.Actor { return new(timed) }})
			run(t, ref, func(c *actors.Context) { c.After(time.Millisecond, msg) })
		}
		ref := spawn(t, sys, actors.Spec{Kind: actors.KindCall, Inline: true, New: func() actors.Actor { return state }})
		run(t, ref, func(c *actors.Context) {
			c.After(time.Millisecond, "together")
			c.After(2*time.Millisecond, "later")
		})
		time.Sleep(time.Second)
		synctest.Wait()
		close(hung)
		if want := []string{"together@1", "later@2"}; !slices.Equal(state.got, want) {
			t.Errorf("got %v, want %v", state.got, want)
		}
	})
}

// TestTimerAllocations: to push a deadline out costs nothing, and After uses its
// timers again.
func TestTimerAllocations(t *testing.T) {
	sys := start(t, nil)
	ref := spawn(t, sys, actors.Spec{Kind: actors.KindHost, New: newAdder})
	run(t, ref, func(c *actors.Context) {
		timer := c.NewTimer("late")
		due := time.Now().Add(time.Hour)
		timer.SetAt(due)
		if n := testing.AllocsPerRun(1000, func() { due = due.Add(time.Second); timer.SetAt(due) }); n != 0 {
			t.Errorf("SetAt: got %v allocations, want 0", n)
		}
	})
}
