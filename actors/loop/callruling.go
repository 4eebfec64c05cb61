package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/transcript"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/nearest"
	"github.com/troupe-dev/troupe/internal/runlog"
)

// rule decides on one call. What is wrong with it is told so that the model can do
// better.
func rule(ctx context.Context, cfg *config, tools map[string]*Tool, i int, cl *call) ruling {
	switch {
	case i >= maxCalls:
		return ruling{refusal: fmt.Sprintf("not called: one turn may ask for %d calls at the most", maxCalls)}
	case cl.tool == nil:
		return ruling{refusal: fmt.Sprintf("there is no tool %q. %s", clip.Text(cl.name, 100), toolsLike(cl.name, tools))}
	case slices.Contains(cl.turn.spoilt, cl.id) && runlog.Cut(cl.turn.resp.Finish):
		return ruling{refusal: "not called: " + runlog.CutBy(cl.turn.resp.Finish) + " cut your answer in the middle of this call. Write the call again and make it shorter, or make several smaller calls of it, one after the other"}
	case slices.Contains(cl.turn.spoilt, cl.id):
		text := "not called: the arguments are not one valid JSON object"
		if why := transcript.Unreadable(cl.args); why != "" {
			text += ": " + why
		}
		return ruling{refusal: text}
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

// misfit describes the errors of arguments, in words for the model.
func misfit(t *Tool, args json.RawMessage) error {
	if t.Validate == nil {
		return nil
	}
	if _, err := actors.Guard(func() (struct{}, error) { return struct{}{}, t.Validate(args) }); err != nil {
		return errors.New("the arguments do not fit the tool's schema: " + clip.Short(err.Error()))
	}
	return nil
}

// gated adds the verdict of the gate to a ruling.
func gated(ctx context.Context, cfg *config, t *Tool, args json.RawMessage, out ruling) ruling {
	if cfg.Gate == nil {
		return out
	}
	verdict, err := actors.Guard(func() (guard.Verdict, error) { return cfg.Gate(ctx, t, args), nil })
	switch {
	case err != nil || verdict > guard.AskAgain:
		out.verdict = guard.Ask
	case verdict == guard.Deny:
		out.refusal = "not called: the policy of this agent does not allow it"
	default:
		out.verdict = verdict
	}
	return out
}

// nearTools is how many names a model reads that has called what is no tool.
const nearTools = 5

// toolsLike names the tools that the model may have meant: all where there are few.
func toolsLike(name string, tools map[string]*Tool) string {
	all := slices.Sorted(maps.Keys(tools))
	switch {
	case len(all) == 0:
		return "There are no tools"
	case len(all) <= nearTools:
		return "The tools are: " + clip.Short(strings.Join(all, ", "))
	}
	return fmt.Sprintf("Of the %d tools the nearest are: %s", len(all), clip.Short(strings.Join(nearest.Names(name, all, nearTools), ", ")))
}

// beforeToolCall asks the guards about a call, and returns its arguments as they leave
// them.
func beforeToolCall(ctx context.Context, cfg *config, cl *call) (json.RawMessage, ruling) {
	in := guard.Call{Run: cfg.ID, Agent: cfg.Agent, Turn: cl.turn.n, Key: cl.key, Server: cl.tool.Server, Tool: cl.name, Arguments: cl.args}
	v, g := guard.BeforeTool.Pass(ctx, cfg.Guards, in, func(v *guard.Call) error {
		if !transcript.IsObject(v.Arguments) {
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

// ruling is the decision on one call. A refusal is a result for the model.
type ruling struct {
	verdict guard.Verdict
	refusal string
	args    json.RawMessage // that a guard has put in place of the model's; nil for none
	guards  guard.Outcome
}
