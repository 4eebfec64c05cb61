package mcpclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
	"github.com/troupe-dev/troupe/mcpclient/internal/params"
	"github.com/troupe-dev/troupe/mcpclient/internal/tracecontext"
)

// An operation goes through the same steps in both of its drivers: [Client.do] on its
// caller's goroutine, and [Client.start], which holds none. The request is the operation's
// from begin on: each is made for one.

// begin is the first step of an operation. The options may be nil, and so may end, which
// reports to the trace.
func (c requests) begin(ctx context.Context, req *call.Request, o *CallOptions) (_ context.Context, tag *asks.Call, end func(bool, error)) {
	tag = c.requests.newTag(req.Method, req.Name, o)
	if c.opts.Trace != nil {
		ctx, end = c.opts.Trace(ctx, c.requests.operation(req))
	}
	return ctx, tag, end
}

// do carries out a logical request, and waits for its outcome.
func (c requests) do(ctx context.Context, req *call.Request, o *CallOptions) (raw json.RawMessage, err error) {
	ctx, tag, end := c.requests.begin(ctx, req, o)
	err = errPanicked
	defer func() { finished(tag, end, raw, err) }()
	if failure := of(tag).requests.ready(ctx, tag, req, o, c.requests.lent(ctx, tag, o)); failure != nil {
		err = failure
		return nil, err
	}
	if o != nil && o.Round != nil {
		if failure := tag.GoOn(ctx, req, o.Round); failure != nil {
			err = of(tag).failed(req.Method, &notSentError{failure})
			return nil, err
		}
	}
	res, failure := of(tag).conn.Do(ctx, req)
	raw, err = of(tag).requests.outcome(tag, res, failure)
	return raw, err
}

// start carries out a logical request. Done is called once with its outcome: before start
// returns, or on a goroutine of the system.
func (c requests) start(ctx context.Context, req *call.Request, o *CallOptions, cancelled *canceller, done func(json.RawMessage, error)) {
	var tag *asks.Call
	var end func(bool, error)
	if _, err := actors.Guard(func() (_ struct{}, _ error) { ctx, tag, end = c.requests.begin(ctx, req, o); return }); err != nil {
		done(nil, err)
		return
	}
	over := func(raw json.RawMessage, err error) {
		defer done(raw, err)
		finished(tag, end, raw, err)
	}
	c.requests.lend(ctx, tag, o, cancelled, func(err error) {
		if _, err = actors.Guard(func() (struct{}, error) { return struct{}{}, of(tag).requests.ready(ctx, tag, req, o, err) }); err != nil {
			over(nil, err)
			return
		}
		cancelled.sends(of(tag).conn.Go(ctx, req, func(res call.Result, err error) {
			over(actors.Guard(func() (json.RawMessage, error) { return of(tag).requests.outcome(tag, res, err) }))
		}))
	})
}

// canceller ends what an operation waits for, at each of its steps. A context for each would take
// ten times its memory while thousands wait.
type canceller struct {
	over    atomic.Bool                             // it was cancelled: each further step ends as it begins
	waiting atomic.Pointer[context.CancelCauseFunc] // ends the wait for an instance; nil without one
	sent    atomic.Pointer[call.Call]               // nil before, and after its outcome
}

func (c *canceller) waits(end context.CancelCauseFunc) {
	c.waiting.Store(&end)
	if c.over.Load() {
		end(context.Canceled)
	}
}

func (c *canceller) sends(sent *call.Call) {
	c.sent.Store(sent)
	if c.over.Load() {
		sent.Cancel(context.Canceled)
	}
	if sent.Completed() {
		c.forget() // it may have been called before
	}
}

// cancel ends what the operation waits for, now and later.
func (c *canceller) cancel() {
	c.over.Store(true)
	if end := c.waiting.Load(); end != nil {
		(*end)(context.Canceled)
	}
	if sent := c.sent.Load(); sent != nil {
		sent.Cancel(context.Canceled)
	}
}

// forget says that the operation has its outcome.
func (c *canceller) forget() {
	c.waiting.Store(nil)
	c.sent.Store(nil)
}

// of returns the client that a call is made on.
func of(t *asks.Call) *Client { return t.Client.(*Client) }

// ready completes the request once the call has its instance, or has failed to get one.
func (c requests) ready(ctx context.Context, t *asks.Call, req *call.Request, o *CallOptions, err error) error {
	if err != nil {
		return c.failed(req.Method, &notSentError{err})
	}
	return c.requests.complete(ctx, t, req, o)
}

// finished is the last step, whatever the operation has come to.
func finished(t *asks.Call, end func(toolError bool, err error), raw json.RawMessage, err error) {
	t.LeaveTurn(true)
	if end != nil {
		end(err == nil && t.Method == mcp.MethodCallTool && failedTool(raw), err)
	}
}

var errPanicked = errors.New("it panicked")

func (c requests) operation(req *call.Request) *Operation {
	op := &Operation{Server: c.server.Name, Method: req.Method, Name: req.Name, Transport: "pipe"}
	if info := c.info.Load(); info != nil {
		op.Version = info.Version
	}
	switch {
	case c.server.URL != "":
		op.Transport, op.Address = "tcp", c.server.origin()
	case c.server.Connect != nil:
		op.Transport = "inproc"
	case c.server.Command == "":
		op.Transport = "tcp"
	}
	return op
}

// failedTool reports whether the result of a tool says that it failed.
func failedTool(raw json.RawMessage) bool {
	res, err := mcp.DecodeCallToolResult(raw)
	return err == nil && res.IsError
}

// traced returns meta with the members of the request's trace context (META-04).
func (c requests) traced(ctx context.Context, meta mcp.Meta) mcp.Meta {
	if c.opts.TraceContext == nil {
		return meta
	}
	return tracecontext.Add(c.opts.TraceContext(ctx), meta, c.log)
}

// newTag makes the tag of a call. The options may be nil.
func (c requests) newTag(method, name string, o *CallOptions) *asks.Call {
	t := &asks.Call{Method: method, Name: name, Human: c.opts.Human, Sampler: c.opts.Sampler}
	t.SetClient(c.questions.asks, c.Client)
	if o != nil {
		if o.Sampler != nil {
			t.Sampler = o.Sampler
		}
		if o.Human != nil {
			t.Human = o.Human
		}
		if o.NoAsk {
			t.Human = nil
		}
		t.Path, t.OnWait, t.Roots, t.Listed = o.Path, o.OnWait, o.Roots, o.listed
		t.OnRound, t.Resend = o.OnRound, o.before()
	}
	return t
}

// complete makes the request that of the tag, which has its instance.
func (c requests) complete(ctx context.Context, t *asks.Call, req *call.Request, o *CallOptions) error {
	req.Idle = cmp.Or(req.Idle, c.server.IdleTimeout)
	req.Max = cmp.Or(req.Max, c.server.CallTimeout)
	req.Meta = params.Leveled(c.requests.traced(ctx, req.Meta), c.era(), c.logLevel())
	if err := c.tools.mirror(ctx, req); err != nil {
		return c.failed(req.Method, &notSentError{err})
	}
	req.Tag, req.Follow, req.Before = t, t.Begin(req.Params, req.Follow), o.before()
	return nil
}

// outcome is what the request of the tag has come to.
func (c requests) outcome(t *asks.Call, res call.Result, err error) (json.RawMessage, error) {
	t.ClosePages(err)
	if err != nil {
		if t.Ends(err); !answered(err) {
			t.End()
		}
		return nil, c.failed(t.Method, err)
	}
	return res.Raw, nil
}

// answered reports whether the server has ended a call that failed with err.
func answered(err error) bool {
	return call.Heard(err) || errors.Is(err, ErrInput)
}

// originOf is the origin of a question about one call.
func (c requests) originOf(o *CallOptions, method, name string) *asks.Origin {
	return &asks.Origin{Calls: []*asks.Call{c.requests.newTag(method, name, o)}}
}
