package agent

import (
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/router"
)

// checkPrices refuses prices below zero.
func checkPrices(prices map[string]llm.Price) error {
	for _, name := range slices.Sorted(maps.Keys(prices)) {
		if p := prices[name]; name == "" || p.Input < 0 || p.Output < 0 {
			return fmt.Errorf("the price of the model %q, %v for input and %v for output, is negative or has no name", name, p.Input, p.Output)
		}
	}
	return nil
}

// pricing is what a model costs, a router's as much as the dearest of its models; nil
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

// price is what a model costs: as the options say, or the one who chooses it.
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

// priced finds what the agent's model costs, and refuses a limit of money where that is
// not known.
func (a *Agent) priced() error {
	a.pricing = a.rt.pricing(a.model)
	if a.cfg.Limits.Cost == 0 {
		return nil
	}
	missing := a.pricing.Unknown(a.model.Name())
	if m := a.cfg.SummaryModel; missing == "" && m != nil {
		missing = a.rt.pricing(m).Unknown(m.Name())
	}
	if missing == "" {
		return nil
	}
	return fmt.Errorf("%w: state what a million tokens cost in Options.Prices", &NoPriceError{Model: missing})
}

// Priced reports whether it is known what the agent's model costs, so that results say
// so in money.
func (a *Agent) Priced() bool { return a.pricing.Unknown(a.model.Name()) == "" }

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
