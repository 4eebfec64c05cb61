package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/sampling"
)

// manyCalls is an answer with n calls.
func manyCalls(n int, id func(int) string, name, input string) string {
	var b strings.Builder
	b.WriteString(`{"role":"assistant","model":"m","stopReason":"toolUse","content":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"type":"tool_use","id":%q,"name":%s,"input":%s}`, id(i), name, input)
	}
	b.WriteString(`]}`)
	return b.String()
}

// SECA-43: whatever a client's model asks for, a loop calls no more tools than it may, each
// call has one result, and the loop ends.
func TestLoopOfHostileModel(t *testing.T) {
	counted := func(i int) string { return "c" + strconv.Itoa(i) }
	same := func(int) string { return "c" }
	many := fewer(10_000)
	clash := func(i int) string {
		if i < many {
			return "x_" + strconv.Itoa(many+i)
		}
		return "x"
	}
	for name, answer := range map[string]string{
		"many calls":               manyCalls(many, counted, `"ok"`, `{}`),
		"many calls of one id":     manyCalls(many, same, `"ok"`, `{}`),
		"many calls that clash":    manyCalls(2*many, clash, `"ok"`, `{}`),
		"many unknown tools":       manyCalls(many, counted, `"\u001b[31mnone"`, `{}`),
		"a tool's name of 1 MB":    manyCalls(2, counted, `"`+strings.Repeat("n", fewer(1<<20))+`"`, `{}`),
		"an id of 1 MB":            manyCalls(2, func(i int) string { return strconv.Itoa(i) + strings.Repeat("i", fewer(1<<20)) }, `"ok"`, `{}`),
		"arguments of 3 MB":        manyCalls(1, counted, `"ok"`, `{"place":"`+strings.Repeat("x", fewer(3<<20))+`"}`),
		"arguments that are deep":  manyCalls(1, counted, `"ok"`, strings.Repeat(`{"a":`, 40)+`1`+strings.Repeat(`}`, 40)),
		"arguments that are wrong": manyCalls(3, counted, `"ok"`, `{"place":{"place":[1]}}`),
	} {
		t.Run(name, func(t *testing.T) {
			eachLoop(t, mcp.V2025_11_25, mcpserver.Options{}, withTools, func(t *testing.T, s *mcpserver.Server, a *asked) {
				var ran atomic.Int64
				p := addLoop(t, s, []*sampling.Tool{sampling.Func(&mcp.Tool{Name: "ok", InputSchema: json.RawMessage(`{"type":"object"}`)},
					func(_ context.Context, in json.RawMessage) (string, error) { ran.Add(1); return "done", nil })}, nil)
				asked := 0
				text := a.call("plan", `{}`, func(_ string, raw json.RawMessage) string {
					q := new(mcp.CreateMessageParams)
					if err := mcp.Unmarshal(raw, q); err != nil {
						t.Fatal(err)
					}
					if err := q.CheckToolBalance(); err != nil {
						t.Errorf("question %d: %v", asked, err)
					}
					if asked++; asked == 1 {
						return answer
					}
					return tripAnswer
				})
				if n := ran.Load(); n > 64 {
					t.Errorf("the tool has run %d times", n)
				}
				err := p.lastError()
				if (err == nil) != (text == "Go to Oslo.") || len(text) > 8<<10 || strings.Contains(text, "\x1b") {
					t.Errorf("got %.300q (%d bytes), %.300v", text, len(text), err)
				}
			})
		})
	}
}

// MRTR-06, SECA-12: an old state of a loop that comes again, with the same answers or with
// others, runs no tool again, and none is left out because of it. Which states were used is
// known to one process: what another one runs again is told in docs/rough-edges.md.
func TestLoopReplayed(t *testing.T) {
	turns := []string{use("c1", "pay", `{"n":1}`), use("c2", "pay", `{"n":2}`), use("c3", "pay", `{"n":3}`), tripAnswer}
	for _, noParking := range []bool{false, true} {
		t.Run(fmt.Sprintf("run again %v", noParking), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				paid := make(map[string]int)
				s, _ := newServer(t, &mcpserver.Options{Rounds: mcpserver.RoundOptions{TicketKeys: ticketKeys, NoParking: noParking}})
				addLoop(t, s, []*sampling.Tool{sampling.Func(&mcp.Tool{Name: "pay", InputSchema: json.RawMessage(`{"type":"object"}`)},
					func(_ context.Context, in json.RawMessage) (string, error) { paid[string(in)]++; return "paid", nil })}, nil)
				a := openAsked(t, s, mcp.V2026_07_28, withTools)
				asks := func(extra string) said { return readMessage(t, a.ask(a.tool("plan", `{}`, extra))) }
				m := &clientModel{t: t, turns: turns}
				other := &clientModel{t: t, turns: []string{use("c9", "pay", `{"n":9}`)}}
				got := asks("")
				var old []string
				for i := range turns {
					if got.Result == nil || got.Result.ResultType != mcp.ResultInputRequired {
						t.Fatalf("round %d: got %s", i, got.text())
					}
					before := got
					extra, state := a.retry(got, m.respond), got.Result.RequestState
					tampered := strings.Replace(extra, state[len(state)/2:len(state)/2+4], "AAAA", 1)
					if m := asks(tampered); m.Error == nil {
						t.Errorf("a state that was changed: got %s", m.text())
					}
					got = asks(extra)
					for _, o := range append(old, extra) {
						asks(o)
					}
					old = append(old, extra)
					if m := asks(a.retry(before, other.respond)); m.Error == nil {
						t.Errorf("other answers to a round that is over: got %s", m.text())
					}
				}
				if got.text() != "Go to Oslo." {
					t.Errorf("got %q", got.text())
				}
				for n := 1; n <= 3; n++ {
					if times := paid[fmt.Sprintf(`{"n":%d}`, n)]; times != 1 {
						t.Errorf("payment %d was made %d times", n, times)
					}
				}
				if len(paid) != 3 {
					t.Errorf("paid were %v", paid)
				}
			})
		})
	}
}
