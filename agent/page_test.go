package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// gated is a server of 2025-11-25 whose one tool wants a page visited before its first
// answer (URL-40).
type gated struct {
	sink mcp.Sink

	mu    sync.Mutex
	calls int
}

// Connect implements [mcpclient.Connector].
func (g *gated) Connect(sink mcp.Sink) (mcp.Link, error) {
	g.sink = sink
	return g, nil
}

// Close implements [mcp.Link].
func (g *gated) Close() error {
	g.sink.Lost(nil)
	return nil
}

// Send implements [mcp.Link].
func (g *gated) Send(m mcp.Outgoing) error {
	var msg mcp.Message
	if err := mcp.Scan(m.Frame, &msg); err != nil {
		return err
	}
	var say []byte
	switch msg.Method {
	case mcp.MethodDiscover:
		say = mcp.AppendError(nil, msg.ID, mcp.Errorf(mcp.CodeMethodNotFound, "unknown"))
	case mcp.MethodInitialize:
		say = mcp.AppendResult(nil, msg.ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bank","version":"1"}}`))
	case mcp.MethodListTools:
		say = mcp.AppendResult(nil, msg.ID, []byte(`{"tools":[{"name":"pay","inputSchema":{"type":"object"}}]}`))
	case mcp.MethodCallTool:
		g.mu.Lock()
		g.calls++
		first := g.calls == 1
		g.mu.Unlock()
		if first {
			say = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"sign in","data":{"elicitations":[`+
				`{"mode":"url","message":"Sign in","url":"https://bank.example/","elicitationId":"e1"}]}}}`, msg.ID)
		} else {
			say = mcp.AppendResult(nil, msg.ID, []byte(`{"content":[{"type":"text","text":"paid"}]}`))
		}
	}
	if say != nil {
		go g.sink.Frame(say)
	}
	return nil
}

// URL-17: a page that a call of a run waits for is a question of the run, for as long as
// it is open. A program that accepts, or declines, whatever it is asked does not end that.
func TestPageOfARun(t *testing.T) {
	done := `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e1"}}`
	tests := []struct {
		name    string
		answers []agent.Decision // to one question about the page after the other
		opened  int
		result  string
		settled store.AskStatus // of the last one
	}{
		{"retry", []agent.Decision{agent.RetryPage()}, 1, "paid", store.AskAccepted},
		{"open again", []agent.Decision{agent.OpenPage(), agent.RetryPage()}, 2, "paid", store.AskAccepted},
		{"give up", []agent.Decision{agent.GiveUpPage()}, 1, "the page was given up", store.AskDeclined},
		{"completed", nil, 1, "paid", store.AskCancelled},
		{"accepted as all are", []agent.Decision{agent.Accept()}, 1, "paid", store.AskAccepted},
		{"declined as all are", []agent.Decision{agent.Decline("no")}, 1, "paid", store.AskDeclined},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server, opened := new(gated), 0
				rt := open(t, &agent.Options{Model: llmtest.Script(call("bank__pay", nil), llmtest.Say("done")), Approve: agent.NeverAsk,
					Host: &mcpclient.HostOptions{Options: mcpclient.Options{AskOptions: mcpclient.AskOptions{OpenURL: func(context.Context, string) error {
						opened++
						return mcpclient.ErrNoBrowser
					}}}},
					Servers: []mcpclient.Server{mcpclient.InProcess("bank", server)}})
				time.AfterFunc(25*time.Minute, func() { server.sink.Frame([]byte(done)) }) // longer than a question waits
				answers, asked, text := tt.answers, map[string]bool{}, ""
				var last store.AskStatus
				for ev, err := range start(t, rt, "r").Events(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					switch ev := ev.(type) {
					case agent.Ask:
						d := agent.Accept()
						if ev.Kind == agent.KindPage {
							asked[ev.ID] = true
							if q := ev.Question; q == nil || q.Kind != mcpclient.AskPage || q.URL.URL != "https://bank.example/" || !strings.Contains(strings.Join(q.Notes, ""), "open the page yourself") {
								t.Errorf("the question: got %+v", q)
							}
							if len(answers) == 0 {
								continue
							}
							d, answers = answers[0], answers[1:]
						}
						if err := ev.Answer(t.Context(), d); err != nil && !errors.Is(err, agent.ErrSettled) {
							t.Error(err)
						}
					case agent.AskSettled:
						if asked[ev.ID] {
							last = ev.Status
						}
					case agent.ToolResult:
						text = ev.Result.Content.Text()
					}
				}
				if !strings.Contains(text, tt.result) || opened != tt.opened || last != tt.settled {
					t.Errorf("the call came to %q, opened %d times, settled as %s; want %q, %d, %s", text, opened, last, tt.result, tt.opened, tt.settled)
				}
				if n := len(rt.Host().Elicitations()); n != 0 {
					t.Errorf("%d pages are left", n)
				}
			})
		})
	}
}
