package asks

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

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
	inputs []input
	first  int64 // id of the first one's inbound call; those of the others follow
	done   func(mcp.InputResponses, error)

	table   atomic.Pointer[inbound.Table] // nil until it begins
	results []json.RawMessage             // of the inputs, each written once
	left    atomic.Int32
	over    atomic.Bool
}

// askAll has the questions answered and calls done once, unless it was aborted
// before. It does not block.
func (a *Asks) askAll(o *Origin, inputs []input, done func(mcp.InputResponses, error)) (abort func(error)) {
	n := len(inputs)
	r := &round{asks: a, origin: o, inputs: inputs, first: a.inbox.last.Add(int64(n)) - int64(n) + 1, done: done, results: make([]json.RawMessage, n)}
	r.left.Store(int32(n))
	a.System.Go("questions of "+a.Server, r.begin)
	return func(error) { r.end() }
}

// begin gives each question its actor, and a goroutine.
func (r *round) begin() {
	table, err := r.asks.inbox.table()
	if err != nil {
		r.fail(err)
		return
	}
	r.table.Store(table)
	for i, in := range r.inputs {
		if r.over.Load() {
			return
		}
		e := &inputCall{round: r, index: i}
		if err := table.Begin(&e.Call, e, inbound.Request{ID: r.id(i), Method: in.method}); err != nil {
			r.fail(fmt.Errorf("asking: %w", err))
			return
		}
		if r.over.Load() { // ended meanwhile
			table.Cancel(r.id(i), "")
		}
		r.asks.System.Go("questions of "+r.asks.Server, e.Call.Run)
	}
}

func (r *round) id(i int) mcp.ID { return mcp.IntID(r.first + int64(i)) }

// end closes the questions that are open.
func (r *round) end() (first bool) {
	if !r.over.CompareAndSwap(false, true) {
		return false
	}
	if table := r.table.Load(); table != nil {
		for i := range r.inputs {
			table.Cancel(r.id(i), "the call is over")
		}
	}
	return true
}

func (r *round) fail(err error) {
	if r.end() {
		r.done(nil, err)
	}
}

func (r *round) answered(i int, result json.RawMessage) {
	r.results[i] = result
	if r.left.Add(-1) > 0 || !r.over.CompareAndSwap(false, true) {
		return
	}
	answers := make(mcp.InputResponses, len(r.inputs))
	for i, in := range r.inputs {
		answers[in.key] = r.results[i]
	}
	r.done(answers, nil)
}

// inputCall is one question under way.
type inputCall struct {
	inbound.Call
	round  *round
	index  int             // of the round's inputs
	result json.RawMessage // if Handle returns nil
}

// Handle implements [inbound.Handler].
func (e *inputCall) Handle(ctx context.Context) (err error) {
	e.result, err = e.round.inputs[e.index].question.Answer(ctx, e.round.origin)
	return err
}

// Answer implements [inbound.Handler].
func (e *inputCall) Answer(err error) {
	if err != nil {
		e.round.fail(e.round.asks.Failed(e.round.inputs[e.index].method, err))
		return
	}
	e.round.answered(e.index, e.result)
}

// Drop is for [inbound.Handler]: the round has ended.
func (e *inputCall) Drop(error) {}
