package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// maxRefusals bounds how often in a run guards have the model answer again.
const maxRefusals = 5

// beforeToolCall asks the guards about a call, and returns its arguments as they leave
// them.
func beforeToolCall(ctx context.Context, cfg *config, cl *call) (json.RawMessage, ruling) {
	in := guard.Call{Run: cfg.ID, Agent: cfg.Agent, Turn: cl.turn.n, Key: cl.key, Server: cl.tool.Server, Tool: cl.name, Arguments: cl.args}
	v, g := guard.BeforeTool.Pass(ctx, cfg.Guards, in, func(v *guard.Call) error {
		if !isObject(v.Arguments) {
			return errors.New("the arguments are not one valid JSON object")
		}
		return misfit(cl.tool, v.Arguments)
	})
	out := ruling{guards: g}
	if g.Refused != "" {
		out.refusal = "not called: " + g.Refused
	}
	if g.Changed() {
		out.args = v.Arguments
		return v.Arguments, out
	}
	return cl.args, out
}

// afterTool returns what is done with what a call has returned, on its goroutine.
func (r *run) afterTool(cl *call) func(context.Context, *mcp.CallToolResult, error) (*toolReturned, error) {
	cfg := r.cfg
	return func(ctx context.Context, res *mcp.CallToolResult, err error) (*toolReturned, error) {
		if !guard.AfterTool.Guarded(cfg.Guards) {
			return &toolReturned{result: res}, err
		}
		if _, unknown := errors.AsType[*UnknownError](err); err != nil && !unknown && ctx.Err() == nil {
			res, err = clip.ErrorResult(err), nil // guards see errors too
		}
		if err != nil || res == nil {
			return nil, err
		}
		in := guard.Return{Run: cfg.ID, Agent: cfg.Agent, Turn: cl.turn.n, Key: cl.key, Server: cl.tool.Server, Tool: cl.name, Arguments: cl.args, Result: res}
		v, g := guard.AfterTool.Pass(ctx, cfg.Guards, in, func(v *guard.Return) (err error) {
			if v.Result, err = clip.Writable(v.Result); err == nil && v.Result == nil {
				err = errors.New("there is no result")
			}
			return err
		})
		switch {
		case g.Stop != nil:
			return &toolReturned{result: mcp.ErrorResult("[withheld: a guard has stopped the run]"), guards: g}, nil
		case g.Refused != "":
			return &toolReturned{result: mcp.ErrorResult("%s", g.Refused), guards: g}, nil
		}
		return &toolReturned{result: v.Result, guards: g}, nil
	}
}

// checkAnswer looks whether an answer is as it should be, and shows it to the guards.
func checkAnswer(ctx context.Context, cfg *config, turn int, text string) (decided, error) {
	check := func(text string) (json.RawMessage, error) {
		if cfg.Check == nil {
			return nil, nil
		}
		return cfg.Check(text)
	}
	structured, err := check(text)
	if err != nil {
		return decided{}, err
	}
	in := guard.Answer{Run: cfg.ID, Agent: cfg.Agent, Turn: turn, Text: text, Structured: structured}
	v, g := guard.Final.Pass(ctx, cfg.Guards, in, func(v *guard.Answer) (err error) {
		v.Structured, err = check(v.Text)
		return err
	})
	out := decided{structured: v.Structured, guards: g}
	if v.Text != text {
		out.text = &v.Text
	}
	return out, nil
}

// checked goes on with an answer that fits.
func (r *run) checked(c *actors.Context, m decided) {
	r.turn.guards, r.turn.text = m.guards, m.text
	switch {
	case m.guards.Stop != nil:
		r.write(c, nil, m.guards.Entries("")...)
		r.failed(c, m.guards.Stop)
	case m.guards.Refused != "":
		r.again(c, m.guards.Refused, m.guards.Entries("")...)
	default:
		if len(m.guards.Acted) > 0 {
			r.write(c, nil, m.guards.Entries("")...)
		}
		r.answered(c, m.structured)
	}
}

// again has the model answer once more, and tells it why.
func (r *run) again(c *actors.Context, why string, entries ...runlog.Entry) {
	if err := r.refuse(why); err != nil {
		r.write(c, nil, entries...)
		r.failed(c, err)
		return
	}
	r.say(r.turn.resp.Message())
	note := llm.User(why)
	r.say(note)
	r.write(c, func(c *actors.Context) {
		if r.out == nil {
			r.list(c)
		}
	}, append(entries, runlog.Entry{Type: runlog.InputAddedType, Body: &runlog.InputAdded{Message: note}})...)
}

// refuse counts that the model was refused, and returns why that is enough.
func (r *run) refuse(why string) error {
	if r.refusals++; r.refusals <= maxRefusals {
		return nil
	}
	return r.turn.guards.Last(fmt.Sprintf("the model was refused more than %d times, the last time: %s", maxRefusals, why))
}

// withhold takes out of a refused answer all but its calls.
func withhold(resp *llm.Response) *llm.Response {
	out := *resp
	out.Thinking, out.Content = "", mcp.Contents{mcp.Text("[withheld by a guard]")}
	for _, call := range resp.Calls() {
		out.Content = append(out.Content, call)
	}
	return &out
}
