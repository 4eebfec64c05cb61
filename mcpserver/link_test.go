package mcpserver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/internal/frame"
	"github.com/troupe-dev/troupe/mcp"
)

// sink collects what a server says in memory.
type sink struct {
	mu     sync.Mutex
	frames []string
	lost   int
}

func (s *sink) Frame(frame []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frames = append(s.frames, string(frame))
}

func (s *sink) Lost(error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost++
}

// take waits until the server is at rest and returns what it has said.
func (s *sink) take() []string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	frames := s.frames
	s.frames = nil
	return frames
}

func TestConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := newServer(t, nil)
		to := new(sink)
		link, err := s.Connect(to)
		if err != nil {
			t.Fatal(err)
		}
		send := func(line string) {
			t.Helper()
			buffer := []byte(line)
			if err := link.Send(mcp.Outgoing{Frame: buffer}); err != nil {
				t.Fatalf("Send: %v", err)
			}
			clear(buffer) // it is the caller's again
		}
		v := mcp.V2026_07_28
		for i := range 100 {
			send(call(v, i, "echo", `{"text":"hi"}`))
		}
		if got := to.take(); len(got) != 100 {
			t.Errorf("got %d answers, want 100", len(got))
		}
		for _, tool := range []string{"hang", "block"} { // neither holds up the sender, nor what comes next
			send(call(v, tool, tool, `{}`))
			<-g.begun
		}
		send(call(v, "next", "echo", `{"text":"hi"}`))
		if got := to.take(); len(got) != 1 || !strings.Contains(got[0], `"next"`) {
			t.Errorf("got %v, want the answer to next", got)
		}
		send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"block"}}`)
		if got := to.take(); len(got) != 0 { // CANC-09
			t.Errorf("after a cancel: got %v", got)
		}
		send("garbage")
		if got := to.take(); len(got) != 1 || !strings.Contains(got[0], fmt.Sprint(mcp.CodeParse)) {
			t.Errorf("after garbage: got %v", got)
		}
		if err := link.Send(mcp.Outgoing{Frame: make([]byte, 5<<20)}); err == nil {
			t.Error("Send of 5 MiB: got no error")
		} else if _, ok := errors.AsType[*frame.TooLongError](err); !ok {
			t.Errorf("Send of 5 MiB: got %v", err)
		}
		link.Close()
		link.Close()
		synctest.Wait()
		if to.lost != 1 {
			t.Errorf("Lost was called %d times, want once", to.lost)
		}
		if err := link.Send(mcp.Outgoing{Frame: []byte("{}")}); err == nil {
			t.Error("Send after Close: got no error")
		}
	})
}

// The requests of a sender are begun in the order in which they were sent, so a
// cancel never overtakes its request.
func TestConnectKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := newServer(t, nil)
		to := new(sink)
		link, err := s.Connect(to)
		if err != nil {
			t.Fatal(err)
		}
		defer link.Close()
		for i := range 50 {
			if err := errors.Join(
				link.Send(mcp.Outgoing{Frame: []byte(call(mcp.V2026_07_28, i, "block", `{}`))}),
				link.Send(mcp.Outgoing{Frame: fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, i)}),
			); err != nil {
				t.Fatal(err)
			}
		}
		if got := to.take(); len(got) != 0 {
			t.Errorf("got answers to cancelled calls: %v", got)
		}
		for len(g.begun) > 0 {
			if ctx := <-g.begun; context.Cause(ctx) == nil {
				t.Error("a cancel was lost")
			}
		}
	})
}

var _ mcp.Sink = (*sink)(nil)
