package asks

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/mcp"
)

// input is one question of a round, checked.
type input struct {
	key, method string
	question    Question
}

// parseInputs checks all questions of a round before a person is asked. What was not
// declared, or breaks its rules, cannot be answered (MRTR-13).
func (a *Asks) parseInputs(v mcp.Version, requests mcp.InputRequests) ([]input, error) {
	inputs := make([]input, 0, len(requests))
	for _, key := range sortedKeys(requests) {
		r := requests[key]
		q, err := a.Parse(v, r.Method, r.Params)
		if err != nil {
			return nil, a.Failed(r.Method, err)
		}
		inputs = append(inputs, input{key, r.Method, q})
	}
	return inputs, nil
}

// AnswerInputs answers the questions of a task: as a round, but its caller waits.
func (a *Asks) AnswerInputs(ctx context.Context, tag any, requests mcp.InputRequests) (mcp.InputResponses, error) {
	o := &Origin{Version: mcp.Latest}
	if t, ok := tag.(*Call); ok {
		o.Calls = []*Call{t}
	}
	if len(requests) > MaxEntries {
		return nil, a.Invalid(mcp.MethodGetTask, fmt.Sprintf("more than %d questions at once", MaxEntries))
	}
	for _, key := range sortedKeys(requests) {
		a.Observe(requests[key].Method, requests[key].Params)
	}
	inputs, err := a.parseInputs(o.Version, requests)
	if err != nil {
		return nil, err
	}
	type outcome struct {
		answers mcp.InputResponses
		err     error
	}
	done := make(chan outcome, 1)
	abort := a.askAll(o, inputs, func(answers mcp.InputResponses, err error) { done <- outcome{answers, err} })
	select {
	case out := <-done:
		return out.answers, out.err
	case <-ctx.Done():
		abort(context.Cause(ctx))
		return nil, context.Cause(ctx)
	}
}

// round answers several questions of a call at once (MRTR-10). Each is an inbound
// call of the client's inbox.
type round struct {
	asks   *Asks
	origin *Origin
	done   func(mcp.InputResponses, error)

	mu      sync.Mutex // guards the fields below it: each question is answered on its own goroutine
	over    bool
	left    int
	answers mcp.InputResponses
	ids     []mcp.ID // of the inbound calls
	table   *inbound.Table
}

// askAll has the questions answered and calls done once, unless it was aborted
// before. It does not block.
func (a *Asks) askAll(o *Origin, inputs []input, done func(mcp.InputResponses, error)) (abort func(error)) {
	r := &round{asks: a, origin: o, done: done, left: len(inputs), answers: make(mcp.InputResponses, len(inputs))}
	a.System.Go("questions of "+a.Server, func() { r.begin(inputs) })
	return func(error) { r.end() }
}

// begin gives each question its actor, and a goroutine.
func (r *round) begin(inputs []input) {
	table, err := r.asks.inbox.table()
	if err != nil {
		r.fail(err)
		return
	}
	for _, in := range inputs {
		e := &inputCall{round: r, input: in}
		id := mcp.IntID(r.asks.inbox.last.Add(1))
		if !r.list(table, id) {
			return
		}
		if err := table.Begin(&e.Call, e, inbound.Request{ID: id, Method: in.method}); err != nil {
			r.fail(fmt.Errorf("asking: %w", err))
			return
		}
		if !r.list(table, mcp.ID{}) { // ended meanwhile
			table.Cancel(id, "")
		}
		r.asks.System.Go("questions of "+r.asks.Server, e.Call.Run)
	}
}

// list remembers an inbound call, for end, and reports whether the round goes on.
func (r *round) list(table *inbound.Table, id mcp.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.table = table
	if !id.IsZero() {
		r.ids = append(r.ids, id)
	}
	return !r.over
}

// end closes the questions that are open.
func (r *round) end() (first bool) {
	r.mu.Lock()
	first, r.over = !r.over, true
	ids, table := r.ids, r.table
	r.ids = nil
	r.mu.Unlock()
	for _, id := range ids {
		table.Cancel(id, "the call is over")
	}
	return first
}

func (r *round) fail(err error) {
	if r.end() {
		r.done(nil, err)
	}
}

func (r *round) answered(key string, result json.RawMessage) {
	r.mu.Lock()
	r.answers[key] = result
	r.left--
	last := r.left == 0 && !r.over
	r.over = r.over || last
	r.mu.Unlock()
	if last {
		r.done(r.answers, nil)
	}
}

// inputCall is one question under way.
type inputCall struct {
	inbound.Call
	input
	round  *round
	result json.RawMessage // if Handle returns nil
}

// Handle implements [inbound.Handler].
func (e *inputCall) Handle(ctx context.Context) (err error) {
	e.result, err = e.question.Answer(ctx, e.round.origin)
	return err
}

// Answer implements [inbound.Handler].
func (e *inputCall) Answer(err error) {
	if err != nil {
		e.round.fail(e.round.asks.Failed(e.method, err))
		return
	}
	e.round.answered(e.key, e.result)
}

// Drop implements [inbound.Dropper]: the round has ended.
func (e *inputCall) Drop(error) {}
