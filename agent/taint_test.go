package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// tainted is a server whose tools are marked in every way: files are closed, the web is
// open, mail says nothing.
func tainted(t *testing.T) *mcpserver.Server {
	t.Helper()
	server, err := mcpserver.New(mcp.Implementation{Name: "s", Version: "1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	say := func(_ context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
		return req.Name(), nil
	}
	yes, no := true, false
	err = errors.Join(
		mcpserver.AddTool(server, &mcp.Tool{Name: "file", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no}}, say),
		mcpserver.AddTool(server, &mcp.Tool{Name: "web", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &yes}}, say),
		mcpserver.AddTool(server, &mcp.Tool{Name: "mail", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, say),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("closing the server: %v", err)
		}
		time.Sleep(time.Second) // virtual: what is asleep in the bubble ends
	})
	return server
}

// TestLethalTrio: once private data and untrusted text are in the conversation, what may
// carry the data out is asked about, whatever the policy allows (SECA-44).
func TestLethalTrio(t *testing.T) {
	strict := agent.AskOnTaint(agent.NeverAsk)
	tests := []struct {
		name    string
		policy  agent.ApprovePolicy
		trusted bool
		calls   []string
		asks    []string // which calls, with what the ask says of them
	}{
		{"data first, then one way out", strict, true, []string{"file", "web"}, nil},
		{"then a second", strict, true, []string{"file", "web", "web"}, []string{"web true"}},
		{"text first", strict, true, []string{"web", "file", "web"}, []string{"web true"}},
		{"closed tools are never a way out", strict, true, []string{"web", "file", "file", "file"}, nil},
		{"what is not marked may be anything", strict, true, []string{"mail", "mail"}, []string{"mail true"}},
		{"what strangers mark is worth nothing (SECA-40)", strict, false, []string{"file", "file"}, []string{"file true"}},
		{"never means never", agent.NeverAsk, true, []string{"web", "file", "web"}, nil},
		{"the default, where it is marked", nil, true, []string{"web", "file", "web"}, []string{"web true"}},
		{"the default, where it is not", nil, true, []string{"mail", "mail", "mail"}, nil},
		{"functions of the program", strict, true, []string{"web", "file", "double", "send"}, []string{"send true"}},
		{"the default, functions", nil, true, []string{"web", "file", "double", "send"}, []string{"send true"}},
	}
	send := agent.Func("send", "Sends.", func(context.Context, struct{}) (string, error) { return "sent", nil })
	send.Taint = agent.Taint{Outbound: true}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				srv := mcpclient.InProcess("s", tainted(t))
				srv.Trusted = tt.trusted
				var turns []llmtest.Turn
				for i, c := range tt.calls {
					var args any
					switch c {
					case "double":
						args = in{i}
					case "send":
					default:
						c = "s__" + c
					}
					turns = append(turns, call(c, args))
				}
				rt := open(t, &agent.Options{Model: llmtest.Script(append(turns, llmtest.Say("ok"))...), Tools: []agent.Tool{double, send},
					Servers: []mcpclient.Server{srv}, Approve: tt.policy})
				var asks []string
				for ev, err := range start(t, rt, "r").Events(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					if ask, ok := ev.(agent.Ask); ok {
						asks = append(asks, fmt.Sprint(trim(ask.Tool), " ", ask.Tainted))
						if err := ask.Answer(t.Context(), agent.Accept()); err != nil {
							t.Fatal(err)
						}
					}
				}
				if !slices.Equal(asks, tt.asks) {
					t.Errorf("asked: got %q, want %q", asks, tt.asks)
				}
			})
		})
	}
}

func trim(tool string) string {
	if len(tool) > 3 && tool[:3] == "s__" {
		return tool[3:]
	}
	return tool
}

// TestTaintOfATree: what a sub-agent has seen counts for the run above, and what was
// allowed for the whole run is asked about once more (SECA-44).
func TestTaintOfATree(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := mcpclient.InProcess("s", tainted(t))
		srv.Trusted = true
		ask := agent.AskOnTaint(func(_ context.Context, call *agent.ToolCall) agent.Verdict {
			if call.Tool == "s__web" {
				return agent.VerdictAsk
			}
			return agent.VerdictAllow
		})
		rt := open(t, &agent.Options{Model: llmtest.Script(), Servers: []mcpclient.Server{srv}, Approve: ask})
		sub := define(t, rt, "sub", &agent.Config{Model: llmtest.Script(call("s__file", nil), llmtest.Say("private"))})
		boss := define(t, rt, "boss", &agent.Config{Tools: []agent.Tool{sub.AsTool("sub", "")}, MaxRepeats: -1, Model: llmtest.Script(
			call("s__web", nil), call("s__web", nil), call("sub", task("x")), call("s__web", nil), call("s__web", nil), llmtest.Say("ok"))})
		var got []string
		for ev, err := range begin(t, boss, "r").Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			switch ev := agent.Unnest(ev).(type) {
			case agent.Ask:
				got = append(got, fmt.Sprint("ask ", ev.Tainted))
				if err := ev.Answer(t.Context(), agent.AcceptForRun()); err != nil {
					t.Fatal(err)
				}
			case agent.Tainted:
				got = append(got, fmt.Sprintf("%s %+v", ev.Tool, ev.Seen))
			case agent.ToolStarted:
				got = append(got, ev.Tool)
			}
		}
		want := []string{"ask false", "s__web", "s__web {Untrusted:true Private:true Outbound:false}", "ask true", "s__web",
			"sub", "s__file", "s__file {Untrusted:true Private:true Outbound:false}", "s__web", "s__web"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
