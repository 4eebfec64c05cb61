package agent

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/troupe-dev/troupe/actors/budget"
	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/sampling"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// sampler answers requests that belong to no call of a run, or to an unknown one.
type sampler struct{ of *samplingService }

// PrepareSample implements [mcpclient.SamplePreparer].
func (s sampler) PrepareSample(ctx context.Context, req *mcpclient.SampleRequest) (*mcp.CreateMessageParams, error) {
	return s.of.prepare(ctx, req, "", nil)
}

// Sample implements [mcpclient.Sampler].
func (s sampler) Sample(ctx context.Context, req *mcpclient.SampleRequest) (*mcp.CreateMessageResult, error) {
	return s.of.sample(ctx, req, nil)
}

// callSampler answers what a server asks during one call of a run.
type callSampler struct {
	of   *samplingService
	call *loop.Call
	over atomic.Bool // the call has ended: nothing more is the run's
}

// Owner says that all calls of a run are one's, and those of two runs never: see
// [mcpclient.CallOptions].Sampler.
func (s *callSampler) Owner() any { return s.call.Run }

// callSampler makes what answers for the model during a call; over says that the call
// has ended. It is nil where servers may not ask the runtime's.
func (s *servers) callSampler(call *loop.Call) (_ mcpclient.Sampler, over func()) {
	if s.sampling == nil {
		return nil, func() {}
	}
	own := &callSampler{of: s.sampling, call: call}
	return own, func() { own.over.Store(true) }
}

// instructions are what a server says of itself.
func (s *servers) instructions(server string) string {
	c, err := s.host.Client(server)
	if err != nil {
		return ""
	}
	info := c.Status().Info
	if info == nil {
		return ""
	}
	return info.Instructions
}

// PrepareSample implements [mcpclient.SamplePreparer].
func (s *callSampler) PrepareSample(ctx context.Context, req *mcpclient.SampleRequest) (*mcp.CreateMessageParams, error) {
	if s.over.Load() {
		return s.of.prepare(ctx, req, "", nil)
	}
	return s.of.prepare(ctx, req, s.call.Run, s.call.Budget())
}

// Sample implements [mcpclient.Sampler].
func (s *callSampler) Sample(ctx context.Context, req *mcpclient.SampleRequest) (*mcp.CreateMessageResult, error) {
	if s.over.Load() {
		return s.of.sample(ctx, req, nil)
	}
	return s.of.sample(ctx, req, s.call)
}

// payer is a [loop.Call] that pays for what is sampled.
type payer interface {
	Budget() *budget.Account
	Charge(*budget.Hold, runlog.Spent)
}

// refuse is what a server is told that gets no answer: the code of a user's refusal,
// and the reason, which the user reads in the server's error (SAMP-41).
func refuse(format string, args ...any) error {
	return mcp.Errorf(mcp.CodeUserRejected, "sampling refused: "+format, args...)
}

// prepare refuses a request that the policy does not allow before a person sees it,
// and adds the context that was granted. Run and account are those of the call, if it is
// known.
func (s *samplingService) prepare(ctx context.Context, req *mcpclient.SampleRequest, run string, account *budget.Account) (*mcp.CreateMessageParams, error) {
	one := s.servers[req.Server]
	switch {
	case one == nil || one.account == nil:
		return nil, refuse("the server may not ask a model")
	case !one.rate.Allow():
		return nil, refuse("more than %d requests in a minute", one.rate.Burst())
	}
	p := *req.Params
	if most := int64(one.policy.MaxTokens); most > 0 {
		p.MaxTokens = min(p.MaxTokens, most)
	}
	if err := s.addContext(ctx, one, run, &p); err != nil {
		return nil, err
	}
	turn, err := sampling.Request(&p)
	if err != nil {
		return nil, err
	}
	if _, _, err := s.reserve(one, account, turn, false); err != nil {
		return nil, err
	}
	return &p, nil
}

// sample asks the model within the limits of the server, and of the run that makes the
// call; nil is none.
func (s *samplingService) sample(ctx context.Context, req *mcpclient.SampleRequest, call payer) (*mcp.CreateMessageResult, error) {
	one := s.servers[req.Server]
	if one == nil || one.account == nil {
		return nil, refuse("the server may not ask a model")
	}
	turn, err := sampling.Request(req.Params)
	if err != nil {
		return nil, err
	}
	if one.policy.Models != nil {
		if turn.Prefer == nil {
			turn.Prefer = new(llm.Preferences)
		}
		turn.Prefer.Allowed = one.models
	}
	resp, err := s.turn(ctx, one, call, turn)
	if err != nil {
		return nil, unsuited(err)
	}
	res, err := sampling.Result(req.Params, resp)
	if !errors.Is(err, sampling.ErrNoCall) {
		return res, err
	}
	// Some servers of models do not heed it (SAMP-06): it is said in words, once.
	turn.System = joinText(turn.System, "You must call one of the tools.")
	if resp, err = s.turn(ctx, one, call, turn); err != nil {
		return nil, err
	}
	return sampling.Result(req.Params, resp)
}

// unsuited tells the server what it can do something about: that the model does not take
// what it asks. Of other troubles it only hears that there is no answer.
func unsuited(err error) error {
	if errors.Is(err, llm.ErrUnsupported) || errors.Is(err, llm.ErrContextLength) || errors.Is(err, llm.ErrInvalidRequest) {
		return mcp.Errorf(mcp.CodeInvalidParams, "no model takes this: %v", err)
	}
	return err
}

// turn runs one turn of the model, and charges it.
func (s *samplingService) turn(ctx context.Context, one *serverAccount, call payer, req *llm.Request) (*llm.Response, error) {
	var run *budget.Account
	if call != nil {
		run = call.Budget()
	}
	held, output, err := s.reserve(one, run, req, true)
	if err != nil {
		return nil, err
	}
	defer release(held) // nothing, once it is settled: the code of a model may panic
	bounded := *req
	bounded.MaxTokens = output
	model := one.models[0]
	ctx = llm.Observe(ctx, &llm.Observer{Chose: func(c llm.Choice) { model = c.Model }})
	resp, said, err := llm.Complete(ctx, s.model, &bounded)
	price, _ := s.price(model)
	spent := runlog.Spent{What: runlog.SpentSampling, Server: one.name, Model: model,
		Usage: runlog.Usage{Input: said.Input, Output: said.Output, Estimated: said.Estimated, Cost: price.Of(said.Input, said.Output)}}
	held[0].Settle(budget.Amount{Tokens: spent.Usage.Total(), Cost: spent.Usage.Cost, ModelCalls: 1})
	if len(held) > 1 { // that of the run
		call.Charge(held[1], spent)
	}
	s.log.Info("a model has answered a server", "server", one.name, "model", model, "input", said.Input, "output", said.Output, "cost", spent.Usage.Cost.String(), "error", err)
	return resp, err
}

// reserve holds a turn in the account of the server, and in that of the run. If it is
// only to be tried, nothing is held.
func (s *samplingService) reserve(one *serverAccount, run *budget.Account, req *llm.Request, keep bool) (held []*budget.Hold, output int, err error) {
	turn := budget.Turn{Input: llm.EstimateTokens(req), Output: req.MaxTokens}
	price, unknown := s.dearest(one.models)
	if unknown == "" {
		turn.Price = price
	}
	for _, a := range []*budget.Account{one.account, run} {
		if a == nil {
			continue
		}
		var h *budget.Hold
		if h, turn.Output, err = a.ReserveTurn(turn); err != nil {
			err = refusal(err, one, a)
			break
		}
		held = append(held, h)
		if unknown != "" && a.Left().Cost != budget.Unlimited {
			err = refuse("the price of %s is not known, and there is a limit of money", unknown)
			break
		}
	}
	if err != nil || !keep {
		release(held)
		held = nil
	}
	return held, turn.Output, err
}

func release(held []*budget.Hold) {
	for _, h := range held {
		h.Release()
	}
}

// refusal is the error of a reservation of account a as the server is told it.
func refusal(err error, one *serverAccount, a *budget.Account) error {
	limit, ok := errors.AsType[*budget.LimitError](err)
	switch {
	case ok && a == one.account:
		what := limit.Max + " " + limit.Limit
		if limit.Limit == budget.Cost {
			what = "a cost of " + limit.Max
		}
		return refuse("the server %s has had what it was given of the model: %s", one.name, what)
	case ok:
		return refuse("%v", limit)
	case errors.Is(err, budget.ErrClosed):
		return refuse("the run has ended")
	}
	return fmt.Errorf("reserving a turn: %w", err)
}

func joinText(a, b string) string {
	if a == "" {
		return b
	}
	return a + "\n\n" + b
}
