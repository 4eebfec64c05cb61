package mcpclient

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
)

// PING-02: a server that does not answer pings is given up and started again, one that
// answers is not, and nobody is pinged unless it was asked for.
func TestPingEvery(t *testing.T) {
	tests := []struct {
		name      string
		every     time.Duration
		answers   bool
		min, max  int32 // pings within a minute
		cancelled bool  // those that were given up were cancelled (TIME-02)
		starts    int32 // at least
	}{
		{name: "off by default", answers: true, starts: 1},
		{name: "answered", every: 10 * time.Second, answers: true, min: 5, max: 6, starts: 1},
		{name: "often", every: time.Second, answers: true, min: 55, max: 60, starts: 1},
		{name: "dead", every: 10 * time.Second, min: 2, max: 6, cancelled: true, starts: 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var starts, pings, cancels atomic.Int32
				opts := by(t, func(p *fakeProcess) string {
					starts.Add(1)
					return serving(func(_ *fakeProcess, m *mcp.Message) string {
						switch m.Method {
						case mcp.NotificationCancelled:
							cancels.Add(1)
						case mcp.MethodPing:
							pings.Add(1)
							if tt.answers {
								return resultOf(m, "{}")
							}
						}
						return ""
					})(p)
				})
				opts.PingEvery = tt.every
				var failed atomic.Bool
				opts.OnState = func(s Status) {
					if errors.Is(s.Err, conn.ErrNoPing) {
						failed.Store(true)
					}
				}
				c, err := Dial(t.Context(), Command("x"), opts)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if n := pings.Load(); n < tt.min || n > tt.max {
					t.Errorf("%d pings, want %d to %d", n, tt.min, tt.max)
				}
				if n := starts.Load(); n < tt.starts || tt.starts == 1 && n > 1 {
					t.Errorf("%d starts, want %d", n, tt.starts)
				}
				if gone := failed.Load(); gone != (tt.starts > 1) {
					t.Errorf("given up for its pings: %v, want %v", gone, tt.starts > 1)
				}
				if got := cancels.Load() > 0; got != tt.cancelled {
					t.Errorf("a ping was cancelled: %v, want %v", got, tt.cancelled)
				}
				closeIn(t, c, time.Minute)
			})
		})
	}
}

// PING-03: a server of 2026-07-28 is not pinged.
func TestPingEveryModern(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var others atomic.Int32
		opts := by(t, func(p *fakeProcess) string {
			for {
				line, ok := p.read()
				if !ok {
					return "exit status 0"
				}
				var m mcp.Message
				if mcp.Scan([]byte(line), &m) == nil && m.Method == mcp.MethodDiscover {
					p.say(resultOf(&m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"public"}`))
					continue
				}
				others.Add(1)
			}
		})
		opts.PingEvery = time.Second
		c, err := Dial(t.Context(), Command("x"), opts)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := others.Load(); n != 0 {
			t.Errorf("the server got %d messages, want none", n)
		}
		closeIn(t, c, time.Minute)
	})
}
