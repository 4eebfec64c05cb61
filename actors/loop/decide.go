package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// decided is a message to itself: what becomes of each call of a turn, or whether
// its answer is as it should be.
type decided struct {
	turn       *turn
	rulings    []ruling
	structured json.RawMessage
	text       *string       // what a guard has put in place of the model's; nil for nothing
	guards     guard.Outcome // what they have said of the answer
	err        error         // what is wrong with the answer
}

// ruling is what becomes of one call. A refusal is a result for the model.
type ruling struct {
	verdict Verdict
	refusal string
	print   [32]byte        // of the call, for the loop detector
	args    json.RawMessage // that a guard has put in place of the model's; nil for none
	guards  guard.Outcome
}

// decide looks at what the model wants. The gate, the schemas and the answer's
// check may be slow, so they run in a task.
func (r *run) decide(c *actors.Context) {
	r.state = (*run).deciding
	t := r.turn
	for _, use := range t.resp.Calls() {
		t.calls = append(t.calls, &call{
			key:  fmt.Sprintf("%s-%d-%d", r.cfg.Nonce, t.n, len(t.calls)),
			turn: t, id: use.ID, name: use.Name, args: use.Input, tool: r.tools.byName[use.Name]})
	}
	t.left = len(t.calls)
	if t.left == 0 {
		r.check(c)
		return
	}
	cfg, tools := r.cfg, r.tools.byName
	actors.Await(c, func(ctx context.Context) ([]ruling, error) {
		rulings := make([]ruling, len(t.calls))
		for i, cl := range t.calls {
			rulings[i] = rule(ctx, cfg, tools, i, cl)
			rulings[i].print = fingerprint(cl.name, cl.args)
			if rulings[i].guards.Stop != nil {
				break
			}
		}
		return rulings, nil
	}, func(rulings []ruling, err error) any { return decided{turn: t, rulings: rulings, err: err} })
}

// rule decides on one call. What is wrong with it is told so that the model can do
// better.
func rule(ctx context.Context, cfg *config, tools map[string]*Tool, i int, cl *call) ruling {
	switch {
	case i >= maxCalls:
		return ruling{refusal: fmt.Sprintf("not called: one turn may ask for %d calls at the most", maxCalls)}
	case cl.tool == nil:
		return ruling{refusal: fmt.Sprintf("there is no tool %q. The tools are: %s", clip.Text(cl.name, 100), names(tools))}
	case slices.Contains(cl.turn.spoilt, cl.id):
		return ruling{refusal: "not called: the arguments are not one valid JSON object"}
	case cl.turn.guards.Refused != "":
		return ruling{refusal: "not called: " + cl.turn.guards.Refused}
	}
	if wrong := misfit(cl.tool, cl.args); wrong != nil {
		return ruling{refusal: "not called: " + wrong.Error()}
	}
	args, out := beforeToolCall(ctx, cfg, cl)
	if out.refusal != "" || out.guards.Stop != nil {
		return out
	}
	return gated(ctx, cfg, cl.tool, args, out)
}

// misfit says what is wrong with arguments, in words for the model.
func misfit(t *Tool, args json.RawMessage) error {
	if t.Validate == nil {
		return nil
	}
	if _, err := actors.Guard(func() (struct{}, error) { return struct{}{}, t.Validate(args) }); err != nil {
		return errors.New("the arguments do not fit the tool's schema: " + clip.Short(err.Error()))
	}
	return nil
}

// gated adds to a ruling what the gate says.
func gated(ctx context.Context, cfg *config, t *Tool, args json.RawMessage, out ruling) ruling {
	if cfg.Gate == nil {
		return out
	}
	verdict, err := actors.Guard(func() (Verdict, error) { return cfg.Gate(ctx, t, args), nil })
	switch {
	case err != nil || verdict > AskAgain:
		out.verdict = Ask
	case verdict == Deny:
		out.refusal = "not called: the policy of this agent does not allow it"
	default:
		out.verdict = verdict
	}
	return out
}

func isObject(raw json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{")) && jsonx.Valid(raw)
}

// names lists what there is, as much as is useful.
func names(tools map[string]*Tool) string {
	if len(tools) == 0 {
		return "none"
	}
	all := make([]string, 0, len(tools))
	for name := range tools {
		all = append(all, name)
	}
	slices.Sort(all)
	return clip.Short(strings.Join(all, ", "))
}

// check looks at an answer without calls.
func (r *run) check(c *actors.Context) {
	t, cfg, text := r.turn, r.cfg, r.turn.resp.Text()
	if refused := t.guards.Refused; refused != "" {
		r.again(c, refused)
		return
	}
	if cfg.Check == nil && !guard.Final.Guarded(cfg.Guards) {
		r.answered(c, nil)
		return
	}
	actors.Await(c, func(ctx context.Context) (decided, error) { return checkAnswer(ctx, cfg, t.n, text) },
		func(d decided, err error) any { d.turn, d.err = t, err; return d })
}

func (r *run) deciding(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case decided:
		switch {
		case m.turn != r.turn: // late
		case m.rulings != nil:
			r.judge(c, m.rulings)
		case m.err != nil && len(m.turn.calls) > 0:
			r.failed(c, fmt.Errorf("deciding on the calls: %w", m.err))
		case m.err != nil:
			r.redo(c, m.err)
		default:
			r.checked(c, m)
		}
	}
}

// redo tells the model what is wrong with its answer, a bounded number of times.
func (r *run) redo(c *actors.Context, wrong error) {
	if r.cutShort(c) {
		return
	}
	if r.redos++; r.redos > maxRedos || r.turn.resp.Finish == llm.FinishLength {
		r.failed(c, fmt.Errorf("the answer is not what was asked for: %w", wrong))
		return
	}
	r.say(r.turn.resp.Message())
	note := llm.User("That is not an answer of the form that was asked for: " + clip.Short(wrong.Error()) +
		"\nAnswer again, with nothing but the JSON.")
	r.say(note)
	r.write(c, func(c *actors.Context) {
		if r.out == nil {
			r.list(c)
		}
	}, runlog.Entry{Type: runlog.InputAddedType, Body: &runlog.InputAdded{Message: note}})
}

// say adds a message to the history. Models do not take an empty one.
func (r *run) say(m llm.Message) {
	if len(m.Content) == 0 {
		m.Content = mcp.Contents{mcp.Text("(no answer)")}
	}
	r.history = append(r.history, m)
}

// answered ends the run with the model's answer.
func (r *run) answered(c *actors.Context, structured json.RawMessage) {
	resp := r.turn.resp
	if r.cutShort(c) {
		return
	}
	out := Outcome{State: store.Finished, Stop: string(resp.Finish), Text: resp.Text(), Structured: structured}
	if r.turn.text != nil {
		out.Text = *r.turn.text
	}
	r.end(c, out)
}
