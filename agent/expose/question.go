package expose

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// question is one question to the client.
type question struct {
	key    string
	person bool // somebody has to look at it, which may take long
	// needs reports whether a client can be asked.
	needs func(c *mcp.ClientCapabilities) bool
	// ask makes the question as it is put: the same each time, for a handler that runs
	// again has to ask what it had asked (MRTR-30).
	ask func(key string) *mcpserver.Question

	gone   atomic.Bool // nobody wants the answer any more
	answer actors.Reply[*mcpserver.Question]
}

func (q *question) withdrawn() bool { return q.gone.Load() }

// errCannotAsk says that the client is not able to answer.
var errCannotAsk = errors.New("the client can not be asked that")

// ask puts a question to the client and waits for its answer. The error is a refusal of
// the client, errCannotAsk, or the end of ctx or of the errand.
func (e *errand) ask(ctx context.Context, q *question) (*mcpserver.Question, error) {
	if err := e.add(q); err != nil {
		return nil, err
	}
	select {
	case <-q.answer.Done():
		return q.answer.Result()
	case <-ctx.Done():
		e.withdraw(q)
		return nil, context.Cause(ctx)
	case <-e.ctx.Done():
		e.withdraw(q)
		// A server that does not say which call it asks for may have meant another one
		// of the same client.
		if other := e.up.live(); other != nil && !e.up.shared() && ctx.Err() == nil { // else it may be another's (SECA-6)
			return other.ask(ctx, &question{person: q.person, needs: q.needs, ask: q.ask})
		}
		return nil, context.Cause(e.ctx)
	}
}

// withdraw takes a question back. A client that was asked already is told so where its
// revision allows it.
func (e *errand) withdraw(q *question) {
	q.gone.Store(true)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.asked {
		if r.withdraw != nil && slices.Contains(r.questions, q) && !slices.ContainsFunc(r.questions, func(q *question) bool { return !q.withdrawn() }) {
			r.withdraw()
		}
	}
}

// errWithdrawn is why a question is not put any more.
var errWithdrawn = errors.New("nobody waits for the answer any more")

// put puts a round to the client, and hands out the answers. An error is why the call
// does not wait any more.
func (e *errand) put(ctx context.Context, call caller, r *round) error {
	asking, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if !endsWithQuestion(call) {
		e.mu.Lock()
		r.withdraw = func() { stop(errWithdrawn) }
		if !slices.ContainsFunc(r.questions, func(q *question) bool { return !q.withdrawn() }) {
			r.withdraw() // that was before there was anything to call
		}
		e.mu.Unlock()
		defer context.AfterFunc(e.ctx, func() { stop(errWithdrawn) })()
	}
	wire := make([]*mcpserver.Question, len(r.questions))
	for i, q := range r.questions {
		wire[i] = q.ask(q.key)
	}
	err := call.Ask(asking, wire...)
	e.mu.Lock()
	r.withdraw = nil
	e.mu.Unlock()
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
			refused = errCannotAsk
		}
		q.answer.Complete(wire[i], refused)
	}
	return nil
}

// endsWithQuestion reports whether the call is answered with its questions: a client of
// 2026-07-28 that is not at a task. What it was asked can not be taken back, and a handler
// that does not wait for the answer is heard by nobody.
func endsWithQuestion(call caller) bool {
	return call.Client().Version.Era() == mcp.EraModern && call.Task() == ""
}

// asker is the path of who asks, of names from the configuration alone (SECA-34).
func asker(path []string, server string) string {
	if server != "" && (len(path) == 0 || path[len(path)-1] != server) {
		path = append(slices.Clone(path), server)
	}
	return strings.Join(path, " › ")
}

// asks is the message of a question with who asks before it.
func asks(who, message string) string {
	if who == "" {
		return message
	}
	return who + " asks: " + message
}

// maxShown bounds what is quoted in a question, in bytes.
const maxShown = 2000

func clip(s string) string {
	if len(s) > maxShown {
		s = strings.ToValidUTF8(s[:maxShown], "") + "…"
	}
	return s
}

// choice asks a person to choose one of a few things, as a form of one field.
func (e *errand) choice(ctx context.Context, message string, choices []string) (string, error) {
	schema, err := choiceSchema(choices)
	if err != nil {
		return "", err
	}
	q := &question{person: true, needs: (*mcp.ClientCapabilities).ElicitForm, ask: func(key string) *mcpserver.Question {
		return mcpserver.FormQuestion(key, &mcp.ElicitParams{Message: message, RequestedSchema: schema})
	}}
	got, err := e.ask(ctx, q)
	if err != nil {
		return "", err
	}
	var chosen string
	if err := mcp.Unmarshal(got.Elicited.Content["decision"], &chosen); err != nil || !slices.Contains(choices, chosen) {
		return "", errors.New("the answer is none of the choices")
	}
	return chosen, nil
}

func choiceSchema(choices []string) ([]byte, error) {
	return mcp.Marshal(map[string]any{
		"type":       "object",
		"properties": map[string]any{"decision": map[string]any{"type": "string", "title": "Decision", "enum": choices}},
		"required":   []string{"decision"},
	})
}

func itoa(n int) string { return strconv.Itoa(n) }
