package agenttest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/agenttest"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

type guest struct {
	Name string `json:"name"`
}

// booking asks for a name before it books.
func booking() *agenttest.FakeServer {
	return agenttest.Server("booking", agenttest.ToolFunc("book",
		func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			who, err := mcpserver.Elicit[guest](ctx, req, "guest", "For whom?")
			if err != nil {
				return "", err
			}
			return "booked for " + who.Name, nil
		}))
}

// A run with a server, approval and a form, in every revision of the protocol that has
// forms.
func TestOpen(t *testing.T) {
	for _, version := range []mcp.Version{mcp.V2025_06_18, mcp.V2025_11_25, mcp.V2026_07_28} {
		t.Run(string(version), func(t *testing.T) {
			agenttest.Bubble(t, func(t *testing.T) {
				server := booking().Speaks(version)
				human := agenttest.Human(agenttest.Accept().Tool("book"), agenttest.Fill(map[string]any{"name": "Ada"}).Server("booking"))
				rt := agenttest.Open(t, &agenttest.Options{
					Model:   llmtest.Script(llmtest.Call("booking__book", nil), llmtest.Say("It is ", "booked.")),
					Servers: []*agenttest.FakeServer{server},
					Human:   human,
				})
				run, err := rt.Start(t.Context(), "Book a table.", nil)
				if err != nil {
					t.Fatal(err)
				}
				want := `agent: Book a table.
ask: kind "tool", server "booking", tool "booking__book": may it be called with {}?
accepted
call: booking__book {}
ask: kind "form", server "booking", tool "booking__book": "For whom?"
accepted
result: booking__book booked for Ada
model: It is booked.
finished: stop
`
				if got := agenttest.Transcript(t, run); got != want {
					t.Errorf("Transcript: got\n%s\nwant\n%s", got, want)
				}
				if got, want := agenttest.Calls(t, run), []string{"booking__book {}"}; !slices.Equal(got, want) {
					t.Errorf("Calls: got %q, want %q", got, want)
				}
				calls := server.Calls()
				if len(calls) != 1 || calls[0].Tool != "book" || string(calls[0].Arguments) != "{}" || calls[0].Key == "" {
					t.Errorf("the server's calls: got %+v", calls)
				}
				if asked := human.Asked(); len(asked) != 2 || asked[0].Kind != agent.KindTool || asked[1].Kind != agent.KindForm {
					t.Errorf("Asked: got %+v", asked)
				}
			})
		})
	}
}

// What can go wrong with a tool, and what the model then reads.
func TestReplies(t *testing.T) {
	tests := []struct {
		name  string
		reply agenttest.Reply
		want  string // in the transcript
	}{
		{"text", agenttest.Text("fine"), "result: s__t fine\n"},
		{"json", agenttest.JSON(guest{"Ada"}), `result: s__t {"name":"Ada"}` + "\n"},
		{"tool error", agenttest.ToolError("no such file"), "error: s__t no such file\n"},
		{"error", agenttest.Fail(-32050, "out of tune"), "error: s__t"},
		{"slow", agenttest.Slow(30*time.Second, agenttest.Text("at last")), "result: s__t at last\n"},
		{"drop", agenttest.Drop(), "unknown: s__t"},
		{"hang", agenttest.Hang(), "unknown: s__t"}, // until the client gives up
		{"not JSON", agenttest.JSON(func() {}), "error: s__t"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			agenttest.Bubble(t, func(t *testing.T) {
				rt := agenttest.Open(t, &agenttest.Options{
					Model:   llmtest.Script(llmtest.Call("s__t", nil), llmtest.Say("ok")),
					Servers: []*agenttest.FakeServer{agenttest.Server("s", agenttest.Tool("t", tt.reply).ReadOnly()).Trusted()},
				})
				run, err := rt.Start(t.Context(), "go", nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := agenttest.Transcript(t, run); !strings.Contains(got, tt.want) || !strings.HasSuffix(got, "finished: stop\n") {
					t.Errorf("Transcript: got\n%s\nwant %q in it", got, tt.want)
				}
			})
		})
	}
}

// A server that breaks costs its tools only, and comes back. A call that the server says
// can be repeated is, all others are unknown.
func TestDrop(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		agenttest.Bubble(t, func(t *testing.T) {
			tool := agenttest.Tool("t", agenttest.Drop(), agenttest.Text("back"))
			want := []string{"unknown: s__t", "result: s__t back"}
			if readOnly {
				tool.ReadOnly()
				want[0] = "result: s__t back"
			}
			s := agenttest.Server("s", tool).Trusted()
			rt := agenttest.Open(t, &agenttest.Options{
				Model:   llmtest.Loop(llmtest.Call("s__t", nil), llmtest.Say("ok")),
				Servers: []*agenttest.FakeServer{s},
				Runtime: agent.Options{Approve: agent.NeverAsk, OnUnknown: agent.TellUnknown},
			})
			for i, want := range want {
				run, err := rt.Start(t.Context(), "go", nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := agenttest.Transcript(t, run); !strings.Contains(got, want) {
					t.Errorf("read-only %v, run %d: got\n%s\nwant %q in it", readOnly, i, got, want)
				}
				s.Drop()
				time.Sleep(time.Minute) // virtual: the server is connected again
			}
		})
	}
}

// A server that is down is missing, and says why.
func TestDown(t *testing.T) {
	agenttest.Bubble(t, func(t *testing.T) {
		s := agenttest.Server("s", agenttest.Tool("t")).Down(errors.New("no route to host"))
		rt := agenttest.Open(t, &agenttest.Options{Model: llmtest.Loop(llmtest.Say("ok")), Servers: []*agenttest.FakeServer{s}})
		for _, want := range []string{"no route to host", ""} {
			run, err := rt.Start(t.Context(), "go", nil)
			if err != nil {
				t.Fatal(err)
			}
			reason := ""
			for ev := range run.Events(t.Context()) {
				if listed, ok := ev.(agent.ToolsListed); ok && len(listed.Absent) > 0 {
					reason = listed.Absent[0].Reason
				}
			}
			if !strings.Contains(reason, want) || want == "" && reason != "" {
				t.Errorf("why it is absent: got %q, want %q in it", reason, want)
			}
			s.Down(nil)
			time.Sleep(10 * time.Minute) // virtual: it was tried again
		}
	})
}

// recorder is a test that fails without failing this one.
type recorder struct {
	testing.TB
	errors   []string
	cleanups []func()
}

func (r *recorder) Helper()                   {}
func (r *recorder) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(f string, a ...any) { r.errors = append(r.errors, fmt.Sprintf(f, a...)) }
func (r *recorder) Context() context.Context  { return context.Background() }
func (r *recorder) end() {
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
}

// What fails a test, by the words with which it does.
func TestFailures(t *testing.T) {
	remove := agent.NeedsApproval(agent.Func("remove", "Removes.", func(_ context.Context, in guest) (string, error) { return "removed", nil }))
	tests := []struct {
		name  string
		human *agenttest.FakeHuman
		want  []string
	}{
		{"answered", agenttest.Human(agenttest.Accept().Kind(agent.KindTool)), nil},
		{"always", agenttest.Human(agenttest.Decline("no").Always(), agenttest.Fill(nil).Always()), nil},
		{"by a function", agenttest.Human(agenttest.Decide(func(ask *agent.Ask) (agent.Decision, error) {
			return agent.Decline(ask.Tool), nil
		})), nil},
		{"nobody", nil, []string{`the human has no answer to a question of the kind "tool", tool "remove": may it be called with {"name":"x"}?`}},
		{"of another", agenttest.Human(agenttest.Accept().Tool("move")), []string{
			`the human has no answer to a question of the kind "tool", tool "remove": may it be called with {"name":"x"}?`,
			`the human's answer to a question of the tool "move" was not asked for`}},
		{"too many", agenttest.Human(agenttest.Accept(), agenttest.Accept()), []string{
			"the human's answer to any question was not asked for"}},
		{"no decision", agenttest.Human(agenttest.Decide(func(*agent.Ask) (agent.Decision, error) {
			return agent.Accept(), errors.New("I can not decide")
		})), []string{`answering a question of the kind "tool", tool "remove": may it be called with {"name":"x"}?: I can not decide`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			agenttest.Bubble(t, func(t *testing.T) {
				fake := &recorder{TB: t}
				rt := agenttest.Open(fake, &agenttest.Options{
					Model:   llmtest.Script(llmtest.Call("remove", `{"name":"x"}`), llmtest.Say("ok")),
					Human:   tt.human,
					Runtime: agent.Options{Tools: []agent.Tool{remove}},
				})
				if _, err := rt.Run(t.Context(), "go"); err != nil {
					t.Error(err)
				}
				fake.end()
				if !slices.Equal(fake.errors, tt.want) {
					t.Errorf("got %q, want %q", fake.errors, tt.want)
				}
			})
		})
	}
}

// What is still there after the end of the runtime fails the test, by its name.
func TestLeaks(t *testing.T) {
	agenttest.Bubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		fake := &recorder{TB: t}
		rt := agenttest.Open(fake, nil)
		rt.System().Go("the leaking test", func() { <-gate })
		fake.end()
		close(gate)
		if got := strings.Join(fake.errors, "\n"); !strings.Contains(got, "left 1 goroutines of the leaking test") {
			t.Errorf("got %q, want the leak by its name", got)
		}
	})
}

// Outside of a bubble, and with two servers that answer at once.
func TestRealTime(t *testing.T) {
	a := agenttest.Server("a", agenttest.Tool("t", agenttest.Text("1")).ReadOnly().Described("Counts.").Input(`{"type":"object","properties":{"n":{"type":"integer"}}}`)).Trusted()
	b := agenttest.Server("b", agenttest.Tool("t").ReadOnly()).Trusted()
	model := llmtest.Script(llmtest.Calls(llmtest.Call("a__t", `{"n":1}`), llmtest.Call("b__t", nil)), llmtest.Say("ok"))
	rt := agenttest.Open(t, &agenttest.Options{Model: model, Servers: []*agenttest.FakeServer{a, b}})
	res, err := rt.Run(t.Context(), "go")
	if err != nil || res.ToolCalls != 2 || len(a.Calls()) != 1 || len(b.Calls()) != 1 {
		t.Errorf("got %+v, %v; calls %v and %v", res, err, a.Calls(), b.Calls())
	}
	for _, tool := range model.Requests()[0].Tools {
		if tool.Name == "a__t" && (tool.Description != "Counts." || !strings.Contains(string(tool.InputSchema), `"integer"`)) {
			t.Errorf("the tool: got %+v", tool)
		}
	}
}
