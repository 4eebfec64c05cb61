package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
)

// reviewed reports whether a person has a look at what is asked and answered.
func (q *questions) reviewed() bool {
	switch q.server.Sampling {
	case SamplingAsk:
		return true
	case SamplingAllow:
		return false
	}
	return !q.opts.SampleFreely
}

// sampleQuestion is a request for a model's answer.
type sampleQuestion struct {
	*asks.Sampling
	*questions
}

// Answer implements [asks.Question]: it lets the Sampler answer, within the limits, with a person's consent to what
// is asked and to what is answered.
func (q *sampleQuestion) Answer(ctx context.Context, o *asks.Origin) (json.RawMessage, error) {
	if !q.maySample(o, q.Params.MaxTokens) {
		return nil, asks.ErrTooMuchSampling
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer o.OnGone(func() { cancel(asks.ErrGone) })()
	sampler, _ := o.Sampler(q.opts.Sampler).(Sampler)
	req := SampleRequest{Server: q.server.Name, Path: o.Path(), Calls: askCalls(o), Params: q.Params}
	if err := q.prepare(ctx, sampler, &req); err != nil {
		return nil, err
	}
	params, err := q.review(ctx, o, req.Params)
	if err != nil {
		return nil, err
	}
	req.Params = params
	limit, stop := context.WithTimeout(ctx, q.opts.AskExpiry)
	defer stop()
	res, err := actors.Guard(func() (*mcp.CreateMessageResult, error) { return sampler.Sample(limit, &req) })
	if err == nil && res == nil {
		err = fmt.Errorf("the Sampler gave no answer")
	}
	if err == nil {
		res, err = q.Fit(res, params)
	}
	if err != nil {
		return nil, q.unsampled(err)
	}
	if res, err = q.reviewAnswer(ctx, o, params, res); err != nil {
		return nil, err
	}
	return mcp.Marshal(res)
}

// prepare lets the Sampler have its look before a person has one. What it adds goes by
// the rules for a server's request.
func (q *sampleQuestion) prepare(ctx context.Context, sampler Sampler, req *SampleRequest) error {
	p, ok := sampler.(SamplePreparer)
	if !ok {
		return nil
	}
	params, err := actors.Guard(func() (*mcp.CreateMessageParams, error) { return p.PrepareSample(ctx, req) })
	switch {
	case err != nil:
		return q.unsampled(err)
	case params == nil:
		return q.unsampled(fmt.Errorf("the Sampler has prepared nothing"))
	}
	if err := q.CheckChange(q.Params, params); err != nil {
		return q.unsampled(fmt.Errorf("the Sampler has broken the request: %v", err))
	}
	req.Params = params
	return nil
}

// unsampled is what the server is told of an error of the Sampler: its own words only
// where they are meant for it.
func (q *questions) unsampled(err error) error {
	q.log.Warn("a server gets no answer of a model", "error", err)
	if wire, ok := errors.AsType[*mcp.Error](err); ok {
		return wire
	}
	return mcp.Errorf(mcp.CodeInternal, "the model gave no answer")
}

// maySample counts a request against the limits of the server, and of the calls that
// it may belong to (SAMP-31, SAMP-32, SECA-43).
func (q *questions) maySample(o *asks.Origin, tokens int64) bool {
	if tokens > math.MaxInt32 || !q.asks.Limits.AllowSample() {
		return false
	}
	allowed := true
	for _, t := range o.Live() {
		allowed = t.Sample() && allowed
	}
	return allowed && q.asks.Limits.AllowTokens(int(tokens))
}

// review has the request accepted, and perhaps changed.
func (q *sampleQuestion) review(ctx context.Context, o *asks.Origin, p *mcp.CreateMessageParams) (*mcp.CreateMessageParams, error) {
	if !q.reviewed() {
		return p, nil
	}
	d := q.decide(ctx, o, &Ask{Kind: AskSampling, Message: p.SystemPrompt, Sampling: p})
	switch {
	case d.Action != mcp.ActionAccept:
		return nil, mcp.ErrUserRejected
	case d.Sampling == nil:
		return p, nil
	}
	if err := q.CheckChange(p, d.Sampling); err != nil {
		q.log.Warn("the changed request for sampling is refused", "error", err)
		return nil, mcp.ErrUserRejected
	}
	changed := *d.Sampling
	changed.MaxTokens = min(changed.MaxTokens, p.MaxTokens) // SAMP-08
	return &changed, nil
}

// reviewAnswer has the answer accepted, and perhaps changed.
func (q *sampleQuestion) reviewAnswer(ctx context.Context, o *asks.Origin, params *mcp.CreateMessageParams, res *mcp.CreateMessageResult) (*mcp.CreateMessageResult, error) {
	if !q.reviewed() {
		return res, nil
	}
	d := q.decide(ctx, o, &Ask{Kind: AskSample, Message: params.SystemPrompt, Sampling: params, Sample: res})
	switch {
	case d.Action != mcp.ActionAccept:
		return nil, mcp.ErrUserRejected
	case d.Sample == nil:
		return res, nil
	}
	changed, err := q.Fit(d.Sample, params)
	if err != nil {
		q.log.Warn("the changed answer to a request for sampling is refused", "error", err)
		return nil, mcp.ErrUserRejected
	}
	return changed, nil
}
