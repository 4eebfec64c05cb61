package llmtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/pause"
	"github.com/troupe-dev/troupe/llm"
)

// Turn is what a scripted model does when it is asked once. Turns are values: methods
// return a changed copy. The zero Turn answers with nothing and finishes.
type Turn struct {
	steps  []step
	build  func(context.Context, *llm.Request) Turn // not nil: the turn is made when asked for
	finish llm.FinishReason                         // "" is by whether there are calls
	usage  *llm.Usage
	wire   Wire
	reply  *reply // not nil: the server answers with this in place of a turn
}

// step is one thing in a turn; one field is set, or name with args.
type step struct {
	text     string
	thinking string
	name     string
	args     string
	wait     time.Duration
	gate     *Gate
	err      error
}

// Say is a turn that says the texts, each in one event.
func Say(texts ...string) Turn {
	var t Turn
	for _, text := range texts {
		t.steps = append(t.steps, step{text: text})
	}
	return t
}

// Think is a turn that thinks the texts, each in one event.
func Think(texts ...string) Turn {
	var t Turn
	for _, text := range texts {
		t.steps = append(t.steps, step{thinking: text})
	}
	return t
}

// Call is a turn that calls a tool. Arguments that are a string or a json.RawMessage are
// sent as they are, be they JSON or not; nil is {}; others are encoded. Call panics if
// they cannot be.
func Call(name string, arguments any) Turn {
	return Turn{steps: []step{{name: name, args: argumentText(arguments)}}}
}

func argumentText(arguments any) string {
	switch a := arguments.(type) {
	case nil:
		return "{}"
	case string:
		return a
	case json.RawMessage:
		return string(a)
	}
	data, err := jsonx.Marshal(arguments)
	if err != nil {
		panic(fmt.Sprintf("llmtest: encoding the arguments of a call: %v", err))
	}
	return string(data)
}

// Slow is a turn that waits before whatever is joined behind it.
func Slow(d time.Duration) Turn { return Turn{steps: []step{{wait: d}}} }

// Hold is a turn that waits at a gate before whatever is joined behind it.
func Hold(g *Gate) Turn { return Turn{steps: []step{{gate: g}}} }

// Fail is a turn that ends in an error. A server shows an [*llm.Error] with a status as
// that status if nothing was sent before, and every other error as an error in its
// stream.
func Fail(err error) Turn { return Turn{steps: []step{{err: err}}} }

// Func is a turn that is made when the model is asked, from what it is asked.
func Func(build func(context.Context, *llm.Request) Turn) Turn { return Turn{build: build} }

// Join makes one turn of several: the steps one after the other, the rest of the last that
// sets it. Calls that are joined are asked for in parallel. Turns made by [Func] cannot
// be joined: Join panics.
func Join(turns ...Turn) Turn {
	var all Turn
	for _, t := range turns {
		if t.build != nil {
			panic("llmtest: Join of a turn made by Func")
		}
		all.steps = append(slices.Clip(all.steps), t.steps...)
		if t.finish != "" {
			all.finish = t.finish
		}
		if t.usage != nil {
			all.usage = t.usage
		}
		if t.wire != (Wire{}) {
			all.wire = t.wire
		}
		if t.reply != nil {
			all.reply = t.reply
		}
	}
	return all
}

// Calls is a turn with several calls, or any other turns joined; it is [Join].
func Calls(calls ...Turn) Turn { return Join(calls...) }

// Finish sets the reason with which the turn ends, in our words or a server's.
func (t Turn) Finish(reason llm.FinishReason) Turn {
	t.finish = reason
	return t
}

// Usage sets the tokens that the turn claims to have cost. Without it they are estimated.
func (t Turn) Usage(input, output int) Turn {
	t.usage = &llm.Usage{Input: input, Output: output}
	return t
}

// Over sets how a [Server] puts the turn on the wire. A [Model] has no wire: it ignores
// it.
func (t Turn) Over(w Wire) Turn {
	t.wire = w
	return t
}

// Reply is a turn that a [Server] answers with this status, body and headers (names and
// values in turn), and a [Model] with an [*llm.Error] of the status.
func Reply(status int, body string, headers ...string) Turn {
	return Turn{reply: &reply{status: status, body: body, headers: headers}}
}

type reply struct {
	status  int
	body    string
	headers []string
}

// resolve makes the turn for a request.
func (t Turn) resolve(ctx context.Context, req *llm.Request) Turn {
	for depth := 0; t.build != nil && depth < 8; depth++ {
		t = t.build(ctx, req)
	}
	return t
}

// reason is how the turn ends.
func (t Turn) reason() llm.FinishReason {
	switch {
	case t.finish != "":
		return t.finish
	case slices.ContainsFunc(t.steps, func(s step) bool { return s.name != "" }):
		return llm.FinishToolCalls
	}
	return llm.FinishStop
}

// cost is what the turn claims to have cost.
func (t Turn) cost(req *llm.Request) llm.Usage {
	if t.usage != nil {
		return *t.usage
	}
	n := 0
	for _, s := range t.steps {
		n += len(s.text) + len(s.thinking) + len(s.name) + len(s.args)
	}
	return llm.Usage{Input: llm.EstimateTokens(req), Output: llm.EstimateBytes(n), Estimated: true}
}

// silent reports whether the step sends nothing.
func (s step) silent() bool { return s.text == "" && s.thinking == "" && s.name == "" }

// trouble waits if the step is one that does, and returns the step's error, or why ctx
// has ended.
func (s step) trouble(ctx context.Context) error {
	_ = pause.For(ctx, s.wait) // why ctx has ended is returned below
	if s.gate != nil {
		s.gate.pass(ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.err
}
