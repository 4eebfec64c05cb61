// Package models puts the models of a runtime behind their providers, and knows what each of
// them costs.
package models

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/actors/provider"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/router"
)

// Set is the providers and prices of a runtime. It does not change once it is open.
type Set struct {
	group  *provider.Group
	prices map[string]llm.Price
}

// Options describes a set.
type Options struct {
	Providers map[string]provider.Options // by name
	Retry     *llm.RetryOptions           // of providers without their own, and of models that name none
	Prices    map[string]llm.Price        // by model
	Logger    *slog.Logger                // nil discards
}

// Open starts the providers, which are between the runtime and its models.
func Open(sys *actors.System, o *Options) (*Set, error) {
	all := map[string]provider.Options{"": {Retry: o.Retry}}
	for name, p := range o.Providers {
		if p.Retry == nil {
			p.Retry = o.Retry
		}
		all[name] = p
	}
	group, err := provider.Open(sys, &provider.GroupOptions{Providers: all, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	return &Set{group, o.Prices}, nil
}

// CheckPrices refuses prices below zero.
func CheckPrices(prices map[string]llm.Price) error {
	for _, name := range slices.Sorted(maps.Keys(prices)) {
		if p := prices[name]; name == "" || p.Input < 0 || p.Output < 0 {
			return fmt.Errorf("the price of the model %q, %v for input and %v for output, is negative or has no name", name, p.Input, p.Output)
		}
	}
	return nil
}

// Behind returns a model behind its provider, and a router with each of its models behind
// theirs: every model that the runtime asks has gone through here, once or more often.
func (s *Set) Behind(m llm.Model) llm.Model {
	switch m := m.(type) {
	case nil:
		return nil
	case *router.Router:
		return m.Wrap(s.group.Model)
	}
	return s.group.Model(m)
}

// States returns how the providers stand, by name.
func (s *Set) States() map[string]provider.State { return s.group.States() }

// Errors returns how many attempts have failed, by provider and class.
func (s *Set) Errors() map[string]map[string]int64 { return s.group.Errors() }

// Pricing is the price of a model, of a router that of the dearest of its models; nil
// where no price is known.
func (s *Set) Pricing(m llm.Model) *loop.Pricing {
	p := &loop.Pricing{Of: func(model string) (llm.Price, bool) { return s.Price(m, model) }}
	known := 0
	for _, name := range Names(m) {
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

// Price is the price of a model: that of the options, or else of the router that chooses it.
func (s *Set) Price(m llm.Model, name string) (llm.Price, bool) {
	if price, ok := s.prices[name]; ok {
		return price, true
	}
	if priced, ok := beneath[interface {
		Price(model string) (llm.Price, bool)
	}](m); ok {
		return priced.Price(name)
	}
	return llm.Price{}, false
}

// Names are the names of all models that may answer in the place of a model.
func Names(m llm.Model) []string {
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

// Providers are the names of the providers of all models that may answer in the place of a model, in order.
func Providers(m llm.Model) []string {
	r, ok := beneath[*router.Router](m)
	if !ok {
		return []string{provider.NameOf(m)}
	}
	var names []string
	for _, card := range r.Cards() {
		names = append(names, provider.NameOf(card.Model))
	}
	slices.Sort(names)
	return slices.Compact(names)
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
