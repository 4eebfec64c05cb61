package router

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/llm"
)

// Options changes how a router chooses; nil is the same as the zero value.
type Options struct {
	// Default names the model for turns without preferences. Empty means the first card.
	Default string
	// Fallback names the models that follow the chosen one when it fails, in their
	// order. Nil means all others that can do it, in the order of their fitness; an empty
	// list that is not nil means none.
	Fallback []string
	// Aliases are more names: each stands for the models of its list, which may be models
	// of another vendor than the name's, as "claude-3-sonnet" for our middle one.
	Aliases map[string][]string
}

// Router is several models as one.
type Router struct {
	cards    []Card
	values   []value // of the cards
	fallback []int   // indices of cards; nil means all
	first    int     // index of the default
}

var _ llm.Model = (*Router)(nil)

// New returns a router over the cards, in the order in which ties are decided. It
// returns an error if there is none, if two have one name, or if the options name a model
// that no card has.
func New(cards []Card, opts *Options) (*Router, error) {
	o := *cmp.Or(opts, new(Options))
	if len(cards) == 0 {
		return nil, errors.New("a router needs at least one model")
	}
	r := &Router{cards: slices.Clone(cards)}
	names := make(map[string]bool, len(cards))
	for i := range r.cards {
		c := &r.cards[i]
		if c.Model == nil {
			return nil, fmt.Errorf("card %d has no model", i)
		}
		if names[c.Name()] {
			return nil, fmt.Errorf("two cards are of the model %q", c.Name())
		}
		names[c.Name()] = true
		c.Aliases = slices.Clone(c.Aliases)
	}
	if err := r.alias(o.Aliases); err != nil {
		return nil, err
	}
	r.values = values(r.cards)
	if err := r.name(&o); err != nil {
		return nil, err
	}
	return r, nil
}

// alias gives the cards their aliases. What one stands for is a name that the cards
// themselves have, never another alias of the map: that has no order.
func (r *Router) alias(aliases map[string][]string) error {
	more := make([][]string, len(r.cards))
	for _, alias := range slices.Sorted(maps.Keys(aliases)) {
		for _, target := range aliases[alias] {
			i := r.index(target)
			if i < 0 || alias == "" {
				return fmt.Errorf("the alias %q stands for %q: there is no such model", alias, target)
			}
			more[i] = append(more[i], alias)
		}
	}
	for i := range r.cards {
		c := &r.cards[i]
		c.Aliases = append(c.Aliases, more[i]...)
		slices.Sort(c.Aliases)
		c.Aliases = slices.Compact(c.Aliases)
	}
	return nil
}

// name finds the models that the options name.
func (r *Router) name(o *Options) error {
	if o.Default != "" {
		if r.first = r.index(o.Default); r.first < 0 {
			return fmt.Errorf("the default %q: there is no such model", o.Default)
		}
	}
	if o.Fallback == nil {
		return nil
	}
	r.fallback = make([]int, 0, len(o.Fallback))
	for _, name := range o.Fallback {
		i := r.index(name)
		if i < 0 {
			return fmt.Errorf("the fallback %q: there is no such model", name)
		}
		r.fallback = append(r.fallback, i)
	}
	return nil
}

// index finds the card of a name: the whole one before all others. It is -1 if there is none.
func (r *Router) index(name string) int {
	if i := slices.IndexFunc(r.cards, func(c Card) bool { return c.Name() == name }); i >= 0 {
		return i
	}
	return slices.IndexFunc(r.cards, func(c Card) bool { return c.answers(name) })
}

// Name is the name of the default model.
func (r *Router) Name() string { return r.cards[r.first].Name() }

// String lists the names of the models.
func (r *Router) String() string {
	names := make([]string, len(r.cards))
	for i := range r.cards {
		names[i] = r.cards[i].Name()
	}
	return "router over " + strings.Join(names, ", ")
}

// Cards returns a copy of the cards, in their order.
func (r *Router) Cards() []Card { return slices.Clone(r.cards) }

// Card returns the card of a model by a name or an alias.
func (r *Router) Card(model string) (Card, bool) {
	if i := r.index(model); i >= 0 {
		return r.cards[i], true
	}
	return Card{}, false
}

// Price returns what a model costs, by a name or an alias, and whether that is known.
func (r *Router) Price(model string) (llm.Price, bool) {
	c, ok := r.Card(model)
	if !ok || c.Price == nil {
		return llm.Price{}, false
	}
	return *c.Price, true
}

// Wrap returns a router that chooses in the same way and asks each model through what
// wrap makes of it. Names must stay as they are.
func (r *Router) Wrap(wrap func(llm.Model) llm.Model) *Router {
	w := *r
	w.cards = slices.Clone(r.cards)
	for i := range w.cards {
		w.cards[i].Model = wrap(w.cards[i].Model)
	}
	return &w
}

// ContextLength returns the context of the default model, in tokens; zero is not known.
// A conversation that is kept within it fits where it is mostly sent.
func (r *Router) ContextLength() int { return r.cards[r.first].Context }
