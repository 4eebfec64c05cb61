package agent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/actors/provider"
	"github.com/troupe-dev/troupe/agent/internal/models"
	"github.com/troupe-dev/troupe/agent/internal/sampler"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// openModels starts the providers of the models.
func (rt *Runtime) openModels() (err error) {
	o := models.Options{Providers: make(map[string]provider.Options), Retry: &rt.opts.Retry, Prices: rt.opts.Prices, Logger: rt.opts.Logger}
	for name, p := range rt.opts.Providers {
		o.Providers[name] = provider.Options{Concurrency: p.Concurrency, Queue: p.Queue, PerMinute: p.PerMinute,
			Circuit: provider.Circuit(p.Circuit), Retry: p.Retry}
	}
	rt.models, err = models.Open(rt.sys, &o)
	return err
}

// Providers returns how the providers of the runtime's models stand, by name.
func (rt *Runtime) Providers() map[string]ProviderState {
	out := make(map[string]ProviderState)
	for name, s := range rt.models.States() {
		out[name] = ProviderState(s)
	}
	return out
}

// Providers returns the names of the providers of the agent's models, as [Runtime.Providers] has them, in order: one, or
// those of all models that a router chooses from.
func (a *Agent) Providers() []string { return models.Providers(a.model) }

// ModelErrors returns how many requests to each provider have failed, by the class of the error:
// see [llm.Class]. Each attempt counts, also one that another follows.
func (rt *Runtime) ModelErrors() map[string]map[string]int64 { return rt.models.Errors() }

// openSampling makes the service that answers these servers, and tells each of them its mode.
func (rt *Runtime) openSampling(servers []mcpclient.Server) (*sampler.Service, error) {
	o := rt.opts.Sampling
	model := o.Model
	if model == nil {
		model = rt.opts.Model
	}
	if model == nil {
		return nil, errors.New("sampling: there is no model: set Options.Model or Sampling.Model")
	}
	for name := range o.Servers {
		if !slices.ContainsFunc(servers, func(srv mcpclient.Server) bool { return srv.Name == name }) {
			return nil, fmt.Errorf("sampling: there is no server %q", name)
		}
	}
	s := &sampler.Service{Model: rt.models.Behind(model), Names: models.Names(model), Journal: rt.store, Log: rt.opts.Logger,
		Price: func(name string) (llm.Price, bool) { return rt.models.Price(model, name) }}
	for i := range servers {
		srv := &servers[i]
		policy := o.policyOf(srv)
		if err := policy.Check(); err != nil {
			return nil, fmt.Errorf("sampling of %s: %w", srv.Name, err)
		}
		if err := s.Open(srv.Name, policy); err != nil {
			return nil, fmt.Errorf("sampling of %s: %w", srv.Name, err)
		}
		srv.Sampling, srv.SamplingContext = policy.Mode, policy.Context != ""
	}
	return s, nil
}

// policyOf returns the policy of a server, with its defaults.
func (o *Sampling) policyOf(srv *mcpclient.Server) sampler.Policy {
	policy, named := o.Servers[srv.Name]
	if !named {
		policy = o.Default
		policy.Mode = cmp.Or(srv.Sampling, policy.Mode)
	}
	policy.Mode = cmp.Or(policy.Mode, srv.Sampling, mcpclient.SamplingAsk)
	if policy.Context == mcp.ContextNone {
		policy.Context = ""
	}
	return sampler.Policy(policy)
}
