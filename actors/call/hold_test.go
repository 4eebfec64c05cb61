package call_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// The limits of a call with several attempts: the maximum is that of all of them
// without the time in which the clocks stand still (TIME-05), the limit without
// progress is each attempt's (MRTR-16).
func TestLimitsOverAttempts(t *testing.T) {
	const idle, most = 10 * time.Second, 25 * time.Second
	tests := []struct {
		name  string
		play  func(b *bench, ids <-chan mcp.ID, w *asking, sleep func(time.Duration))
		steps func(w *asking) []call.Step
		after time.Duration
		idle  bool
	}{
		{
			name: "idle of the second attempt", after: 9*time.Second + idle, idle: true,
			steps: func(*asking) []call.Step { return []call.Step{again} },
			play: func(b *bench, ids <-chan mcp.ID, _ *asking, sleep func(time.Duration)) {
				id := <-ids
				sleep(9 * time.Second)
				b.result(1, id, `{}`)
			},
		}, {
			name: "maximum over three attempts", after: most,
			steps: func(*asking) []call.Step { return []call.Step{again, again} },
			play: func(b *bench, ids <-chan mcp.ID, _ *asking, sleep func(time.Duration)) {
				for range 2 {
					id := <-ids
					sleep(9 * time.Second)
					b.result(1, id, `{}`)
				}
			},
		}, {
			name: "a wait is not counted", after: time.Hour + 2*time.Second + idle, idle: true,
			steps: func(w *asking) []call.Step { return []call.Step{w.step(false)} },
			play: func(b *bench, ids <-chan mcp.ID, w *asking, sleep func(time.Duration)) {
				sleep(2 * time.Second)
				b.result(1, <-ids, `{}`)
				sleep(time.Hour)
				w.resume(again)
			},
		}, {
			name: "what was used before the wait is", after: time.Hour + most,
			steps: func(w *asking) []call.Step { return []call.Step{w.step(false), again, again} },
			play: func(b *bench, ids <-chan mcp.ID, w *asking, sleep func(time.Duration)) {
				sleep(9 * time.Second)
				b.result(1, <-ids, `{}`)
				sleep(time.Hour)
				w.resume(again)
				id := <-ids
				sleep(8 * time.Second)
				b.result(1, id, `{}`)
			},
		}, {
			name: "a wait with clocks", after: most,
			steps: func(w *asking) []call.Step { return []call.Step{w.step(true)} },
			play: func(b *bench, ids <-chan mcp.ID, _ *asking, _ func(time.Duration)) {
				b.result(1, <-ids, `{}`)
			},
		}, {
			name: "a pause counts", after: most,
			steps: func(*asking) []call.Step { return []call.Step{{Retry: &call.Retry{After: time.Hour}}} },
			play: func(b *bench, ids <-chan mcp.ID, _ *asking, _ func(time.Duration)) {
				b.result(1, <-ids, `{}`)
			},
		}, {
			name: "held", after: time.Minute + idle, idle: true,
			steps: func(*asking) []call.Step { return nil },
			play: func(b *bench, ids <-chan mcp.ID, _ *asking, sleep func(time.Duration)) {
				sleep(time.Second)
				release := b.Hold(1, <-ids)
				sleep(time.Minute)
				release()
				release()
			},
		}, {
			name: "held twice", after: time.Minute + idle, idle: true,
			steps: func(*asking) []call.Step { return nil },
			play: func(b *bench, ids <-chan mcp.ID, _ *asking, sleep func(time.Duration)) {
				first, second := b.Hold(1, <-ids), b.Hold(1, mcp.ID{})
				sleep(20 * time.Second)
				first()
				sleep(40 * time.Second)
				second()
			},
		}, {
			name: "held through a retry", after: time.Minute + 5*time.Second + idle, idle: true,
			steps: func(*asking) []call.Step { return []call.Step{again} },
			play: func(b *bench, ids <-chan mcp.ID, _ *asking, sleep func(time.Duration)) {
				sleep(5 * time.Second)
				id := <-ids
				release := b.Hold(1, id)
				sleep(30 * time.Second)
				b.result(1, id, `{}`)
				sleep(30 * time.Second)
				release()
			},
		}, {
			name: "holds that mean others", after: idle, idle: true,
			steps: func(*asking) []call.Step { return nil },
			play: func(b *bench, ids <-chan mcp.ID, _ *asking, _ func(time.Duration)) {
				id := <-ids
				b.Hold(1, mcp.IntID(99))
				b.Hold(1, mcp.StringID(id.String()))
				b.Hold(2, mcp.ID{})
				b.Hold(2, id)
				b.Hold(1, mcp.ID{})() // released at once
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTable(t, nil)
				ids := make(chan mcp.ID, 10)
				b.connect(1, func(_ *wire, s sent) { ids <- s.ID })
				w := &asking{}
				go tt.play(b, ids, w, time.Sleep)
				start := time.Now()
				_, err := b.Do(t.Context(), &call.Request{Method: "tools/call", Idle: idle, Max: most, Follow: follower(tt.steps(w)...)})
				var timeout *call.TimeoutError
				if !errors.As(err, &timeout) || timeout.Idle != tt.idle || time.Since(start) != tt.after {
					t.Errorf("Do: got %v after %v, want a timeout (idle %v) after %v", err, time.Since(start), tt.idle, tt.after)
				}
			})
		})
	}
}

// A hold of all calls is also one of those that are sent while it is open, and of
// no others.
func TestHoldAll(t *testing.T) { // TIME-05
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, nil)
		b.connect(1, nil)
		start := time.Now()
		took := map[string]time.Duration{}
		var replies [3]*call.Call
		begin := func(i int) {
			replies[i] = b.Start(&call.Request{Method: "tools/call", Idle: 10 * time.Second, Tag: i}, nil)
			synctest.Wait()
		}
		begin(0)
		release := b.Hold(1, mcp.ID{})
		begin(1)
		time.Sleep(time.Minute)
		if out := b.Out(1); len(out) != 2 || out[0].Tag != 0 || out[1].Tag != 1 || out[0].Method != "tools/call" || out[0].ID == out[1].ID {
			t.Errorf("Out: got %+v, want calls 0 and 1", out)
		}
		if out := b.Out(2); out != nil {
			t.Errorf("Out of another generation: got %+v", out)
		}
		release()
		begin(2)
		for i := range replies {
			<-replies[i].Done()
			took[fmt.Sprint(i)] = time.Since(start)
		}
		for i, want := range []time.Duration{70 * time.Second, 70 * time.Second, 70 * time.Second} {
			if got := took[fmt.Sprint(i)]; got != want {
				t.Errorf("call %d took %v, want %v", i, got, want)
			}
		}
	})
}

// Holds of all calls end in any order: a call that is sent under the last of them is held by it alone.
func TestHoldsOfAllEndInAnyOrder(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		synctest.Test(t, func(t *testing.T) {
			b := newTable(t, nil)
			b.connect(1, nil)
			var releases []func()
			for range order {
				releases = append(releases, b.Hold(1, mcp.ID{}))
			}
			releases[order[0]]()
			releases[order[1]]()
			start := time.Now()
			c := b.Start(&call.Request{Method: "tools/call", Idle: 10 * time.Second}, nil)
			time.Sleep(time.Minute)
			releases[order[2]]()
			<-c.Done()
			if took := time.Since(start); took != 70*time.Second {
				t.Errorf("released as %v: the call took %v, want 70 s", order, took)
			}
		})
	}
}

// ender notes what it is told of the end of its call, and whether the call was out then.
type ender struct {
	out func() []call.OutCall
	was []error
	saw int
}

// Ends is called when the call of the tag fails.
func (e *ender) Ends(err error) {
	e.was = append(e.was, err)
	e.saw += len(e.out())
}

// The tag of a call that fails is told while others still see the call, once, and not of a
// result.
func TestEnder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, nil)
		b.connect(1, nil)
		out := func() []call.OutCall { return b.Out(1) }
		for name, end := range map[string]func(c *call.Call){
			"cancelled": func(c *call.Call) { c.Cancel(errGone) },
			"timed out": func(*call.Call) { time.Sleep(time.Minute) },
			"answered":  func(*call.Call) { b.result(1, b.Out(1)[0].ID, `{}`) },
		} {
			tag := &ender{out: out}
			c := b.Start(&call.Request{Method: "tools/call", Idle: 10 * time.Second, Tag: tag}, nil)
			synctest.Wait()
			end(c)
			_, err := c.Wait(t.Context())
			if told := len(tag.was) == 1 && tag.saw == 1 && tag.was[0] == err; told == (err == nil) || err == nil && len(tag.was) != 0 {
				t.Errorf("%s: told of %v with %d calls out, the outcome is %v", name, tag.was, tag.saw, err)
			}
		}
	})
}
