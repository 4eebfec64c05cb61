package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// MRTR-05, MRTR-07: answers that a client brings before it was asked count for the
// questions of their keys; the rest is asked, and other keys are ignored. A
// middleware around the handler changes nothing of that.
func TestAnswersBroughtUnasked(t *testing.T) {
	through := func(ctx context.Context, _ *mcpserver.Incoming, next mcpserver.Next) (json.RawMessage, error) {
		return next(ctx)
	}
	for _, tt := range []struct {
		noParking  bool
		middleware []mcpserver.Middleware
	}{{}, {noParking: true}, {middleware: []mcpserver.Middleware{through}}, {true, []mcpserver.Middleware{through}}} {
		t.Run(fmt.Sprintf("run again %v, %d middleware", tt.noParking, len(tt.middleware)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := newAsking(t, &mcpserver.Options{Rounds: mcpserver.RoundOptions{NoParking: tt.noParking}, Middleware: tt.middleware})
				a := openAsked(t, s, mcp.V2026_07_28, allCapabilities)
				brings := func(responses string) string { return `,"inputResponses":` + responses }

				if m := a.again("greet", `{}`, brings(`{"name":`+accept("Ada")+`,"other":`+accept("Bob")+`,"more":7}`)); m.text() != "Hello, Ada!" {
					t.Errorf("all that is asked, and more: got %q", m.text())
				}
				m := a.again("greet", `{}`, brings(`{"other":`+accept("Bob")+`}`))
				if m.Result == nil || len(m.Result.InputRequests) != 1 {
					t.Fatalf("other keys: got %q, want to be asked", m.text())
				}
				if m = a.again("greet", `{}`, retryWith(m, `{"name":`+accept("Eve")+`}`)); m.text() != "Hello, Eve!" {
					t.Errorf("other keys, then the right one: got %q", m.text())
				}

				m = a.again("order", `{}`, brings(`{"who":`+accept("Ada")+`}`))
				if m.Result == nil || len(m.Result.InputRequests) != 1 || m.Result.InputRequests["what"].Method == "" {
					t.Fatalf("the first of two questions: got %q, want to be asked the second", m.text())
				}
				if m = a.again("order", `{}`, retryWith(m, `{"what":{"action":"accept","content":{"count":3}}}`)); m.text() != "3 for Ada, number 1" {
					t.Errorf("the second of two questions: got %q", m.text())
				}
				m = a.again("all", `{}`, brings(`{"form":`+accept("Ada")+`}`))
				if m.Result == nil || len(m.Result.InputRequests) != 2 {
					t.Errorf("one of three at once: got %q, want to be asked the others", m.text())
				}

				for name, responses := range map[string]string{
					"a number": `{"name":12345}`, "null": `null`, "an array": `[]`, "another type": `{"name":{"action":"accept","content":{"name":7}}}`,
				} {
					a.wantRefused(name, a.again("greet", `{}`, brings(responses)))
				}
				if m = a.again("page", `{}`, brings(`{"page":{"action":"accept"}}`)); m.Result == nil || len(m.Result.InputRequests) != 1 {
					t.Errorf("a page that nobody was sent to: got %q, want to be asked", m.text())
				}
				if n := c.greeted.Load(); n != 2 {
					t.Errorf("greeted %d times, want 2", n)
				}
			})
		})
	}
}
