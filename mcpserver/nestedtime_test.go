package mcpserver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// addPatient adds a tool that asks for the roots or a form, for as long as it is told.
func addPatient(t *testing.T, s *mcpserver.Server) {
	t.Helper()
	err := mcpserver.AddTool(s, &mcp.Tool{Name: "patient"}, func(ctx context.Context, req *mcpserver.ToolRequest, in echoIn) (string, error) {
		if in.N > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Duration(in.N)*time.Second)
			defer cancel()
		}
		var err error
		if in.Text == "roots" {
			_, err = req.Roots(ctx, "roots")
		} else {
			_, err = mcpserver.Elicit[nameForm](ctx, req, "name", "Who?")
		}
		if err == nil {
			return "answered", nil
		}
		return "", errors.New("it took too long")
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TIME-01, TIME-02, TIME-03, CANC-01, CANC-02, ROB-8: a question to the client has an end, of
// its kind or of the handler's choice, which no progress puts off: then it is withdrawn
// by its own id, and its late answer does nothing.
func TestQuestionsEnd(t *testing.T) {
	tests := []struct {
		arguments string
		within    time.Duration
	}{
		{`{"text":"roots"}`, 10 * time.Minute},
		{`{"text":"form"}`, 20 * time.Minute}, // RoundOptions.TicketTTL
		{`{"text":"roots","n":7}`, 7 * time.Second},
		{`{"text":"form","n":90}`, 90 * time.Second},
	}
	for _, v := range []mcp.Version{mcp.V2025_06_18, mcp.V2025_11_25} {
		for _, tt := range tests {
			for _, progress := range []bool{false, true} {
				t.Run(fmt.Sprint(v, tt.arguments, " progress ", progress), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s, _ := newAsking(t, &mcpserver.Options{Rounds: mcpserver.RoundOptions{TicketTTL: 20 * time.Minute}, Limits: mcpserver.Limits{CallTimeout: time.Hour}})
						addPatient(t, s)
						a := openAsked(t, s, v, allCapabilities)
						q := readMessage(t, a.peer.ask(a.tool("patient", tt.arguments, "")))
						if q.Method == "" {
							t.Fatalf("got %+v, want a question", q)
						}
						begun := time.Now()
						for len(a.lines) == 0 && time.Since(begun) <= tt.within+time.Second {
							if progress {
								a.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, q.ID, time.Since(begun)))
							}
							wait(time.Second)
						}
						if took := time.Since(begun); len(a.lines) != 2 || took > tt.within+time.Second {
							t.Fatalf("after %v: got %d messages, want 2 within %v", took, len(a.lines), tt.within)
						}
						both := a.receive() + a.receive() // in any order
						if !strings.Contains(both, `"method":"notifications/cancelled"`) || !strings.Contains(both, `"requestId":`+string(q.ID)) || !strings.Contains(both, "it took too long") {
							t.Errorf("got %s, want question %s withdrawn and the call's result", both, q.ID)
						}
						a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, q.ID))
						a.silent()
					})
				})
			}
		}
	}
}

// CANC-02, SECA-13: only what is in flight is withdrawn; a client cancels its own requests, not
// ours, whatever their ids are.
func TestCancelHasADirection(t *testing.T) {
	inLegacy(t, func(t *testing.T, s *mcpserver.Server, a *asked, c *counts) {
		addPatient(t, s)
		a.next = 1000 // the ids of the two sides differ
		q := readMessage(t, a.peer.ask(a.tool("patient", `{"text":"form"}`, "")))
		a.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, q.ID))
		a.silent()
		a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, accept("Ada")))
		if got := readMessage(t, a.receive()).text(); got != "answered" {
			t.Errorf("after a cancel of our question: got %q", got)
		}

		// A call whose question was answered is cancelled: the question is over.
		late := make(chan struct{})
		err := mcpserver.AddTool(s, &mcp.Tool{Name: "after"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			_, err := mcpserver.Elicit[nameForm](ctx, req, "name", "Who?")
			close(late)
			<-ctx.Done()
			note(c.ended, context.Cause(ctx))
			return "", err
		})
		if err != nil {
			t.Fatal(err)
		}
		wait(time.Second)
		a.receive() // the list has changed
		q = readMessage(t, a.peer.ask(a.tool("after", `{}`, "")))
		a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, accept("Ada")))
		<-late
		a.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, a.next))
		<-c.ended
		a.silent()
	})
}
