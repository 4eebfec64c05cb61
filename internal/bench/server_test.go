package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/pause"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

type echoIn struct {
	Message string `json:"message"`
}

// serve returns a server in this process whose tool echo does what f says.
func serve(t *testing.T, f func(ctx context.Context) error) mcpclient.Server {
	t.Helper()
	s, err := mcpserver.New(mcp.Implementation{Name: "test", Version: "1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		time.Sleep(time.Second) // virtual
	})
	err = mcpserver.AddTool(s, &mcp.Tool{Name: "echo"}, func(ctx context.Context, _ *mcpserver.ToolRequest, in echoIn) (string, error) {
		return in.Message, f(ctx)
	})
	if err != nil {
		t.Fatal(err)
	}
	return mcpclient.InProcess("test", s)
}

// sleep takes that long for a call, virtually; one at a time if serial.
//
// It is made in the bubble of its test: a channel from outside would hold up the clock.
func sleep(d time.Duration, serial bool) func() func(context.Context) error {
	return func() func(context.Context) error {
		turn := make(chan struct{}, 1)
		return func(ctx context.Context) error {
			if serial {
				turn <- struct{}{}
				defer func() { <-turn }()
			}
			return pause.For(ctx, d)
		}
	}
}

func fails() func(context.Context) error {
	return func(context.Context) error { return errors.New("no") }
}

func kinds(rep *Report) []string {
	out := []string{}
	for _, v := range rep.Verdicts {
		out = append(out, v.Kind)
	}
	return out
}

// TestServer: what the loops measure is exact where time is.
func TestServer(t *testing.T) {
	tests := []struct {
		name          string
		does          func() func(context.Context) error
		opts          Options
		calls, failed int64
		unsent        int64
		p50           time.Duration // 0: not looked at
		kinds         []string
	}{
		{"quick", sleep(0, false), Options{Count: 100, WarmUp: -1}, 100, 0, 0, 0, []string{}},
		{"closed, slow", sleep(100*time.Millisecond, false), Options{Duration: time.Second, InFlight: 4, Sessions: 2}, 40, 0, 0, 100 * time.Millisecond, []string{VerdictSlow}},
		{"closed, one at a time", sleep(100*time.Millisecond, true), Options{Duration: 4 * time.Second, InFlight: 8, WarmUp: -1}, 47, 0, 0, 800 * time.Millisecond, []string{VerdictSlow, VerdictQueueing}},
		{"open, in time", sleep(100*time.Millisecond, false), Options{Duration: time.Second, Rate: 20}, 20, 0, 0, 100 * time.Millisecond, []string{VerdictSlow}},
		// Ten a second are due and five are made: those that wait in line count from when they were due.
		{"open, too much", sleep(200*time.Millisecond, true), Options{Duration: 9950 * time.Millisecond, Rate: 10, InFlight: 1, WarmUp: -1}, 50, 0, 49, 2600 * time.Millisecond, []string{VerdictSlow, VerdictOverload}},
		{"by count", sleep(100*time.Millisecond, false), Options{Count: 7, InFlight: 2, WarmUp: -1}, 7, 0, 0, 100 * time.Millisecond, []string{VerdictSlow}},
		{"hangs", sleep(time.Hour, false), Options{Duration: time.Second, InFlight: 3, Timeout: 2 * time.Second, WarmUp: -1}, 0, 3, 0, 0, []string{VerdictFailing}},
		{"fails", fails, Options{Count: 5, WarmUp: -1}, 0, 5, 0, 0, []string{VerdictFailing}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rep, err := Server(t.Context(), serve(t, tt.does()), &tt.opts)
				if err != nil {
					t.Fatal(err)
				}
				if rep.Calls != tt.calls || rep.Failed != tt.failed || rep.Unsent != tt.unsent {
					t.Errorf("calls: got %d, %d failed, %d unsent, want %d, %d, %d; %+v", rep.Calls, rep.Failed, rep.Unsent, tt.calls, tt.failed, tt.unsent, rep.Failures)
				}
				if got := rep.Latency.P50; tt.p50 > 0 && (got < 0.99*1000*millis(tt.p50) || got > 1.01*1000*millis(tt.p50)) {
					t.Errorf("p50: got %v, want %v", got, 1000*millis(tt.p50))
				}
				if got := kinds(rep); !slices.Equal(got, tt.kinds) {
					t.Errorf("verdicts: got %v, want %v: %+v", got, tt.kinds, rep.Verdicts)
				}
				time.Sleep(time.Minute) // virtual: what is asleep in the bubble ends
			})
		})
	}
}

// TestCut: what was measured until the interruption is reported.
func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3500*time.Millisecond, cancel)
		rep, err := Server(ctx, serve(t, sleep(100*time.Millisecond, false)()), &Options{Duration: time.Hour, WarmUp: -1})
		if err != nil || !rep.Cut || rep.Calls < 20 {
			t.Errorf("Server: got %+v, %v, want some calls, and that it was cut short", rep, err)
		}
		time.Sleep(time.Minute) // virtual
	})
}

func TestKinds(t *testing.T) {
	tests := []struct {
		err  error
		want string
	}{
		{nil, ""},
		{fmt.Errorf("%w: no", errTool), FailTool},
		{context.DeadlineExceeded, FailTimeout},
		{&mcp.Error{Code: -32603}, FailProtocol},
		{&mcpclient.ServerError{Err: errors.New("it is not there")}, FailConnection},
	}
	for _, tt := range tests {
		if got := kindOf(t.Context(), tt.err); got != tt.want {
			t.Errorf("kindOf(%v): got %q, want %q", tt.err, got, tt.want)
		}
	}
}

func TestUnknownTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := Server(t.Context(), serve(t, sleep(0, false)()), &Options{Tool: "nonsense"})
		if err == nil {
			t.Error("Server: got no error for a tool that there is not")
		}
		time.Sleep(time.Minute) // virtual
	})
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{Sessions: -1}, {InFlight: -1}, {Payload: -1}, {Rate: -1}, {Rate: 1e9}, {Duration: 48 * time.Hour}, {Count: -1}} {
		if _, err := Server(t.Context(), mcpclient.Server{}, &o); err == nil {
			t.Errorf("Server(%+v): got no error", o)
		}
	}
}

// TestGate: a caller waits while it is shut.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		g.shut()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if err := g.pass(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if got := g.waiting(); got != 3 {
			t.Errorf("waiting: got %d, want 3", got)
		}
		g.open()
		all.Wait()
	})
}
