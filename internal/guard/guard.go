// Package guard runs the guards of an agent: functions of the program that see what goes
// in and out of a run at five points, and may change it, refuse it, or stop the run.
// Package agent documents them for programs.
package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// Guard has a function for each point; nil lets everything pass. Functions run outside of
// the run's actor, some of them for several calls at once. Each gets a copy of its own to
// change, which counts if it returns [Changed]; blocks of content are shared, and are
// replaced and not changed. A panic is a [Stopped].
type Guard struct {
	Name string // for the journal; need not be unique

	BeforeModel func(ctx context.Context, t *Turn) Result
	AfterModel  func(ctx context.Context, t *Reply) Result
	BeforeTool  func(ctx context.Context, t *Call) Result
	AfterTool   func(ctx context.Context, t *Return) Result
	Final       func(ctx context.Context, t *Answer) Result
}

// What guards see. Run, Agent and Turn say where; turns count from one.
type (
	// Turn is a turn that is to be asked for.
	Turn struct {
		Run, Agent string
		Turn       int
		Request    *llm.Request
	}
	// Reply is an answer of the model.
	Reply struct {
		Run, Agent string
		Turn       int
		Response   *llm.Response
	}
	// Call is a call that is to be made.
	Call struct {
		Run, Agent   string
		Turn         int
		Key          string // the call's idempotency key
		Server, Tool string // Server is empty for a function of the program
		Arguments    json.RawMessage
	}
	// Return is a call that has returned.
	Return struct {
		Run, Agent   string
		Turn         int
		Key          string
		Server, Tool string
		Arguments    json.RawMessage
		Result       *mcp.CallToolResult
	}
	// Answer is the run's answer.
	Answer struct {
		Run, Agent string
		Turn       int
		Text       string
		Structured json.RawMessage // the text, decoded by the check of the run's schema
	}
)

// Result is the decision of a guard; the zero value lets pass.
type Result struct {
	Action string // "", or as [runlog.GuardActed].Action
	Text   string
}

// Changed takes over a guard's change; why is for the journal.
func Changed(why string) Result { return Result{runlog.GuardChanged, why} }

// Refused does not let pass; the text is for the model.
func Refused(text string) Result { return Result{runlog.GuardRefused, text} }

// Stopped fails the run with an [*Error].
func Stopped(reason string) Result { return Result{runlog.GuardStopped, reason} }

// Error ends a run that a guard has stopped, or that it had answer too often.
type Error struct {
	Guard  string
	Point  string
	Reason string
}

func (e *Error) Error() string {
	return fmt.Sprintf("the guard %q stopped the run (%s): %s", e.Guard, e.Point, e.Reason)
}

// Outcome is what the guards at one point have done.
type Outcome struct {
	Acted   []runlog.GuardActed
	Refused string // the text for the model; empty unless refused
	Stop    *Error // why the run ends; nil unless stopped
}

// Entries are the events of the outcome. Key is that of the call it is about; empty for none.
func (o *Outcome) Entries(key string) []runlog.Entry {
	var out []runlog.Entry
	for i := range o.Acted {
		out = append(out, runlog.Entry{Type: runlog.GuardActedType, Key: key, Body: &o.Acted[i]})
	}
	return out
}

// Changed reports whether a guard has changed something.
func (o *Outcome) Changed() bool {
	return slices.ContainsFunc(o.Acted, func(a runlog.GuardActed) bool { return a.Action == runlog.GuardChanged })
}

// Last returns the guard and the point that acted last, as an error with a reason.
func (o *Outcome) Last(reason string) *Error {
	last := o.Acted[len(o.Acted)-1]
	return &Error{Guard: last.Guard, Point: last.Point, Reason: reason}
}

// Point is one of the five: which function of a guard sees what, and how that is copied.
type Point[T any] struct {
	name string
	of   func(*Guard) func(context.Context, *T) Result
	copy func(*T)
}

// The points.
var (
	BeforeModel = Point[Turn]{"before model",
		func(g *Guard) func(context.Context, *Turn) Result { return g.BeforeModel },
		func(t *Turn) { t.Request = copyRequest(t.Request) }}
	AfterModel = Point[Reply]{"after model",
		func(g *Guard) func(context.Context, *Reply) Result { return g.AfterModel },
		func(t *Reply) {
			resp := *t.Response
			resp.Content = slices.Clone(resp.Content)
			t.Response = &resp
		}}
	BeforeTool = Point[Call]{"before tool",
		func(g *Guard) func(context.Context, *Call) Result { return g.BeforeTool },
		func(t *Call) { t.Arguments = slices.Clone(t.Arguments) }}
	AfterTool = Point[Return]{"after tool",
		func(g *Guard) func(context.Context, *Return) Result { return g.AfterTool },
		func(t *Return) {
			res := *t.Result
			res.Content = slices.Clone(res.Content)
			t.Result = &res
		}}
	Final = Point[Answer]{"final",
		func(g *Guard) func(context.Context, *Answer) Result { return g.Final },
		func(*Answer) {}}
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

// Guarded reports whether one of the guards looks at the point.
func (p Point[T]) Guarded(guards []Guard) bool {
	return slices.ContainsFunc(guards, func(g Guard) bool { return p.of(&g) != nil })
}

// Pass shows v to one guard after the other, and returns what they have left of it. The
// first that refuses or stops is the last. Check finds mistakes in a change; they stop the
// run. It may be nil.
func (p Point[T]) Pass(ctx context.Context, guards []Guard, v T, check func(*T) error) (T, Outcome) {
	var out Outcome
	for i := range guards {
		g := &guards[i]
		look := p.of(g)
		if look == nil {
			continue
		}
		try := v
		p.copy(&try)
		res := ask(ctx, look, &try, check)
		if res.Action == "" {
			continue
		}
		res.Text = clip.Short(res.Text)
		out.Acted = append(out.Acted, runlog.GuardActed{Guard: clip.Valid(g.Name), Point: p.name, Action: res.Action, Text: res.Text})
		switch res.Action {
		case runlog.GuardChanged:
			v = try
		case runlog.GuardRefused:
			out.Refused = res.Text
			if out.Refused == "" {
				out.Refused = "it was refused"
			}
			return v, out
		default:
			out.Stop = &Error{Guard: g.Name, Point: p.name, Reason: res.Text}
			return v, out
		}
	}
	return v, out
}

// ask shows v to one guard. A guard that has not decided stops the run.
func ask[T any](ctx context.Context, look func(context.Context, *T) Result, v *T, check func(*T) error) Result {
	res, err := actors.Guard(func() (Result, error) { return look(ctx, v), nil })
	if err == nil && res.Action == runlog.GuardChanged && check != nil {
		_, err = actors.Guard(func() (struct{}, error) { return struct{}{}, check(v) })
	}
	if err == nil {
		return res
	}
	if _, ok := errors.AsType[*actors.PanicError](err); ok {
		return Stopped("it panicked") // the panic's text may hold what the guard was to hide
	}
	return Stopped("its change is not valid: " + err.Error())
}
