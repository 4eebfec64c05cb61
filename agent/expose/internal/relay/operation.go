// operation.go: the work that one call started, and the call that waits for it.
//
//	           start                        outcome
//	(none) ───────────▶ under way ─────────────────────────▶ ended
//	                      │    ▲
//	  the call ends a round│    │ the call comes again
//	                      ▼    │
//	                    left behind ── no call comes back ──▶ cancelled

package relay

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// Call is a call of a client: a *mcpserver.ToolRequest, PromptRequest or ResourceRequest.
type Call interface {
	mcpserver.Requester
	Ask(ctx context.Context, questions ...*mcpserver.Question) error
	Client() mcpserver.Client
	Progress(progress, total float64, message string)
	Log(level mcp.LogLevel, logger string, data any)
	Task() string
}

// MaxQuestions bounds the questions of one operation; more are an error.
const MaxQuestions = 200

// maxRound bounds the questions of one round: clients accept few.
const maxRound = 8

var (
	// ErrUnknown is the outcome of a call that comes again after its operation is gone.
	ErrUnknown = errors.New("the outcome of this call is unknown: the process that worked on it no longer has it, and it was not started again")
	errLeft    = errors.New("the client has not come back for the call")
	errAsked   = errors.New("too many questions in one call")
)

// Operation is the work that one call started. It is the [mcpclient.Human] and the
// [mcpclient.Sampler] of that work.
type Operation struct {
	id     string
	client *Client

	ctx    context.Context // ends with the call, not with a round of it
	cancel context.CancelCauseFunc
	ended  actors.Reply[any] // the outcome
	wake   chan struct{}     // has room for one: there is a question
	slot   chan struct{}     // has room for one: the call that waits holds it

	steps atomic.Uint64 // reports of progress without a measure

	// Guarded by the client's lock, with the fields of their rounds.
	call  Call        // that waits; nil if none does
	asked []*round    // in the order in which they were put
	open  []*question // not put yet, in order
	count int         // of all questions
}

func (op *Operation) setCall(call Call) {
	op.client.mu.Lock()
	defer op.client.mu.Unlock()
	op.call = call
}

// waiting returns the call that waits; nil if none does.
func (op *Operation) waiting() Call {
	op.client.mu.Lock()
	defer op.client.mu.Unlock()
	return op.call
}

// round returns the questions of the n-th round, nil if there are none. A handler that runs
// again puts its earlier rounds again, as the protocol demands (MRTR-30); the answers are in
// its request.
func (op *Operation) round(n int, call Call) *round {
	op.client.mu.Lock()
	defer op.client.mu.Unlock()
	if n < len(op.asked) {
		return op.asked[n]
	}
	op.open = slices.DeleteFunc(op.open, func(q *question) bool {
		if q.withdrawn() {
			return true
		}
		can := q.needs(call.Client().Capabilities)
		if !can {
			q.answer.Complete(nil, ErrCannotAsk)
		}
		return !can
	})
	if len(op.open) == 0 {
		return nil
	}
	// Questions that need no person do not wait for questions that need one.
	person := !slices.ContainsFunc(op.open, func(q *question) bool { return !q.person })
	r := new(round)
	op.open = slices.DeleteFunc(op.open, func(q *question) bool {
		now := q.person == person && len(r.questions) < maxRound
		if now {
			r.questions = append(r.questions, q)
		}
		return now
	})
	op.asked = append(op.asked, r)
	return r
}

// add queues a question.
func (op *Operation) add(q *question) error {
	op.client.mu.Lock()
	defer op.client.mu.Unlock()
	if op.count++; op.count > MaxQuestions {
		return errAsked
	}
	q.key = "q" + strconv.Itoa(op.count)
	op.open = append(op.open, q)
	select {
	case op.wake <- struct{}{}:
	default:
	}
	return nil
}

// Owner implements [mcpclient.Owned]: one person answers all calls of a client. A shared
// client may be several persons, so there each operation has its own (SECA-6).
func (op *Operation) Owner() any {
	if op.client.Shared {
		return op
	}
	return op.client
}

// Progress passes on how far the operation has come.
func (op *Operation) Progress(p mcpclient.Progress) {
	if call := op.waiting(); call != nil {
		total := 0.0
		if p.Total != nil {
			total = *p.Total
		}
		call.Progress(p.Progress, total, p.Message)
	}
}

// Step reports progress that has no measure.
func (op *Operation) Step(message string) {
	n := op.steps.Add(1)
	if call := op.waiting(); call != nil {
		call.Progress(float64(n), 0, message)
	}
}

// Log passes a log message on.
func (op *Operation) Log(level mcp.LogLevel, logger string, data any) {
	if call := op.waiting(); call != nil {
		call.Log(level, logger, data)
	}
}

// Context ends with the operation.
func (op *Operation) Context() context.Context { return op.ctx }
