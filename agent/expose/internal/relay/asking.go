// asking.go: questions to the client, in rounds of the call that waits.

package relay

import (
	"context"
	"errors"
	"slices"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// ask puts a question to the client and waits for its answer. The error is a refusal of the
// client, ErrCannotAsk, or the end of ctx or of the operation.
func (op *Operation) ask(ctx context.Context, q *question) (*mcpserver.Question, error) {
	if err := op.add(q); err != nil {
		return nil, err
	}
	select {
	case <-q.answer.Done():
		return q.answer.Result()
	case <-ctx.Done():
		op.withdraw(q)
		return nil, context.Cause(ctx)
	case <-op.ctx.Done():
		op.withdraw(q)
		// A backend that does not name the call it asks for may mean another one of the same
		// client. Another call of a shared client may be another person's (SECA-6).
		if other := op.client.reachable(); other != nil && !op.client.Shared && ctx.Err() == nil {
			return other.ask(ctx, &question{person: q.person, needs: q.needs, build: q.build})
		}
		return nil, context.Cause(op.ctx)
	}
}

// withdraw takes a question back. A client that was asked already is notified where its
// revision allows that.
func (op *Operation) withdraw(q *question) {
	q.gone.Store(true)
	op.client.mu.Lock()
	defer op.client.mu.Unlock()
	for _, r := range op.asked {
		if r.withdraw != nil && slices.Contains(r.questions, q) && r.allWithdrawn() {
			r.withdraw()
		}
	}
}

// put puts a round to the client and distributes the answers. An error ends the call's wait.
func (op *Operation) put(ctx context.Context, call Call, r *round) error {
	asking, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if !endsWithQuestion(call) {
		op.client.mu.Lock()
		r.withdraw = func() { stop(errWithdrawn) }
		if r.allWithdrawn() { // before there was a function to call
			r.withdraw()
		}
		op.client.mu.Unlock()
		defer context.AfterFunc(op.ctx, func() { stop(errWithdrawn) })()
	}
	wire := make([]*mcpserver.Question, len(r.questions))
	for i, q := range r.questions {
		wire[i] = q.build(q.key)
	}
	err := call.Ask(asking, wire...)
	op.client.mu.Lock()
	r.withdraw = nil
	op.client.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case comesAgain(err):
		return err
	}
	for i, q := range r.questions {
		refused := err
		if err == nil {
			refused = wire[i].Err
		}
		if _, lacks := errors.AsType[*mcpserver.CapabilityError](refused); lacks {
			refused = ErrCannotAsk
		}
		q.answer.Complete(wire[i], refused)
	}
	return nil
}

// endsWithQuestion reports whether the questions are the answer to the call: of a client of
// 2026-07-28 outside a task. They cannot be withdrawn, and the handler must return.
func endsWithQuestion(call Call) bool {
	return call.Client().Version.Era() == mcp.EraModern && call.Task() == ""
}

// Choose asks a person to choose one of a few words, in a form of one field.
func (op *Operation) Choose(ctx context.Context, message string, choices ...string) (string, error) {
	schema, err := mcp.Marshal(map[string]any{
		"type":       "object",
		"properties": map[string]any{"decision": map[string]any{"type": "string", "title": "Decision", "enum": choices}},
		"required":   []string{"decision"},
	})
	if err != nil {
		return "", err
	}
	got, err := op.ask(ctx, &question{person: true, needs: (*mcp.ClientCapabilities).ElicitForm, build: func(key string) *mcpserver.Question {
		return mcpserver.FormQuestion(key, &mcp.ElicitParams{Message: message, RequestedSchema: schema})
	}})
	if err != nil {
		return "", err
	}
	var chosen string
	if err := mcp.Unmarshal(got.Elicited.Content["decision"], &chosen); err != nil || !slices.Contains(choices, chosen) {
		return "", errors.New("the answer is none of the choices")
	}
	return chosen, nil
}

// comesAgain reports whether the error that ends a handler lets it run again.
func comesAgain(err error) bool {
	_, answer := errors.AsType[*mcpserver.AnswerError](err)
	return answer || errors.Is(err, mcpserver.ErrSuspended) || errors.Is(err, mcpserver.ErrAbandoned)
}
