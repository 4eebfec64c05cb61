package agent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/actors/provider"
	"github.com/troupe-dev/troupe/agent/internal/sampler"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/router"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// openProviders starts the providers, which are between the runtime and its models.
func (rt *Runtime) openProviders() (err error) {
	all := map[string]provider.Options{"": {Retry: &rt.opts.Retry}}
	for name, o := range rt.opts.Providers {
		if o.Retry == nil {
			o.Retry = &rt.opts.Retry
		}
		all[name] = provider.Options{Concurrency: o.Concurrency, Queue: o.Queue, PerMinute: o.PerMinute,
			Circuit: provider.Circuit(o.Circuit), Retry: o.Retry}
	}
	rt.llm, err = provider.Open(rt.sys, &provider.GroupOptions{Providers: all})
	return err
}

// model returns a model behind its provider, and a router with each of its models behind
// theirs: every model that the runtime asks has gone through here, once or more often.
func (rt *Runtime) model(m llm.Model) llm.Model {
	switch m := m.(type) {
	case nil:
		return nil
	case *router.Router:
		return m.Wrap(rt.llm.Model)
	}
	return rt.llm.Model(m)
}

// Providers returns how the providers of the runtime's models stand, by name.
func (rt *Runtime) Providers() map[string]ProviderState {
	states := rt.llm.States()
	out := make(map[string]ProviderState, len(states))
	for name, s := range states {
		out[name] = ProviderState(s)
	}
	return out
}

// pricing is the price of a model, of a router that of the dearest of its models; nil
// where no price is known.
func (rt *Runtime) pricing(m llm.Model) *loop.Pricing {
	names := namesOfModel(m)
	p := &loop.Pricing{Of: func(model string) (llm.Price, bool) { return rt.price(m, model) }}
	known := 0
	for _, name := range names {
		price, ok := p.Of(name)
		if !ok {
			p.Missing = name
			continue
		}
		known++
		p.Most.Input, p.Most.Output = max(p.Most.Input, price.Input), max(p.Most.Output, price.Output)
	}
	if known == 0 {
		return nil
	}
	return p
}

// price is the price of a model: that of the options, or else of the router that chooses it.
func (rt *Runtime) price(m llm.Model, name string) (llm.Price, bool) {
	if price, ok := rt.opts.Prices[name]; ok {
		return price, true
	}
	if priced, ok := beneath[interface {
		Price(model string) (llm.Price, bool)
	}](m); ok {
		return priced.Price(name)
	}
	return llm.Price{}, false
}

// beneath looks for what a model can do, or one that it wraps and tells by a method
// Unwrap: the one behind a provider, say.
func beneath[T any](m llm.Model) (can T, ok bool) {
	for {
		if can, ok = m.(T); ok {
			return can, true
		}
		w, wraps := m.(interface{ Unwrap() llm.Model })
		if !wraps {
			return can, false
		}
		m = w.Unwrap()
	}
}

// namesOfModel are the names of all models that may answer in its place.
func namesOfModel(m llm.Model) []string {
	r, ok := beneath[*router.Router](m)
	if !ok {
		return []string{m.Name()}
	}
	var names []string
	for _, card := range r.Cards() {
		names = append(names, card.Name())
	}
	return names
}

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
	s := &sampler.Service{Model: rt.model(model), Names: namesOfModel(model), Journal: rt.store, Log: rt.opts.Logger,
		Price: func(name string) (llm.Price, bool) { return rt.price(model, name) }}
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
