package mcpserver_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// inLegacy runs f in a bubble with a legacy client: one whose first call of greet runs on a goroutine of its own, and one whose
// next call runs where the pipe is read.
func inLegacy(t *testing.T, f func(t *testing.T, s *mcpserver.Server, a *asked, c *counts)) {
	t.Helper()
	for _, v := range mcp.LegacyVersions() {
		if v < mcp.V2025_06_18 {
			continue
		}
		for _, reads := range []bool{false, true} {
			t.Run(fmt.Sprint(v, ", the handler reads ", reads), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, c := newAsking(t, nil)
					a := openAsked(t, s, v, allCapabilities)
					synctest.Wait() // or a tool that f adds is one that was added since initialize
					if reads {
						a.earn(s, "greet", `{}`)
						c.greeted.Store(0)
						c.ran.Store(0)
					}
					f(t, s, a, c)
				})
			})
		}
	}
}

// CANC-13, CANC-03: with the call its question is withdrawn, and nothing is answered.
func TestCancelWhileAsking(t *testing.T) {
	inLegacy(t, func(t *testing.T, _ *mcpserver.Server, a *asked, c *counts) {
		m := readMessage(t, a.peer.ask(a.tool("greet", `{}`, "")))
		if m.Method != mcp.MethodElicit {
			t.Fatalf("got %s, want a question", m.Method)
		}
		a.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, a.next))
		got := a.receive()
		if !strings.Contains(got, mcp.NotificationCancelled) || !strings.Contains(got, `"requestId":`+string(m.ID)) {
			t.Errorf("got %s, want the question withdrawn", got)
		}
		<-c.ended
		a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, accept("Ada"))) // CANC-06
		a.silent()
	})
}

// TIME-04, TIME-05: the time in which a person is asked is not the call's.
func TestSlowPeople(t *testing.T) {
	inLegacy(t, func(t *testing.T, _ *mcpserver.Server, a *asked, c *counts) {
		m := readMessage(t, a.peer.ask(a.tool("greet", `{}`, "")))
		wait(50 * time.Minute)
		a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, accept("Ada")))
		if got := readMessage(t, a.receive()).text(); got != "Hello, Ada!" {
			t.Errorf("after 50 minutes: got %q", got)
		}
		a.send(a.tool("greet", `{}`, ""))
		a.receive()
		wait(time.Hour)
		both := a.receive() + a.receive() // in any order
		if !strings.Contains(both, mcp.NotificationCancelled) || !strings.Contains(both, `"isError":true`) {
			t.Errorf("after an hour: got %s, want the question withdrawn and an error", both)
		}
	})
}

// SECA-13, BASE-15: answers that nobody waits for do nothing.
func TestStrayAnswers(t *testing.T) {
	inLegacy(t, func(t *testing.T, _ *mcpserver.Server, a *asked, c *counts) {
		a.send(`{"jsonrpc":"2.0","id":1,"result":` + accept("Eve") + `}`) // before any question
		m := readMessage(t, a.peer.ask(a.tool("greet", `{}`, "")))
		a.send(`{"jsonrpc":"2.0","id":99,"result":` + accept("Eve") + `}`)
		a.send(`{"jsonrpc":"2.0","id":"` + string(m.ID) + `","result":` + accept("Eve") + `}`)
		a.silent()
		answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, accept("Ada"))
		a.send(answer)
		a.send(strings.Replace(answer, "Ada", "Eve", 1))
		if got := readMessage(t, a.receive()).text(); got != "Hello, Ada!" {
			t.Errorf("got %q", got)
		}
		a.silent()
		if c.greeted.Load() != 1 {
			t.Errorf("greeted %d times", c.greeted.Load())
		}
	})
}

// CAP-05: what was agreed in the handshake holds for all requests of a session, and a
// client that hangs up ends what it is asked.
func TestHangUpWhileAsking(t *testing.T) {
	inLegacy(t, func(t *testing.T, _ *mcpserver.Server, a *asked, c *counts) {
		a.peer.ask(a.tool("greet", `{}`, ""))
		a.peer.in.Close()
		wait(3 * time.Second) // Limits.Grace
		if len(c.ended) != 1 {
			t.Error("the handler has not ended")
		}
	})
}
