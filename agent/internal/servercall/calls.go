// Package servercall makes the calls of runs to tools of servers, and finds out what is known of those
// that fail.
package servercall

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/agent/internal/sampler"
	"github.com/troupe-dev/troupe/agent/internal/serverask"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// MaxReason bounds an error of a server that a model or a journal gets, in bytes.
const MaxReason = 1 << 10

// Calls are the calls to the servers of a host.
type Calls struct {
	Host     *mcpclient.Host
	Sampling *sampler.Service                          // nil if servers may not ask a model of the runtime's
	Sampler  mcpclient.Sampler                         // the run's own, in place of that; nil for none
	Roots    func(context.Context) ([]mcp.Root, error) // the run's own; nil is those of the host
}

// Start makes calls of a server's tool.
func (c Calls) Start(name string, safe bool) func(context.Context, *loop.Call, func(*mcp.CallToolResult, error)) {
	return func(ctx context.Context, todo *loop.Call, done func(*mcp.CallToolResult, error)) {
		opts, over := c.options(todo, safe)
		c.Host.Start(ctx, name, todo.Arguments, opts).OnDone(func(res *mcp.CallToolResult, err error) {
			over()
			done(outcome(res, err))
		})
	}
}

// TakeUp waits for tasks of a server's tool, and sends the next rounds of calls. A task that the
// server does not know any more, or that cannot be asked for, has an unknown outcome.
func (c Calls) TakeUp(name string) func(context.Context, *loop.Call, *runlog.CallState) (*mcp.CallToolResult, error) {
	return func(ctx context.Context, todo *loop.Call, was *runlog.CallState) (*mcp.CallToolResult, error) {
		opts, over := c.options(todo, false)
		defer over()
		if was.Round != nil {
			return c.nextRound(ctx, name, todo, was, opts)
		}
		task, err := c.Host.Task(ctx, name, was.Task, opts)
		if err != nil {
			return nil, &loop.UnknownError{Err: err}
		}
		res, err := task.Wait(ctx)
		switch {
		case err == nil:
			return outcome(res, nil)
		case ctx.Err() != nil && !goesOnElsewhere(context.Cause(ctx)):
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
			defer cancel()
			err = errors.Join(err, task.Cancel(end))
		case mcpclient.OutcomeOf(err) == mcpclient.OutcomeAnswered:
			return outcome(nil, err)
		}
		return nil, &loop.UnknownError{Err: err}
	}
}

// nextRound goes on with a call whose server waits for input. A server that does not take its own
// state any more has not carried out the call: it is begun anew if it may be made twice.
func (c Calls) nextRound(ctx context.Context, name string, todo *loop.Call, was *runlog.CallState, opts *mcpclient.CallOptions) (*mcp.CallToolResult, error) {
	opts.Round = &mcp.InputRequiredResult{InputRequests: was.Round.Requests, RequestState: was.Round.State}
	res, err := c.Host.Call(ctx, name, todo.Arguments, opts)
	if errors.Is(err, mcp.ErrInvalidParams) && was.Intent.Safe && todo.Tool().Safe {
		opts.Round = nil
		res, err = c.Host.Call(ctx, name, todo.Arguments, opts)
	}
	return outcome(res, err)
}

// goesOnElsewhere reports whether a run that ends here with this cause goes on in another process,
// or later.
func goesOnElsewhere(cause error) bool {
	return errors.Is(cause, loop.ErrSuspended) || errors.Is(cause, loop.ErrLeft)
}

// cancelTime bounds the cancelling of a task.
const cancelTime = 2 * time.Second

// options are those of one call. Over is to be called once it has ended.
func (c Calls) options(todo *loop.Call, safe bool) (opts *mcpclient.CallOptions, over func()) {
	sampler, over := c.Sampler, func() {}
	if sampler == nil {
		sampler, over = c.Sampling.For(todo)
	}
	return &mcpclient.CallOptions{
		Meta:       mcp.Meta{MetaIdempotencyKey: jsonx.AppendQuote(nil, todo.Key)},
		Definition: todo.Tool().Pin, Safe: safe, Human: &serverask.Human{Call: todo}, Sampler: sampler, Roots: c.Roots,
		Progress: func(p mcpclient.Progress) {
			total := 0.0
			if p.Total != nil {
				total = *p.Total
			}
			todo.Progress(p.Progress, total, p.Message)
		},
		Keep: true, OnSend: todo.Dispatch, OnTask: func(t *mcpclient.Task) { todo.TaskMade(t.ID()) }, KeepTask: goesOnElsewhere,
		OnRound: func(r *mcp.InputRequiredResult, size int) { todo.RoundMade(r.InputRequests, r.RequestState, size) },
		OnInstance: func(w *mcpclient.InstanceWait) {
			if w == nil {
				todo.WaitsFor("")
			} else {
				todo.WaitsFor(w.String())
			}
		},
	}, over
}

// MetaIdempotencyKey is that of package agent.
const MetaIdempotencyKey = "dev.troupe/idempotencyKey"

// outcome returns the outcome of a call that has returned. An error that is not an
// [loop.UnknownError] says that the call surely had no effect, or that the server
// itself named the failure (TOOL-10); a result, that the tool ran.
func outcome(res *mcp.CallToolResult, err error) (*mcp.CallToolResult, error) {
	var output *mcpclient.OutputError
	var long *mcpclient.MessageTooLongError
	switch {
	case err == nil && mcpclient.SaysUnknown(res):
		return nil, &loop.UnknownError{Err: errors.New(clip.Text(res.Content.Text(), MaxReason))}
	case err == nil:
		return res, nil
	case mcpclient.OutcomeOf(err) == mcpclient.OutcomeUnknown:
		return nil, &loop.UnknownError{Err: err}
	case errors.As(err, &long): // the tool ran
		return mcp.ErrorResult("the tool ran, but %s", clip.Text(long.Error(), MaxReason)), nil
	case errors.As(err, &output) && output.Result != nil: // of the result itself the model sees nothing (TOOL-16)
		return mcp.ErrorResult("%s", clip.Text(err.Error(), MaxReason)), nil
	}
	return nil, err
}
