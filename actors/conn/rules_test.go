package conn_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
)

// ROB-3: what a peer says before anybody listens is kept within a bound.
func TestEarlyMessagesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := strings.Repeat("x", 1<<20)
		received := 0
		p := new(peer)
		k := conn.New(newSystem(t), conn.Options{
			Name: "loud",
			Dial: func(ctx context.Context, gen uint64, sink mcp.Sink) (mcp.Link, error) {
				for range 60 {
					sink.Frame(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%q}}`, text))
				}
				return p.Dial(ctx, gen, sink)
			},
			Negotiate: p.Negotiate,
			Received:  func(_ *conn.Session, m *mcp.Message, _ mcp.ID) { received += len(m.Params) },
		})
		if err := k.Start(); err != nil {
			t.Fatal(err)
		}
		if err := k.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if received == 0 || received > 8<<20 {
			t.Errorf("kept %d bytes, want some, and 8 MiB at most", received)
		}
		if err := k.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// ROB-8: a fresh transport is had at once on the first failure only; later ones
// have their delay.
func TestRedialHasDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{negotiate: func(context.Context, *conn.Session) error { return conn.Redial(errRefused) }}
		connect(t, p, conn.Options{})
		time.Sleep(3 * time.Second)
		p.mu.Lock()
		defer p.mu.Unlock()
		if n := len(p.dials); n < 5 || n >= 10 {
			t.Errorf("%d dials in 3 s, want fewer than 10", n)
		}
		for i := 4; i < len(p.dials); i++ { // the first and three at once
			if p.dials[i] == p.dials[i-1] {
				t.Errorf("dial %d came without a delay", i)
			}
		}
	})
}

// The first transport may be lost before Start has returned, and the first attempt
// be over: StartConnect still tells of that one, and of no second.
func TestFirstAttemptIsQuick(t *testing.T) {
	tests := []struct {
		name  string
		fails func(sink mcp.Sink) error // of the dial
	}{
		{"refused for good", func(mcp.Sink) error { return conn.Permanent(errRefused) }},
		{"refused", func(mcp.Sink) error { return errRefused }},
		{"lost", func(sink mcp.Sink) error { sink.Lost(errRefused); return nil }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for range 15 { // it is a race
				synctest.Test(t, func(t *testing.T) {
					p, dials := new(peer), 0
					k := conn.New(newSystem(t), conn.Options{
						Name: "quick",
						Dial: func(ctx context.Context, gen uint64, sink mcp.Sink) (mcp.Link, error) {
							dials++
							if err := tt.fails(sink); err != nil {
								return nil, err
							}
							return p.Dial(ctx, gen, sink)
						},
						Negotiate: func(ctx context.Context, _ *conn.Session) error { <-ctx.Done(); return context.Cause(ctx) },
					})
					start := time.Now()
					if err := k.StartConnect(t.Context()); !errors.Is(err, errRefused) || dials != 1 || time.Since(start) != 0 {
						t.Errorf("StartConnect: got %v after %v and %d dials, want %v at once", err, time.Since(start), dials, errRefused)
					}
					if err := k.Close(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}
