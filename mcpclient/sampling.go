package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
)

// SamplingMode says how far a server may use a model of ours.
type SamplingMode string

// The sampling modes.
const (
	SamplingDefault SamplingMode = ""      // as [AskOptions].SampleFreely says
	SamplingAsk     SamplingMode = "ask"   // a person sees each request, and each answer, before it goes on (SAMP-40)
	SamplingAllow   SamplingMode = "allow" // within the limits, and nobody looks
	SamplingDeny    SamplingMode = "deny"  // it is not even declared to the server
)

func (m SamplingMode) valid() bool {
	switch m {
	case SamplingDefault, SamplingAsk, SamplingAllow, SamplingDeny:
		return true
	}
	return false
}

// samples reports whether the server may ask for a model's answer.
func (c *Client) samples() bool {
	return c.opts.Sampler != nil && !c.server.NoAsk && c.server.Sampling != SamplingDeny
}

// reviewed reports whether a person has a look at what is asked and answered.
func (c *Client) reviewed() bool {
	switch c.server.Sampling {
	case SamplingAsk:
		return true
	case SamplingAllow:
		return false
	}
	return !c.opts.SampleFreely
}

// What a server is told that gets no answer of a model (SAMP-41).
var (
	errUserRejected    = mcp.ErrUserRejected
	errTooMuchSampling = mcp.Errorf(mcp.CodeUserRejected, "sampling refused: too much of it")
)

// sampleQuestion is a request for a model's answer.
type sampleQuestion struct {
	version mcp.Version
	params  *mcp.CreateMessageParams
	tools   bool // are declared
}

// parseSampling checks a request for sampling: tools are declared (SAMP-04), the
// history is in order (SAMP-20 to SAMP-26). Context that was not granted is not passed on
// (SECA-43): before 2025-11-25 there is nothing to declare, so that any server may wish it.
func parseSampling(v mcp.Version, caps *mcp.ClientCapabilities, context bool, params json.RawMessage) (question, error) {
	p := new(mcp.CreateMessageParams)
	if err := mcp.Unmarshal(params, p); err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "%s: %v", mcp.MethodCreateMessage, err)
	}
	if err := checkSampling(p, caps.SamplingTools()); err != nil {
		return nil, err
	}
	if !context {
		p.IncludeContext = mcp.ContextNone
	}
	p.Task = nil
	return &sampleQuestion{v, p, caps.SamplingTools()}, nil
}

func checkSampling(p *mcp.CreateMessageParams, tools bool) error {
	if err := p.Validate(); err != nil {
		return mcp.Errorf(mcp.CodeInvalidParams, "%v", err)
	}
	if !tools && (len(p.Tools) > 0 || p.ToolChoice != nil || hasToolContent(p.Messages)) {
		return mcp.Errorf(mcp.CodeInvalidParams, "tools in sampling were not declared")
	}
	if p.ToolChoice != nil {
		switch p.ToolChoice.Mode {
		case "", mcp.ToolChoiceAuto, mcp.ToolChoiceRequired, mcp.ToolChoiceNone:
		default:
			return mcp.Errorf(mcp.CodeInvalidParams, "unknown toolChoice %.40q", p.ToolChoice.Mode)
		}
	}
	return p.CheckToolBalance()
}

func hasToolContent(messages []mcp.SamplingMessage) bool {
	for _, m := range messages {
		if countToolUse(m.Content) > 0 {
			return true
		}
	}
	return false
}

// countToolUse counts the blocks that have to do with tools.
func countToolUse(cs mcp.Contents) (n int) {
	for _, c := range cs {
		switch c.(type) {
		case *mcp.ToolUseContent, *mcp.ToolResultContent:
			n++
		}
	}
	return n
}

// answer lets the Sampler answer, within the limits, with a person's consent to what
// is asked and to what is answered (SAMP-40).
func (q *sampleQuestion) answer(ctx context.Context, c *Client, o *origin) (json.RawMessage, error) {
	if !c.maySample(o, q.params.MaxTokens) {
		return nil, errTooMuchSampling
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer o.onGone(func() { cancel(errGone) })()
	sampler := o.sampler(c.opts.Sampler)
	req := SampleRequest{Server: c.server.Name, Path: o.path(), Calls: o.asked(), Params: q.params}
	if err := q.prepare(ctx, c, sampler, &req); err != nil {
		return nil, err
	}
	params, err := q.review(ctx, c, o, req.Params)
	if err != nil {
		return nil, err
	}
	req.Params = params
	limit, stop := context.WithTimeout(ctx, c.opts.AskExpiry)
	defer stop()
	res, err := actors.Guard(func() (*mcp.CreateMessageResult, error) { return sampler.Sample(limit, &req) })
	if err == nil && res == nil {
		err = fmt.Errorf("the Sampler gave no answer")
	}
	if err == nil {
		res, err = q.fit(res, params)
	}
	if err != nil {
		return nil, c.unsampled(err)
	}
	if res, err = q.reviewAnswer(ctx, c, o, params, res); err != nil {
		return nil, err
	}
	return mcp.Marshal(res)
}

// prepare lets the Sampler have its look before a person has one. What it adds goes by
// the rules for a server's request.
func (q *sampleQuestion) prepare(ctx context.Context, c *Client, sampler Sampler, req *SampleRequest) error {
	p, ok := sampler.(SamplePreparer)
	if !ok {
		return nil
	}
	params, err := actors.Guard(func() (*mcp.CreateMessageParams, error) { return p.PrepareSample(ctx, req) })
	switch {
	case err != nil:
		return c.unsampled(err)
	case params == nil:
		return c.unsampled(fmt.Errorf("the Sampler has prepared nothing"))
	}
	if err := q.checkChange(q.params, params); err != nil {
		return c.unsampled(fmt.Errorf("the Sampler has broken the request: %v", err))
	}
	req.Params = params
	return nil
}

// unsampled is what the server is told of an error of the Sampler: its own words only
// where they are meant for it.
func (c *Client) unsampled(err error) error {
	c.log.Warn("a server gets no answer of a model", "error", err)
	if wire, ok := errors.AsType[*mcp.Error](err); ok {
		return wire
	}
	return mcp.Errorf(mcp.CodeInternal, "the model gave no answer")
}

// maySample counts a request against the limits of the server, and of the calls that
// it may belong to (SAMP-31, SAMP-32, SECA-43).
func (c *Client) maySample(o *origin, tokens int64) bool {
	if tokens > math.MaxInt32 || !c.asks.limits.gates().samples.Allow() {
		return false
	}
	allowed := true
	for _, t := range o.live() {
		allowed = t.sample() && allowed
	}
	return allowed && c.asks.limits.gates().tokens.AllowN(time.Now(), int(tokens))
}

// review has the request accepted, and perhaps changed.
func (q *sampleQuestion) review(ctx context.Context, c *Client, o *origin, p *mcp.CreateMessageParams) (*mcp.CreateMessageParams, error) {
	if !c.reviewed() {
		return p, nil
	}
	d := c.decide(ctx, o, &Ask{Kind: AskSampling, Message: p.SystemPrompt, Sampling: p})
	switch {
	case d.Action != mcp.ActionAccept:
		return nil, errUserRejected
	case d.Sampling == nil:
		return p, nil
	}
	if err := q.checkChange(p, d.Sampling); err != nil {
		c.log.Warn("the changed request for sampling is refused", "error", err)
		return nil, errUserRejected
	}
	changed := *d.Sampling
	changed.MaxTokens = min(changed.MaxTokens, p.MaxTokens) // SAMP-08
	return &changed, nil
}

// checkChange checks what a request was changed to: it keeps the rules, and brings no
// tools to a server that has not asked with any.
func (q *sampleQuestion) checkChange(from, to *mcp.CreateMessageParams) error {
	if len(from.Tools) == 0 && len(to.Tools) > 0 {
		return errors.New("it has tools now")
	}
	return checkSampling(to, q.tools)
}

// reviewAnswer has the answer accepted, and perhaps changed.
func (q *sampleQuestion) reviewAnswer(ctx context.Context, c *Client, o *origin, params *mcp.CreateMessageParams, res *mcp.CreateMessageResult) (*mcp.CreateMessageResult, error) {
	if !c.reviewed() {
		return res, nil
	}
	d := c.decide(ctx, o, &Ask{Kind: AskSample, Message: params.SystemPrompt, Sampling: params, Sample: res})
	switch {
	case d.Action != mcp.ActionAccept:
		return nil, errUserRejected
	case d.Sample == nil:
		return res, nil
	}
	changed, err := q.fit(d.Sample, params)
	if err != nil {
		c.log.Warn("the changed answer to a request for sampling is refused", "error", err)
		return nil, errUserRejected
	}
	return changed, nil
}

// fit returns an answer that the request, and the revision, allow (SAMP-03, SAMP-06,
// SAMP-10, SAMP-11).
func (q *sampleQuestion) fit(res *mcp.CreateMessageResult, p *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
	out := *res
	if out.Role == "" {
		out.Role = mcp.RoleAssistant
	}
	if out.Model == "" {
		out.Model = "unknown"
	}
	uses := countToolUse(out.Content)
	choice := ""
	if p.ToolChoice != nil {
		choice = p.ToolChoice.Mode
	}
	switch {
	case out.Role != mcp.RoleAssistant:
		return nil, fmt.Errorf("an answer of the role %q", out.Role)
	case len(out.Content) == 0:
		return nil, fmt.Errorf("an answer without content")
	case uses > 0 && (len(p.Tools) == 0 || choice == mcp.ToolChoiceNone):
		return nil, fmt.Errorf("an answer that calls tools where none may be called")
	case uses == 0 && (out.StopReason == mcp.StopToolUse || choice == mcp.ToolChoiceRequired):
		return nil, fmt.Errorf("an answer that calls no tool where one must be called")
	}
	out.Content = out.Content.For(q.version)
	if len(out.Content) > 1 && !q.version.Has(mcp.FeatureSamplingTools) { // one block only
		text := out.Content.Text()
		for _, block := range out.Content {
			if _, ok := block.(*mcp.TextContent); !ok {
				return nil, fmt.Errorf("revision %s has no answers of several blocks", q.version)
			}
		}
		out.Content = mcp.Contents{&mcp.TextContent{Text: text}}
	}
	return &out, nil
}
