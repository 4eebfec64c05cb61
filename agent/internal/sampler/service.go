// Package sampler answers the sampling requests of servers with a model of the program, each
// server within its policy and on its account.
package sampler

import (
	"context"
	"crypto/cipher"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/sampling"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// Service answers the sampling requests of servers that belong to no call of a run, and by
// [Service.For] those that do. It does not change once its servers are open.
type Service struct {
	Model   llm.Model // with its retries
	Names   []string  // of all models that may answer
	Price   func(model string) (llm.Price, bool)
	Journal store.Journal
	Log     *slog.Logger
	// Instructions returns the instructions of a server. They are set before the first request.
	Instructions func(server string) string

	servers map[string]*account
	sealing cipher.AEAD // with a key of this process: for what a server is given of a provider's state
}

// Open gives a server its account. The policy was checked.
func (s *Service) Open(name string, p Policy) error {
	one, err := openAccount(name, p, s.Names, s.Price)
	if err != nil {
		return err
	}
	if s.servers == nil {
		s.servers = make(map[string]*account)
		if s.sealing, err = newSealing(); err != nil {
			return err
		}
	}
	s.servers[name] = one
	return nil
}

// With returns the service, with the same accounts, for other connections to the servers.
func (s *Service) With(instructions func(server string) string) *Service {
	lent := *s
	lent.Instructions = instructions
	return &lent
}

// PrepareSample implements [mcpclient.SamplePreparer].
func (s *Service) PrepareSample(ctx context.Context, req *mcpclient.SampleRequest) (*mcp.CreateMessageParams, error) {
	return s.prepare(ctx, req, "", nil)
}

// Sample implements [mcpclient.Sampler].
func (s *Service) Sample(ctx context.Context, req *mcpclient.SampleRequest) (*mcp.CreateMessageResult, error) {
	return s.sample(ctx, req, nil)
}

// callSampler answers sampling of a server during one call of a run.
type callSampler struct {
	of   *Service
	call *loop.Call
	over atomic.Bool // the call has ended: nothing more is the run's
}

// For returns the sampler of a call; over reports that the call has ended. Without a
// service there is no sampler.
func (s *Service) For(call *loop.Call) (_ mcpclient.Sampler, over func()) {
	if s == nil {
		return nil, func() {}
	}
	own := &callSampler{of: s, call: call}
	return own, func() { own.over.Store(true) }
}

// Owner returns the same for all calls of a run, and another for each run: see
// [mcpclient.CallOptions].Sampler.
func (s *callSampler) Owner() any { return s.call.Run }

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

// payer is a [loop.Call] that pays for the sampling.
type payer interface {
	Budget() *budget.Account
	Charge(*budget.Hold, runlog.Spent)
}

// prepare refuses a request that the policy does not allow before a person sees it, and adds
// the context that the server was granted. Run and account are those of the call, if it is known.
func (s *Service) prepare(ctx context.Context, req *mcpclient.SampleRequest, run string, paying *budget.Account) (*mcp.CreateMessageParams, error) {
	one := s.servers[req.Server]
	switch {
	case one == nil || one.budget == nil:
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
	if _, _, err := one.reserve(paying, turn, false); err != nil {
		return nil, err
	}
	return &p, nil
}

// addContext adds to a request what its includeContext wishes, as far as the server was
// granted it (SAMP-07): to the system prompt, where the person who reviews the request
// sees it.
func (s *Service) addContext(ctx context.Context, one *account, run string, p *mcp.CreateMessageParams) error {
	wish := p.IncludeContext
	p.IncludeContext = mcp.ContextNone
	if one.policy.Context == "" || wish != mcp.ContextThisServer && wish != mcp.ContextAllServers {
		return nil
	}
	all := wish == mcp.ContextAllServers && one.policy.Context == mcp.ContextAllServers
	var parts []string
	if text := s.Instructions(one.name); text != "" {
		parts = append(parts, fmt.Sprintf("The server %s says of itself:\n%s", one.name, text))
	}
	if run != "" {
		calls, err := callsOf(ctx, s.Journal, run, func(server string) bool { return server != "" && (all || server == one.name) })
		if err != nil {
			return err
		}
		parts = append(parts, newest(calls, maxContext)...)
	}
	if len(parts) > 0 {
		p.SystemPrompt = joinText(p.SystemPrompt, "What has been done before:\n\n"+strings.Join(parts, "\n\n"))
	}
	return nil
}

// sample asks the model within the limits of the server, and of the run that makes the
// call; nil is none.
func (s *Service) sample(ctx context.Context, req *mcpclient.SampleRequest, call payer) (*mcp.CreateMessageResult, error) {
	one := s.servers[req.Server]
	if one == nil || one.budget == nil {
		return nil, refuse("the server may not ask a model")
	}
	turn, err := sampling.Request(req.Params)
	if err != nil {
		return nil, err
	}
	s.openState(req.Server, req.Params, turn)
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
	if errors.Is(err, sampling.ErrNoCall) {
		res, err = s.sampleCall(ctx, one, call, req.Params, turn, &resp)
	}
	if err == nil {
		s.sealState(req.Server, resp, res)
	}
	return res, err
}

// sampleCall asks once more for the call that the answer lacks.
func (s *Service) sampleCall(ctx context.Context, one *account, call payer, p *mcp.CreateMessageParams, turn *llm.Request, resp **llm.Response) (_ *mcp.CreateMessageResult, err error) {
	// Some servers of models do not heed it (SAMP-06): the prompt has it in words, once.
	turn.System = joinText(turn.System, "You must call one of the tools.")
	if *resp, err = s.turn(ctx, one, call, turn); err != nil {
		return nil, err
	}
	return sampling.Result(p, *resp)
}

// unsuited returns an error that the server can do something about as one for it: the model
// does not take the request. Of other errors the server learns only that there is no answer.
func unsuited(err error) error {
	if errors.Is(err, llm.ErrUnsupported) || errors.Is(err, llm.ErrContextLength) || errors.Is(err, llm.ErrInvalidRequest) {
		return mcp.Errorf(mcp.CodeInvalidParams, "no model takes this: %v", err)
	}
	return err
}

// turn runs one turn of the model, and charges it.
func (s *Service) turn(ctx context.Context, one *account, call payer, req *llm.Request) (*llm.Response, error) {
	var run *budget.Account
	if call != nil {
		run = call.Budget()
	}
	held, output, err := one.reserve(run, req, true)
	if err != nil {
		return nil, err
	}
	defer release(held) // nothing, once it is settled: the code of a model may panic
	bounded := *req
	bounded.MaxTokens = output
	model := one.models[0]
	ctx = llm.Observe(ctx, &llm.Observer{Chose: func(c llm.Choice) { model = c.Model }})
	resp, said, err := llm.Complete(ctx, s.Model, &bounded)
	price, _ := s.Price(model)
	spent := runlog.Spent{What: runlog.SpentSampling, Server: one.name, Model: model,
		Usage: runlog.Usage{Input: said.Input, Output: said.Output, Estimated: said.Estimated, Cost: price.Of(said.Input, said.Output)}}
	held[0].Settle(budget.Amount{Tokens: spent.Usage.Total(), Cost: spent.Usage.Cost, ModelCalls: 1})
	if len(held) > 1 { // that of the run
		call.Charge(held[1], spent)
	}
	s.Log.Info("a model has answered a server", "server", one.name, "model", model, "input", said.Input, "output", said.Output, "cost", spent.Usage.Cost.String(), "error", err)
	return resp, err
}

func joinText(a, b string) string {
	if a == "" {
		return b
	}
	return a + "\n\n" + b
}
