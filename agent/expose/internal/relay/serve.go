package relay

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcpserver"
)

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

func (c *Client) newOperation(id string, call Call) *Operation {
	op := &Operation{id: id, client: c, call: call, wake: make(chan struct{}, 1), slot: make(chan struct{}, 1)}
	op.ctx, op.cancel = context.WithCancelCause(c.ctx)
	return op
}

// tasker is a call that can become a task.
type tasker interface {
	BeginTask(ctx context.Context) error
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
