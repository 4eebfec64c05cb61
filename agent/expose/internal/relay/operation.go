// operation.go: the work that one call started, and who waits for it.
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
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// Call is a call of a client: what *mcpserver.ToolRequest, PromptRequest and ResourceRequest
// have in common.
type Call interface {
	mcpserver.Requester
	Ask(ctx context.Context, questions ...*mcpserver.Question) error
	Client() mcpserver.Client
	Progress(progress, total float64, message string)
	Log(level mcp.LogLevel, logger string, data any)
	Task() string
}

// tasker is a call that can become a task.
type tasker interface {
	BeginTask(ctx context.Context) error
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

	// mu guards the fields below. The call that waits, the work and its questions change them
	// in passing, and the call blocks in its own goroutine, which an actor could not.
	mu    sync.Mutex
	call  Call        // that waits; nil if none does
	asked []*round    // in the order in which they were put
	open  []*question // not put yet, in order
	count int         // of all questions
}

// round is the questions that were put to the client at once.
type round struct {
	questions []*question
	withdraw  func() // takes the whole round back; nil while that is impossible
}

// Run is the body of a handler: it starts work, or finds the work that an earlier round of the
// call started, puts its questions to the client, and returns its outcome. The work ends with
// the call.
func Run[T any](ctx context.Context, c *Client, call Call, work func(ctx context.Context, op *Operation) (T, error)) (T, error) {
	var none T
	fresh := false
	id, err := mcpserver.Once(ctx, call, "operation", func(context.Context) (string, error) {
		fresh = true
		return uuid.NewString(), nil
	})
	if err != nil {
		return none, err
	}
	var op *Operation
	if fresh {
		op, err = c.start(id, call, func(op *Operation) (any, error) { return work(op.ctx, op) })
	} else {
		op, err = c.ops.find(id, c.Owner)
	}
	if err != nil {
		return none, err
	}
	out, err := op.attend(ctx, call)
	if err != nil {
		return none, err
	}
	return out.(T), nil
}

func (c *Client) newOperation(id string, call Call) *Operation {
	op := &Operation{id: id, client: c, call: call, wake: make(chan struct{}, 1), slot: make(chan struct{}, 1)}
	op.ctx, op.cancel = context.WithCancelCause(c.ctx)
	return op
}

// start begins work as a task of the system. Its first reports already reach the call.
func (c *Client) start(id string, call Call, work func(*Operation) (any, error)) (*Operation, error) {
	op := c.newOperation(id, call)
	if err := c.ops.add(op); err != nil {
		op.cancel(err)
		return nil, err
	}
	c.add(op)
	c.ops.System.Go("expose", func() {
		out, err := actors.Guard(func() (any, error) { return work(op) })
		op.ended.Complete(out, err)
		op.cancel(nil)
		c.remove(op)
	})
	return op, nil
}

// attend puts the operation's questions to the client of the call until it has ended.
func (op *Operation) attend(ctx context.Context, call Call) (any, error) {
	select {
	case op.slot <- struct{}{}: // always, for the call that started it
	default:
		select {
		case op.slot <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	defer func() { <-op.slot }()
	op.client.ops.resume(op)
	op.setCall(call)
	err := op.serve(ctx, call)
	op.setCall(nil)
	switch {
	case err == nil:
		op.client.ops.remove(op)
		return op.ended.Result()
	case comesAgain(err):
		op.client.ops.leave(op)
	default:
		op.cancel(err)
		op.client.ops.remove(op)
	}
	return nil, err
}

// serve returns nil once the operation has ended.
func (op *Operation) serve(ctx context.Context, call Call) error {
	var long <-chan time.Time
	task, takes := call.(tasker)
	if takes {
		clock := time.NewTimer(op.client.ops.TaskAfter)
		defer clock.Stop()
		long = clock.C
	}
	for next := 0; ; {
		r := op.round(next, call)
		if r == nil {
			select {
			case <-op.ended.Done():
				return nil
			case <-op.wake:
			case <-long:
				_ = task.BeginTask(ctx) // where it cannot be a task it goes on as a call
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		}
		next++
		if err := op.put(ctx, call, r); err != nil {
			return err
		}
	}
}

// comesAgain reports whether the error that ends a handler lets it run again.
func comesAgain(err error) bool {
	_, answer := errors.AsType[*mcpserver.AnswerError](err)
	return answer || errors.Is(err, mcpserver.ErrSuspended) || errors.Is(err, mcpserver.ErrAbandoned)
}

func (op *Operation) setCall(call Call) {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.call = call
}

// waiting returns the call that waits; nil if none does.
func (op *Operation) waiting() Call {
	op.mu.Lock()
	defer op.mu.Unlock()
	return op.call
}

// round returns the questions of the n-th round, nil if there are none. A handler that runs
// again puts its earlier rounds again, as the protocol demands (MRTR-30); the answers are in
// its request.
func (op *Operation) round(n int, call Call) *round {
	op.mu.Lock()
	defer op.mu.Unlock()
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
	// Questions that need no person do not wait for those that do.
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
	op.mu.Lock()
	defer op.mu.Unlock()
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

// CallOptions are those of a call of a backend that is part of the operation.
func (op *Operation) CallOptions() *mcpclient.CallOptions {
	o := &mcpclient.CallOptions{Human: op, Progress: op.Progress}
	if op.client.Samples() {
		o.Sampler = op
	}
	if op.client.HasRoots() {
		o.Roots = op.Roots
	}
	return o
}
