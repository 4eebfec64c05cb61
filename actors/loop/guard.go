package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// Guard looks at what goes in and out of a run, at five points; those that are nil
// let everything pass. Its functions run outside of the run's actor, some of them for
// several calls at once, and should be quick: the run waits. Their context ends with
// the run. A panic is a [Stopped].
//
// Each gets a copy of its own to change; blocks of content are shared, and must be
// replaced and not changed. What it changes counts if it returns [Changed].
//
// Of several guards each sees what the ones before it have left. The first that
// refuses or stops is the last that is asked.
type Guard struct {
	Name string // for the journal; need not be unique

	// BeforeModel sees a turn before it is asked for. What it changes is for this
	// turn only; the conversation stays. The last turn of a run that wraps up has no tools
	// nor more output in any case, and is not asked if there is no room for what was added
	// to it. If it refuses, the model is not asked and the
	// text is the run's answer, unless JSON was asked for: then the run fails.
	BeforeModel func(ctx context.Context, t *GuardTurn) GuardResult
	// AfterModel sees what the model has said, before it is recorded and anybody hears
	// of it: text is not streamed where there is such a guard. If it refuses, nothing
	// of what was said is kept but the calls: those are not made, and the text is
	// their result or, without calls, the next message to the model.
	AfterModel func(ctx context.Context, t *GuardReply) GuardResult
	// BeforeTool sees a call whose arguments fit the tool's schema, before it is
	// decided who allows it. Arguments that it changes must fit too. If it refuses, the
	// text is the result.
	BeforeTool func(ctx context.Context, t *GuardCall) GuardResult
	// AfterTool sees the result of a call that was made, before it is recorded. If it
	// refuses, the text is the result in its place.
	AfterTool func(ctx context.Context, t *GuardReturn) GuardResult
	// Final sees the answer before the run ends with it. A text that it changes must
	// fit the run's schema too. If it refuses, the model is told the text, and answers
	// again.
	Final func(ctx context.Context, t *GuardAnswer) GuardResult
}

// What guards see.
type (
	// GuardAt says where in which run.
	GuardAt struct {
		Run, Agent string
		Turn       int // from one
	}
	// GuardTurn is a turn that is to be asked for.
	GuardTurn struct {
		GuardAt
		Request *llm.Request
	}
	// GuardReply is what the model has said.
	GuardReply struct {
		GuardAt
		Response *llm.Response
	}
	// GuardCall is a call that is to be made.
	GuardCall struct {
		GuardAt
		Key          string // the call's idempotency key
		Server, Tool string // Server is empty for a function of the program
		Arguments    json.RawMessage
	}
	// GuardReturn is what a call has returned.
	GuardReturn struct {
		GuardCall
		Result *mcp.CallToolResult
	}
	// GuardAnswer is the run's answer.
	GuardAnswer struct {
		GuardAt
		Text       string
		Structured json.RawMessage // what [Config.Check] has made of the text
	}
)

// GuardResult is what a guard says; its zero value lets pass. Make others with
// [Changed], [Refused] and [Stopped].
type GuardResult struct {
	action string // "" allows
	text   string
}

// What guards do, as in [GuardActed].
const (
	GuardChanged = "changed"
	GuardRefused = "refused"
	GuardStopped = "stopped"
)

// Changed takes over what the guard has changed; why is for the journal.
func Changed(why string) GuardResult { return GuardResult{GuardChanged, why} }

// Refused does not let pass; the text is for the model.
func Refused(text string) GuardResult { return GuardResult{GuardRefused, text} }

// Stopped fails the run with a [*GuardError].
func Stopped(reason string) GuardResult { return GuardResult{GuardStopped, reason} }

// GuardPoint is where a guard looks.
type GuardPoint string

// The points.
const (
	PointBeforeModel GuardPoint = "before model"
	PointAfterModel  GuardPoint = "after model"
	PointBeforeTool  GuardPoint = "before tool"
	PointAfterTool   GuardPoint = "after tool"
	PointFinal       GuardPoint = "final"
)

// GuardError ends a run that a guard has stopped, or that it had answer too often.
type GuardError struct {
	Guard  string
	Point  GuardPoint
	Reason string
}

func (e *GuardError) Error() string {
	return fmt.Sprintf("the guard %q stopped the run (%s): %s", e.Guard, e.Point, e.Reason)
}

// StopGuard is the reason of a run whose answer is a guard's, in place of the model's.
const StopGuard = "guard"

// maxRefusals bounds how often in a run guards have the model answer again.
const maxRefusals = 5

// guarded is what the guards at one point have done.
type guarded struct {
	acted   []GuardActed
	refused string      // the text for the model; empty unless refused
	stop    *GuardError // why the run ends; nil unless stopped
	chosen  *Chosen     // by a router: it comes the same way
}

// entries are the events of what the guards have done.
func (g *guarded) entries(key string) []Entry {
	var out []Entry
	for i := range g.acted {
		out = append(out, Entry{Type: GuardActedType, Key: key, Body: &g.acted[i]})
	}
	return out
}

// point is one of the five: which function of a guard, and how its argument is copied.
type point[T any] struct {
	name GuardPoint
	of   func(*Guard) func(context.Context, *T) GuardResult
	copy func(T) T
}

var (
	beforeModel = point[GuardTurn]{PointBeforeModel,
		func(g *Guard) func(context.Context, *GuardTurn) GuardResult { return g.BeforeModel },
		func(t GuardTurn) GuardTurn { t.Request = copyRequest(t.Request); return t }}
	afterModel = point[GuardReply]{PointAfterModel,
		func(g *Guard) func(context.Context, *GuardReply) GuardResult { return g.AfterModel },
		func(t GuardReply) GuardReply {
			resp := *t.Response
			resp.Content = slices.Clone(resp.Content)
			t.Response = &resp
			return t
		}}
	beforeTool = point[GuardCall]{PointBeforeTool,
		func(g *Guard) func(context.Context, *GuardCall) GuardResult { return g.BeforeTool },
		func(t GuardCall) GuardCall { t.Arguments = slices.Clone(t.Arguments); return t }}
	afterTool = point[GuardReturn]{PointAfterTool,
		func(g *Guard) func(context.Context, *GuardReturn) GuardResult { return g.AfterTool },
		func(t GuardReturn) GuardReturn {
			res := *t.Result
			res.Content = slices.Clone(res.Content)
			t.Result = &res
			return t
		}}
	final = point[GuardAnswer]{PointFinal,
		func(g *Guard) func(context.Context, *GuardAnswer) GuardResult { return g.Final },
		func(t GuardAnswer) GuardAnswer { return t }}
)

func copyRequest(req *llm.Request) *llm.Request {
	c := *req
	c.Messages = slices.Clone(req.Messages)
	for i := range c.Messages {
		c.Messages[i].Content = slices.Clone(c.Messages[i].Content)
	}
	c.Tools = slices.Clone(req.Tools)
	return &c
}

// with returns the guards that look at a point.
func with[T any](guards []Guard, p point[T]) []Guard {
	return slices.DeleteFunc(slices.Clone(guards), func(g Guard) bool { return p.of(&g) == nil })
}

// pass shows v to one guard after the other, and returns what they have left of it.
// mend finds what is wrong with a change; that stops the run. It may be nil.
func pass[T any](ctx context.Context, guards []Guard, p point[T], v T, mend func(*T) error) (T, guarded) {
	var out guarded
	for i := range guards {
		g := &guards[i]
		look := p.of(g)
		if look == nil {
			continue
		}
		try := p.copy(v)
		res, err := actors.Guard(func() (GuardResult, error) { return look(ctx, &try), nil })
		if err == nil && res.action == GuardChanged && mend != nil {
			_, err = actors.Guard(func() (struct{}, error) { return struct{}{}, mend(&try) })
		}
		if err != nil {
			res = Stopped(guardFault(err))
		}
		if res.action == "" {
			continue
		}
		res.text = clip(res.text, maxErrText)
		out.acted = append(out.acted, GuardActed{Guard: text(g.Name), Point: p.name, Action: res.action, Text: res.text})
		switch res.action {
		case GuardChanged:
			v = try
		case GuardRefused:
			out.refused = res.text
			if out.refused == "" {
				out.refused = "it was refused"
			}
			return v, out
		default:
			out.stop = &GuardError{Guard: g.Name, Point: p.name, Reason: res.text}
			return v, out
		}
	}
	return v, out
}

// guardFault says why a guard that has not decided stops the run. What a panic says is
// not shown: it may hold what the guard was to hide.
func guardFault(err error) string {
	if _, ok := errors.AsType[*actors.PanicError](err); ok {
		return "it panicked"
	}
	return "its change is not valid: " + err.Error()
}

func at(cfg *config, turn int) GuardAt { return GuardAt{cfg.ID, cfg.Agent, turn} }

// beforeToolCall asks the guards about a call, and returns its arguments as they leave
// them.
func beforeToolCall(ctx context.Context, cfg *config, cl *call) (json.RawMessage, ruling) {
	in := GuardCall{GuardAt: at(cfg, cl.turn.n), Key: cl.key, Server: cl.tool.Server, Tool: cl.name, Arguments: cl.args}
	v, g := pass(ctx, cfg.Guards, beforeTool, in, func(v *GuardCall) error {
		if !isObject(v.Arguments) {
			return errors.New("the arguments are not one valid JSON object")
		}
		return misfit(cl.tool, v.Arguments)
	})
	out := ruling{guards: g}
	if g.refused != "" {
		out.refusal = "not called: " + g.refused
	}
	if slices.ContainsFunc(g.acted, func(a GuardActed) bool { return a.Action == GuardChanged }) {
		out.args = v.Arguments
		return v.Arguments, out
	}
	return cl.args, out
}

// afterTool returns what is done with what a call has returned, on its goroutine.
func (r *run) afterTool(cl *call) func(context.Context, *mcp.CallToolResult, error) (*toolReturned, error) {
	cfg := r.cfg
	guards := with(cfg.Guards, afterTool)
	return func(ctx context.Context, res *mcp.CallToolResult, err error) (*toolReturned, error) {
		if len(guards) == 0 {
			return &toolReturned{result: res}, err
		}
		if _, unknown := errors.AsType[*UnknownError](err); err != nil && !unknown && ctx.Err() == nil {
			res, err = errorResult(err), nil // guards see errors too
		}
		if err != nil || res == nil {
			return nil, err
		}
		in := GuardReturn{GuardCall{at(cfg, cl.turn.n), cl.key, cl.tool.Server, cl.name, cl.args}, res}
		v, g := pass(ctx, guards, afterTool, in, func(v *GuardReturn) (err error) {
			if v.Result, err = presentable(v.Result); err == nil && v.Result == nil {
				err = errors.New("there is no result")
			}
			return err
		})
		switch {
		case g.stop != nil:
			return &toolReturned{result: mcp.ErrorResult("[withheld: a guard has stopped the run]"), guards: g}, nil
		case g.refused != "":
			return &toolReturned{result: mcp.ErrorResult("%s", g.refused), guards: g}, nil
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
	v, g := pass(ctx, cfg.Guards, final, GuardAnswer{at(cfg, turn), text, structured}, func(v *GuardAnswer) (err error) {
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
	case m.guards.stop != nil:
		r.write(c, nil, m.guards.entries("")...)
		r.failed(c, m.guards.stop)
	case m.guards.refused != "":
		r.again(c, m.guards.refused, m.guards.entries("")...)
	default:
		if len(m.guards.acted) > 0 {
			r.write(c, nil, m.guards.entries("")...)
		}
		r.answered(c, m.structured)
	}
}

// again has the model answer once more, and tells it why.
func (r *run) again(c *actors.Context, why string, entries ...Entry) {
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
	}, append(entries, Entry{Type: InputAddedType, Body: &InputAdded{note}})...)
}

// refuse counts that the model was refused, and returns why that is enough.
func (r *run) refuse(why string) error {
	if r.refusals++; r.refusals <= maxRefusals {
		return nil
	}
	last := r.turn.guards.acted[len(r.turn.guards.acted)-1]
	return &GuardError{Guard: last.Guard, Point: last.Point,
		Reason: fmt.Sprintf("the model was refused more than %d times, the last time: %s", maxRefusals, why)}
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
