package asks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/login"
)

// Limits of one call (MRTR-15, URL-41, ROB-9).
const (
	MaxRounds      = 10       // with inputs, or without
	MaxEntries     = 16       // questions of one round
	MaxState       = 64 << 10 // bytes of requestState
	MaxStateOnly   = 3        // rounds in a row that ask for nothing
	StateOnlyPause = 250 * time.Millisecond
	MaxURLRounds   = 3 // retries after -32042
)

// rounds is what the Follow of a call knows of its rounds.
type rounds struct {
	params json.RawMessage // as the caller gave them: every retry has these (MRTR-11)
	inner  func(call.Answer) call.Step
	// Headers are those of all retries, nil as in the request; sent are the newest parameters,
	// nil those of the request.
	Headers   []mcp.Header
	sent      json.RawMessage
	corrected bool

	// Touched in the call's actor only, but count, which is read when the call is over.
	count, stateOnly, urlRounds int
	Authorizations              login.Count // waits for one

	// Guarded by the lock of the call: a person agrees to pages while the call goes on.
	message string  // of the server, about the last page
	pages   []*Page // that were opened for the call, the last one last
	closed  bool    // the call is over
}

// Opened remembers a page that the user has agreed to.
func (t *Call) Opened(p *Page, message string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.message = message
	t.pages = append(t.pages, p)
	p.join(t)
}

// lastPage is the last page that was opened for the call; nil if there is none.
func (t *Call) lastPage() (p *Page, message string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.pages) == 0 {
		return nil, ""
	}
	return t.pages[len(t.pages)-1], t.message
}

// ClosePages ends the pages of a call that is over, as far as only this call knows of them:
// with nil if the server has carried it out, which it does when they are completed.
func (t *Call) ClosePages(err error) {
	t.mu.Lock()
	pages := t.pages
	t.pages, t.closed = nil, true
	t.mu.Unlock()
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

// Follow is the [call.Request].Follow: what a server asks for in its answer is looked
// after here, all else is the caller's.
func (t *Call) Follow(a call.Answer) call.Step {
	if a.Err == nil && a.Result.Type == mcp.ResultInputRequired {
		return t.inputRequired(a)
	}
	if e, ok := errors.AsType[*mcp.Error](a.Err); ok && e.Code == mcp.CodeURLElicitationRequired {
		if step, ok := t.urlRequired(e); ok {
			return step
		}
	}
	if step, ok := t.asks.Follow(t, a); ok {
		return step
	}
	if t.inner != nil {
		return t.inner(a)
	}
	return call.Step{}
}

// fails ends the call because of what the server asks for.
func (t *Call) fails(err error) call.Step {
	return call.Step{Outcome: &call.Outcome{Err: err}}
}

func (t *Call) invalid(format string, args ...any) call.Step {
	return t.fails(t.asks.Invalid(t.Method, Brief(fmt.Sprintf(format, args...))))
}

// inputRequired is a round of a modern server (MRTR-10 to MRTR-17).
func (t *Call) inputRequired(a call.Answer) call.Step {
	switch t.Method {
	case mcp.MethodCallTool, mcp.MethodGetPrompt, mcp.MethodReadResource:
	default: // MRTR-01
		return t.invalid("an answer that asks for input")
	}
	var res mcp.InputRequiredResult
	if err := mcp.Unmarshal(a.Result.Raw, &res); err != nil {
		return t.invalid("%v", err) // MRTR-02, MRTR-03
	}
	if t.count++; t.count > MaxRounds {
		return t.invalid("more than %d rounds of input", MaxRounds)
	}
	if len(res.InputRequests) > MaxEntries {
		return t.invalid("more than %d questions at once", MaxEntries)
	}
	if res.RequestState != nil && len(*res.RequestState) > MaxState {
		return t.invalid("a requestState of more than %d bytes", MaxState)
	}
	if len(res.InputRequests) == 0 {
		if res.RequestState == nil {
			return t.invalid("the server asks for input and names none")
		}
		t.note(&res, a.Result.Raw)
		return t.comeBack(res.RequestState)
	}
	t.stateOnly = 0
	asks := t.asks
	o := &Origin{Version: asks.Version(), Calls: []*Call{t}}
	for _, key := range sortedKeys(res.InputRequests) {
		q := res.InputRequests[key]
		asks.Observe(q.Method, q.Params)
	}
	questions, err := asks.parseInputs(o.Version, res.InputRequests)
	if err != nil {
		return t.fails(err)
	}
	size := weight(a.Result.Raw)
	if !asks.memory.take(size) {
		return t.fails(asks.Failed(t.Method, ErrTooMany))
	}
	t.note(&res, a.Result.Raw)
	give := sync.OnceFunc(func() { asks.memory.give(size) })
	return call.Step{Wait: func(resume func(call.Step)) func(error) {
		abort := asks.askAll(o, questions, func(answers mcp.InputResponses, err error) {
			give()
			if err != nil {
				resume(t.fails(err))
				return
			}
			t.resend(resume, t.retry(answers, res.RequestState, 0))
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
func (t *Call) comeBack(state *string) call.Step {
	t.stateOnly++
	if t.stateOnly <= MaxStateOnly {
		next := t.retry(nil, state, StateOnlyPause<<(2*(t.stateOnly-1)))
		if t.Resend == nil {
			return next
		}
		return call.Step{Clocks: true, Wait: func(resume func(call.Step)) func(error) { t.resend(resume, next); return nil }}
	}
	last, message := t.lastPage()
	if last == nil {
		return t.invalid("more than %d answers in a row that say to come back", MaxStateOnly)
	}
	t.stateOnly = 0
	return call.Step{Wait: func(resume func(call.Step)) func(error) {
		p := last
		if over, _ := p.Over(); over { // it was retried before: the server still waits
			var err error
			if p, err = t.asks.pages.open(&last.View); err != nil {
				resume(t.fails(err))
				return nil
			}
			t.Opened(p, message)
			t.asks.ShowPage(&Origin{Calls: []*Call{t}}, p, message, "The server says that the page is not done yet.")
		}
		t.Wait(1)
		done := sync.OnceFunc(func() { t.Wait(-1) })
		abort := p.Wait(func(err error) {
			done()
			if err != nil {
				resume(t.invalid("the page was not completed: %v", err))
				return
			}
			t.resend(resume, t.retry(nil, state, 0))
		})
		return func(error) { abort(); done() }
	}}
}

// note reports a round before anything is asked.
func (t *Call) note(res *mcp.InputRequiredResult, raw json.RawMessage) {
	if t.OnRound != nil {
		t.OnRound(res, len(raw))
	}
}

// resend sends the next round once the owner of the call knows of it.
func (t *Call) resend(resume func(call.Step), next call.Step) {
	if t.Resend == nil || next.Retry == nil {
		resume(next)
		return
	}
	t.Resend(func(err error) {
		if err != nil {
			next = t.fails(err)
		}
		resume(next)
	})
}

// GoOn makes the request that of the next round of a call that another process has left, once the
// questions of the round have their answers.
func (t *Call) GoOn(ctx context.Context, req *call.Request, round *mcp.InputRequiredResult) (err error) {
	if v := t.asks.Version(); v.Era() != mcp.EraModern {
		return fmt.Errorf("the server wants input, and speaks %s now, which has no rounds", v)
	}
	t.count++
	var answers mcp.InputResponses
	if len(round.InputRequests) > 0 {
		if answers, err = t.asks.AnswerInputs(ctx, t, round.InputRequests); err != nil {
			return err
		}
	}
	t.sent, err = withInputs(t.params, answers, round.RequestState)
	req.Params = t.sent
	return err
}

// retry is the next round. The state is sent back as it came, and none if none came
// (MRTR-11).
func (t *Call) retry(answers mcp.InputResponses, state *string, after time.Duration) call.Step {
	params, err := withInputs(t.params, answers, state)
	if err != nil {
		return t.fails(err)
	}
	t.sent = params
	return call.Step{Retry: &call.Retry{Params: params, Headers: t.Headers, After: after}}
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
