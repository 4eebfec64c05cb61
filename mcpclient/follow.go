package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// Limits of one call (MRTR-15, URL-41, ROB-9).
const (
	maxRounds      = 10       // with inputs, or without
	maxEntries     = 16       // questions of one round
	maxState       = 64 << 10 // bytes of requestState
	maxStateOnly   = 3        // rounds in a row that ask for nothing
	stateOnlyPause = 250 * time.Millisecond
	maxURLRounds   = 3 // retries after -32042
)

// follows is what the Follow of a call knows of its rounds.
type follows struct {
	params json.RawMessage // as the caller gave them: every retry has these (MRTR-11)
	inner  func(call.Answer) call.Step
	mirrored

	// Touched in the call's actor only, but rounds, which is read when the call is over.
	rounds, stateOnly, urlRounds int

	pagesMu sync.Mutex
	message string  // of the server, about the last page
	pages   []*page // that were opened for the call, the last one last
	closed  bool    // the call is over
}

// opened remembers a page that the user has agreed to.
func (t *callTag) opened(p *page, message string) {
	t.pagesMu.Lock()
	defer t.pagesMu.Unlock()
	if t.closed {
		return
	}
	t.message = message
	t.pages = append(t.pages, p)
	p.join(t)
}

// lastPage is the last page that was opened for the call; nil if there is none.
func (t *callTag) lastPage() (p *page, message string) {
	t.pagesMu.Lock()
	defer t.pagesMu.Unlock()
	if len(t.pages) == 0 {
		return nil, ""
	}
	return t.pages[len(t.pages)-1], t.message
}

// closePages ends the pages of a call that is over, as far as nobody else knows of them:
// with nil if the server has carried it out, which it does when they are completed.
func (t *callTag) closePages(err error) {
	t.pagesMu.Lock()
	pages := t.pages
	t.pages, t.closed = nil, true
	t.pagesMu.Unlock()
	for _, p := range pages {
		p.leave(t)
		switch {
		case !p.local:
		case err == nil:
			p.Retry()
		default:
			p.Cancel(err)
		}
	}
}

// follow is the [call.Request].Follow: what a server asks for in its answer is looked
// after here, all else is the caller's.
func (t *callTag) follow(a call.Answer) call.Step {
	if a.Err == nil && a.Result.Type == mcp.ResultInputRequired {
		return t.inputRequired(a)
	}
	if e, ok := errors.AsType[*mcp.Error](a.Err); ok && e.Code == mcp.CodeURLElicitationRequired {
		if step, ok := t.urlRequired(e); ok {
			return step
		}
	}
	if step, ok := t.headerMismatch(a); ok {
		return step
	}
	if t.inner != nil {
		return t.inner(a)
	}
	return call.Step{}
}

// fails ends the call because of what the server asks for.
func (t *callTag) fails(err error) call.Step {
	return call.Step{Outcome: &call.Outcome{Err: err}}
}

func (t *callTag) invalid(format string, args ...any) call.Step {
	return t.fails(&InputError{Method: t.method, Reason: brief(fmt.Sprintf(format, args...))})
}

// inputRequired is a round of a modern server (MRTR-10 to MRTR-17).
func (t *callTag) inputRequired(a call.Answer) call.Step {
	switch t.method {
	case mcp.MethodCallTool, mcp.MethodGetPrompt, mcp.MethodReadResource:
	default: // MRTR-01
		return t.invalid("an answer that asks for input")
	}
	var res mcp.InputRequiredResult
	if err := mcp.Unmarshal(a.Result.Raw, &res); err != nil {
		return t.invalid("%v", err) // MRTR-02, MRTR-03
	}
	if t.rounds++; t.rounds > maxRounds {
		return t.invalid("more than %d rounds of input", maxRounds)
	}
	if len(res.InputRequests) > maxEntries {
		return t.invalid("more than %d questions at once", maxEntries)
	}
	if res.RequestState != nil && len(*res.RequestState) > maxState {
		return t.invalid("a requestState of more than %d bytes", maxState)
	}
	if len(res.InputRequests) == 0 {
		if res.RequestState == nil {
			return t.invalid("the server asks for input and names none")
		}
		return t.comeBack(res.RequestState)
	}
	t.stateOnly = 0
	c := t.client
	o := &origin{version: c.info.Load().Version, calls: []*callTag{t}}
	for _, key := range sortedKeys(res.InputRequests) {
		q := res.InputRequests[key]
		c.observeRequest(q.Method, q.Params)
	}
	questions, err := c.parseInputs(o.version, res.InputRequests)
	if err != nil {
		return t.fails(err)
	}
	size := weight(a.Result.Raw)
	if !c.asks.held.take(size) {
		return t.fails(inputError(t.method, errTooMany))
	}
	give := sync.OnceFunc(func() { c.asks.held.give(size) })
	return call.Step{Wait: func(resume func(call.Step)) func(error) {
		abort := c.askAll(o, questions, func(answers mcp.InputResponses, err error) {
			give()
			if err != nil {
				resume(t.fails(err))
				return
			}
			resume(t.retry(answers, res.RequestState, 0))
		})
		return func(cause error) {
			give()
			abort(cause)
		}
	}}
}

// comeBack is a round without questions (MRTR-08): after a pause that grows, and a
// few times only. If a page was opened for the call, a person may then say when to
// try again (MRTR-20, URL-17).
func (t *callTag) comeBack(state *string) call.Step {
	t.stateOnly++
	if t.stateOnly <= maxStateOnly {
		return t.retry(nil, state, stateOnlyPause<<(2*(t.stateOnly-1)))
	}
	last, message := t.lastPage()
	if last == nil {
		return t.invalid("more than %d answers in a row that say to come back", maxStateOnly)
	}
	t.stateOnly = 0
	return call.Step{Wait: func(resume func(call.Step)) func(error) {
		p := last
		if over, _ := p.Over(); over { // it was retried before: the server still waits
			var err error
			if p, err = t.client.asks.pages.open(&last.view); err != nil {
				resume(t.fails(err))
				return nil
			}
			t.opened(p, message)
			t.client.showPage(&origin{calls: []*callTag{t}}, p, message, "The server says that the page is not done yet.")
		}
		t.wait(1)
		done := sync.OnceFunc(func() { t.wait(-1) })
		abort := p.Wait(func(err error) {
			done()
			if err != nil {
				resume(t.invalid("the page was not completed: %v", err))
				return
			}
			resume(t.retry(nil, state, 0))
		})
		return func(error) { abort(); done() }
	}}
}

// retry is the next round. The state is sent back as it came, and none if none came
// (MRTR-11).
func (t *callTag) retry(answers mcp.InputResponses, state *string, after time.Duration) call.Step {
	params, err := withInputs(t.params, answers, state)
	if err != nil {
		return t.fails(err)
	}
	t.sent = params
	return call.Step{Retry: &call.Retry{Params: params, Headers: t.headers, After: after}}
}

// withInputs adds to the parameters what the server has asked for.
func withInputs(params json.RawMessage, answers mcp.InputResponses, state *string) (json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if len(params) > 0 {
		if err := jsonx.Unmarshal(params, &members); err != nil {
			return nil, fmt.Errorf("adding to the parameters: %w", err)
		}
	}
	delete(members, "inputResponses")
	delete(members, "requestState")
	if answers != nil {
		raw, err := jsonx.Marshal(answers)
		if err != nil {
			return nil, fmt.Errorf("writing the answers: %w", err)
		}
		members["inputResponses"] = raw
	}
	if state != nil {
		members["requestState"] = jsonx.AppendQuote(nil, *state)
	}
	return jsonx.Marshal(members)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// input is one question of a round, checked.
type input struct {
	key, method string
	question    question
}

// parseInputs checks all questions of a round before anybody is asked. What was not
// declared, or breaks its rules, can not be answered (MRTR-13).
func (c *Client) parseInputs(v mcp.Version, requests mcp.InputRequests) ([]input, error) {
	inputs := make([]input, 0, len(requests))
	for _, key := range sortedKeys(requests) {
		r := requests[key]
		q, err := c.parseQuestion(v, r.Method, r.Params)
		if err != nil {
			return nil, inputError(r.Method, err)
		}
		inputs = append(inputs, input{key, r.Method, q})
	}
	return inputs, nil
}

// answerInputs answers the questions of a task: as a round, but its caller waits.
func (c *Client) answerInputs(ctx context.Context, tag any, requests mcp.InputRequests) (mcp.InputResponses, error) {
	o := &origin{version: mcp.Latest}
	if t, ok := tag.(*callTag); ok {
		o.calls = []*callTag{t}
	}
	if len(requests) > maxEntries {
		return nil, &InputError{Method: mcp.MethodGetTask, Reason: fmt.Sprintf("more than %d questions at once", maxEntries)}
	}
	for _, key := range sortedKeys(requests) {
		c.observeRequest(requests[key].Method, requests[key].Params)
	}
	inputs, err := c.parseInputs(o.version, requests)
	if err != nil {
		return nil, err
	}
	type outcome struct {
		answers mcp.InputResponses
		err     error
	}
	done := make(chan outcome, 1)
	abort := c.askAll(o, inputs, func(answers mcp.InputResponses, err error) { done <- outcome{answers, err} })
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
	client *Client
	origin *origin
	done   func(mcp.InputResponses, error)

	mu      sync.Mutex
	over    bool
	left    int
	answers mcp.InputResponses
	ids     []mcp.ID // of the inbound calls
	table   *inbound.Table
}

// askAll has the questions answered and calls done once, unless it was aborted
// before. It does not block.
func (c *Client) askAll(o *origin, inputs []input, done func(mcp.InputResponses, error)) (abort func(error)) {
	r := &round{client: c, origin: o, done: done, left: len(inputs), answers: make(mcp.InputResponses, len(inputs))}
	c.sys.Go("questions of "+c.server.Name, func() { r.begin(inputs) })
	return func(error) { r.end() }
}

// begin gives each question its actor, and a goroutine.
func (r *round) begin(inputs []input) {
	table, err := r.client.asks.inbox.table()
	if err != nil {
		r.fail(err)
		return
	}
	for _, in := range inputs {
		e := &inputCall{round: r, input: in}
		id := mcp.IntID(r.client.asks.inbox.last.Add(1))
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
		r.client.sys.Go("questions of "+r.client.server.Name, e.Call.Run)
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
	e.result, err = e.question.answer(ctx, e.round.client, e.round.origin)
	return err
}

// Answer implements [inbound.Handler].
func (e *inputCall) Answer(err error) {
	if err != nil {
		e.round.fail(inputError(e.method, err))
		return
	}
	e.round.answered(e.key, e.result)
}

// Drop implements [inbound.Dropper]: the round has ended.
func (e *inputCall) Drop(error) {}
