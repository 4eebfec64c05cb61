package agent

import (
	"context"
	"encoding/json"

	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// Guard looks at what goes in and out of the runs of an agent, at five points. At each it
// lets pass, changes, refuses with a text for the model, or stops the run. A function that
// is nil lets everything pass.
//
// Functions run outside of the run's actor, some of them for several calls at once, and
// should be quick: the run waits. Their context ends with the run. Each gets a copy of its
// own to change; blocks of content are shared, and must be replaced and not changed. A
// change counts if the function returns [Change].
//
// Guards are asked in the order of [Config].Guards, each seeing the change of the one
// before; the first that refuses or stops is the last. A panic stops the run. A
// [GuardActed] event and the journal say what a guard has done, but not what it has taken
// away. While a sub-agent runs its own guards look, and after a hand-off those of the agent
// that goes on.
type Guard struct {
	Name string // for the journal; need not be unique

	// BeforeModel sees a turn before it is asked for. Its change is for this turn only;
	// the conversation stays. The last turn of a run that wraps up has no tools nor more
	// output in any case, and is not asked if there is no room for the change. If the
	// guard refuses, the model is not asked and the text is the run's answer, unless JSON
	// was asked for: then the run fails.
	BeforeModel func(ctx context.Context, t *GuardTurn) GuardResult
	// AfterModel sees an answer of the model before it is recorded and passed on: text is
	// not streamed where there is such a guard. If it refuses, nothing of the answer is
	// kept but the calls: those are not made, and the text is their result or, without
	// calls, the next message to the model.
	AfterModel func(ctx context.Context, t *GuardReply) GuardResult
	// BeforeTool sees a call whose arguments fit the tool's schema, before the policy or a
	// person allows it. Changed arguments must fit too. If the guard refuses, the text is
	// the result.
	BeforeTool func(ctx context.Context, t *GuardCall) GuardResult
	// AfterTool sees the result of a call that was made, before it is recorded. If the
	// guard refuses, the text is the result in its place.
	AfterTool func(ctx context.Context, t *GuardReturn) GuardResult
	// Final sees the answer before the run ends with it. A changed text must fit the run's
	// schema too. If the guard refuses, the model reads the text and answers again.
	Final func(ctx context.Context, t *GuardAnswer) GuardResult
}

// GuardTurn is a turn that is to be asked for: [Guard].BeforeModel.
type GuardTurn struct {
	Run, Agent string
	Turn       int // from one
	Request    *llm.Request
}

// GuardReply is an answer of the model: [Guard].AfterModel.
type GuardReply struct {
	Run, Agent string
	Turn       int // from one
	Response   *llm.Response
}

// GuardCall is a call that is to be made: [Guard].BeforeTool.
type GuardCall struct {
	Run, Agent   string
	Turn         int    // from one
	Key          string // the call's idempotency key
	Server, Tool string // Server is empty for a function of the program
	Arguments    json.RawMessage
}

// GuardReturn is a call that has returned: [Guard].AfterTool.
type GuardReturn struct {
	Run, Agent   string
	Turn         int    // from one
	Key          string // the call's idempotency key
	Server, Tool string // Server is empty for a function of the program
	Arguments    json.RawMessage
	Result       *mcp.CallToolResult
}

// GuardAnswer is the run's answer: [Guard].Final.
type GuardAnswer struct {
	Run, Agent string
	Turn       int // from one
	Text       string
	Structured json.RawMessage // the answer as JSON, where [Config].Output asks for it
}

// GuardResult is the decision of a guard: [Change], [Refuse] or [StopRun]. Its zero value
// lets pass.
type GuardResult struct{ r guard.Result }

// Change takes over the guard's change of its argument. Why is for the journal.
func Change(why string) GuardResult { return GuardResult{guard.Changed(why)} }

// Refuse does not let pass. The text is for the model.
func Refuse(text string) GuardResult { return GuardResult{guard.Refused(text)} }

// StopRun fails the run with a [*GuardError].
func StopRun(reason string) GuardResult { return GuardResult{guard.Stopped(reason)} }

// GuardPoint is a point at which guards look.
type GuardPoint string

// The points.
const (
	PointBeforeModel GuardPoint = "before model"
	PointAfterModel  GuardPoint = "after model"
	PointBeforeTool  GuardPoint = "before tool"
	PointAfterTool   GuardPoint = "after tool"
	PointFinal       GuardPoint = "final"
)

// compileGuards makes guards those of a loop.
func compileGuards(guards []Guard) []guard.Guard {
	out := make([]guard.Guard, len(guards))
	for i := range guards {
		g := &guards[i]
		out[i] = guard.Guard{
			Name:        g.Name,
			BeforeModel: guardFunc(g.BeforeModel, func(t *guard.Turn) *GuardTurn { return (*GuardTurn)(t) }),
			AfterModel:  guardFunc(g.AfterModel, func(t *guard.Reply) *GuardReply { return (*GuardReply)(t) }),
			BeforeTool:  guardFunc(g.BeforeTool, func(t *guard.Call) *GuardCall { return (*GuardCall)(t) }),
			AfterTool:   guardFunc(g.AfterTool, func(t *guard.Return) *GuardReturn { return (*GuardReturn)(t) }),
			Final:       guardFunc(g.Final, func(t *guard.Answer) *GuardAnswer { return (*GuardAnswer)(t) }),
		}
	}
	return out
}

// guardFunc makes one function of a guard that of a loop; nil stays nil.
func guardFunc[In, Out any](f func(context.Context, *Out) GuardResult, as func(*In) *Out) func(context.Context, *In) guard.Result {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, t *In) guard.Result { return f(ctx, as(t)).r }
}
