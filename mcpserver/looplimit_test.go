package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/sampling"
)

// What is wrong with a loop is said before anybody is asked.
func TestLoopRefused(t *testing.T) {
	ok := sampling.Func(&mcp.Tool{Name: "ok"}, func(context.Context, struct{}) (string, error) { return "", nil })
	bad := sampling.Func(&mcp.Tool{Name: "a.b"}, func(context.Context, struct{}) (string, error) { return "", nil })
	if ok.Err() != nil || bad.Err() == nil {
		t.Errorf("got %v and %v", ok.Err(), bad.Err())
	}
	withOwnTools := question()
	withOwnTools.Tools = []mcp.Tool{{Name: "t"}}
	tests := map[string]struct {
		key   string
		p     *mcp.CreateMessageParams
		tools []*sampling.Tool
		o     *sampling.Options
		want  string
	}{
		"no key":           {"", question(), nil, nil, "needs a key"},
		"a long key":       {strings.Repeat("k", 300), question(), nil, nil, "needs a key"},
		"no question":      {"k", nil, nil, nil, "no question"},
		"tools of its own": {"k", withOwnTools, nil, nil, "its tools"},
		"a bad tool":       {"k", question(), []*sampling.Tool{ok, bad}, nil, "names of 1 to 64"},
		"a tool twice":     {"k", question(), []*sampling.Tool{ok, ok}, nil, "two tools"},
		"a nil tool":       {"k", question(), []*sampling.Tool{nil}, nil, "is nil"},
		"a nil definition": {"k", question(), []*sampling.Tool{sampling.Func(nil, func(context.Context, struct{}) (string, error) { return "", nil })}, nil, "it is nil"},
		"negative turns":   {"k", question(), nil, &sampling.Options{MaxTurns: -1}, "negative"},
		"no messages":      {"k", &mcp.CreateMessageParams{MaxTokens: 1}, nil, nil, "messages"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctestOnce(t, func(t *testing.T) {
				s, _ := newServer(t, nil)
				err := mcpserver.AddTool(s, &mcp.Tool{Name: "plan"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
					_, err := sampling.Loop(ctx, req, tt.key, tt.p, tt.tools, tt.o)
					return "", err
				})
				if err != nil {
					t.Fatal(err)
				}
				a := openAsked(t, s, mcp.V2026_07_28, withTools)
				if got := a.call("plan", `{}`, respondAda); !hasAll(got, "isError", tt.want) {
					t.Errorf("got %q, want %q in it", got, tt.want)
				}
			})
		})
	}
}

// The bounds of a loop end it with an error that names them.
func TestLoopLimits(t *testing.T) {
	tests := map[string]struct {
		o    *sampling.Options
		want string
	}{
		"tokens":     {&sampling.Options{MaxTokens: 150}, "tokens"},
		"tool calls": {&sampling.Options{MaxCalls: 1}, "tool calls"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			eachLoop(t, mcp.V2025_11_25, mcpserver.Options{}, withTools, func(t *testing.T, s *mcpserver.Server, a *asked) {
				p := addLoop(t, s, nil, tt.o)
				m := &clientModel{t: t, turns: []string{tripCalls, tripCalls, tripCalls, tripAnswer}}
				got := a.call("plan", `{}`, m.respond)
				if limit, ok := errors.AsType[*budget.LimitError](p.lastError()); !hasAll(got, "isError", tt.want) || !ok || limit.Limit != tt.want {
					t.Errorf("got %q and %v, want the limit of %s", got, p.lastError(), tt.want)
				}
			})
		})
	}
}

// SAMP-41: a person who says no ends the loop, and the handler knows it.
func TestLoopDeclined(t *testing.T) {
	synctestOnce(t, func(t *testing.T) {
		s, _ := newServer(t, nil)
		p := addLoop(t, s, nil, nil)
		a := openAsked(t, s, mcp.V2025_11_25, withTools)
		got := a.call("plan", `{}`, respondWith(`{"code":-1,"message":"User rejected sampling request"}`))
		if got != "isError the user has declined" || !errors.Is(p.lastError(), mcpserver.ErrDeclined) {
			t.Errorf("got %q and %v", got, p.lastError())
		}
	})
}

// PROG-01: the steps of a loop are progress of the call, where the client wants it.
func TestLoopProgress(t *testing.T) {
	var steps []sampling.Step
	for _, own := range []bool{false, true} {
		synctestOnce(t, func(t *testing.T) {
			s, _ := newServer(t, &mcpserver.Options{Model: sampling.NewModel(ownTrip(), nil)})
			var o *sampling.Options
			if own {
				o = &sampling.Options{Parallel: 1, OnStep: func(step sampling.Step) {
					steps = append(steps, step)
					panic("it must not break the loop")
				}}
			}
			addLoop(t, s, nil, o)
			a := openAsked(t, s, mcp.V2025_06_18, `{}`)
			a.send(a.tool("plan", `{}`, `,"_meta":{"progressToken":"p"}`))
			var texts []string
			for {
				m := readMessage(t, a.receive())
				if m.Method == "" {
					break
				}
				var progress struct{ Message string }
				if err := json.Unmarshal(m.Params, &progress); err != nil {
					t.Fatal(err)
				}
				texts = append(texts, progress.Message)
			}
			if own {
				if len(texts) != 0 {
					t.Errorf("got %q, want no progress beside OnStep", texts)
				}
				return
			}
			if len(texts) == 0 || texts[0] != "asking the model, turn 1 of at most 8" {
				t.Errorf("got %q", texts)
			}
		})
	}
	want := []sampling.Step{
		{N: 1, Turn: 1}, {N: 2, Turn: 1, Tool: "weather"}, {N: 3, Turn: 1, Tool: "weather", Done: true},
		{N: 4, Turn: 1, Tool: "trains"}, {N: 5, Turn: 1, Tool: "trains", Done: true}, {N: 6, Turn: 2},
	}
	if !slices.Equal(steps, want) {
		t.Errorf("steps: got %v, want %v", steps, want)
	}
}
