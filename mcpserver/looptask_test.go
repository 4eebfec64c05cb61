package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/sampling"
)

// XTASK-06, XTASK-12: a loop in a task asks as the task asks, in as many turns as it
// likes, since no call goes in rounds for it. Cancelling the task ends it.
func TestLoopInTask(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		withTasks(t, mcp.Latest, nil, func(t *testing.T, s *mcpserver.Server, p *taskPeer, _ *gate) {
			plan, ended := &planner{}, make(chan error, 1)
			err := mcpserver.AddTool(s, taskTool("plan", mcp.TaskRequired), func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
				r, err := sampling.Loop(ctx, req, "plan", question(), plan.tools(), &sampling.Options{MaxTurns: 12})
				if err != nil {
					ended <- err
					return "", err
				}
				return r.Text(), nil
			})
			if err != nil {
				t.Fatal(err)
			}
			p.extra = `,"sampling":{"tools":{}}` + extensionOn
			id := p.create("plan", `{}`).TaskID
			m := &clientModel{t: t, turns: []string{use("c", "weather", `{"place":"Oslo"}`)}}
			for turn := range 12 {
				task := p.until(id, mcp.TaskInputRequired)
				if turn == 2 && cancel {
					if err := p.do(mcp.MethodCancelTask, about(id), nil); err != nil {
						t.Fatal(err)
					}
					<-ended // with an error
					p.until(id, mcp.TaskCancelled)
					return
				}
				answers := map[string]json.RawMessage{}
				for key, q := range task.InputRequests {
					if turn == 11 {
						m.turns = []string{tripAnswer}
					}
					answers[key] = json.RawMessage(m.respond(q.Method, q.Params))
				}
				raw, _ := json.Marshal(answers)
				if err := p.update(id, string(raw)); err != nil {
					t.Fatalf("turn %d: %v", turn, err)
				}
				synctest.Wait()
			}
			if task := p.until(id, mcp.TaskCompleted); len(m.asked) != 12 || plan.weather.Load() != 11 {
				t.Errorf("got %+v after %d questions and %d calls", task, len(m.asked), plan.weather.Load())
			}
		})
	}
}

// A tool of a loop may ask the client itself, one tool at a time.
func TestLoopToolAsks(t *testing.T) {
	eachLoop(t, mcp.V2025_11_25, mcpserver.Options{}, withTools, func(t *testing.T, s *mcpserver.Server, a *asked) {
		booked := 0
		err := mcpserver.AddTool(s, &mcp.Tool{Name: "plan"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			book := sampling.Func(&mcp.Tool{Name: "book"}, func(ctx context.Context, in placeIn) (string, error) {
				who, err := mcpserver.Elicit[nameForm](ctx, req, "who "+in.Place, "Who goes to "+in.Place+"?")
				if err != nil {
					return "", err
				}
				booked++
				return who.Name + " goes to " + in.Place, nil
			})
			r, err := sampling.Loop(ctx, req, "plan", question(), []*sampling.Tool{book}, &sampling.Options{Parallel: 1})
			if err != nil {
				return "", err
			}
			return r.Text(), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		calls := `{"role":"assistant","model":"m","content":[{"type":"tool_use","id":"a","name":"book","input":{"place":"Oslo"}},{"type":"tool_use","id":"b","name":"book","input":{"place":"Rome"}}]}`
		m := &clientModel{t: t, turns: []string{calls, tripAnswer}}
		if got := a.call("plan", `{}`, m.respond); got != "Go to Oslo." || booked != 2 {
			t.Fatalf("got %q with %d bookings", got, booked)
		}
		if got := fmt.Sprint(toolResults(t, m.asked[1])); got != "[Ada goes to Oslo Ada goes to Rome]" {
			t.Errorf("got %s", got)
		}
	})
}

// contextKey is the key of a value of a handler's context.
type contextKey struct{}

// Tools see the values of the handler's context, and the end of the loop's.
func TestLoopToolContext(t *testing.T) {
	synctestOnce(t, func(t *testing.T) {
		s, _ := newServer(t, nil)
		err := mcpserver.AddTool(s, &mcp.Tool{Name: "plan"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			who := sampling.Func(&mcp.Tool{Name: "who"}, func(ctx context.Context, _ struct{}) (string, error) {
				within, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				if within.Err() != nil || context.Cause(ctx) != nil {
					t.Errorf("the context has ended: %v", context.Cause(ctx))
				}
				return fmt.Sprint(within.Value(contextKey{}), " ", ctx.Value(placeIn{})), nil
			})
			r, err := sampling.Loop(context.WithValue(ctx, contextKey{}, "Ada"), req, "plan", question(), []*sampling.Tool{who}, nil)
			if err != nil {
				return "", err
			}
			return r.Messages[2].Content[0].(*mcp.ToolResultContent).Content.Text(), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		a := openAsked(t, s, mcp.V2025_11_25, withTools)
		m := &clientModel{t: t, turns: []string{use("c", "who", `{}`), tripAnswer}}
		if got := a.call("plan", `{}`, m.respond); got != "Ada <nil>" {
			t.Errorf("got %q", got)
		}
	})
}

// The loops of a server whose actor dies end with it; the server is there again for the
// next one.
func TestLoopOfServerThatRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLoopBench(t, mcpserver.Options{}, nil)
		a := openAsked(t, b.s, mcp.V2025_11_25, withTools)
		b.reach(t, a, []string{use("c", "heeds", `{}`)})
		b.mu.Lock()
		server := b.server
		b.mu.Unlock()
		server.Send(bang{})
		synctest.Wait()
		if n := b.live(); n != 0 || len(b.p.errs) != 1 || b.p.lastError() == nil {
			t.Errorf("got %d actors, and %v", n, b.p.errs)
		}
	})
}
