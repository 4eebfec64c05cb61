package modelconfig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/discover"
	"github.com/troupe-dev/troupe/llm/router"
)

// Resolve returns the full name of a name: itself, the first model of an alias, or the one
// model that servers have under it. The error wraps [llm.ErrNotFound] if no server has one,
// [llm.ErrUnreachable] if no server that answered has one, and [ErrAmbiguous] if there are
// several.
func (s *Set) Resolve(ctx context.Context, name string) (string, error) {
	if full := s.Unasked(name); full != "" {
		return full, nil
	}
	found := s.Discover(ctx)
	var names []string
	for _, f := range found {
		for i := range f.Cards {
			_, bare, _ := strings.Cut(f.Cards[i].Name(), "/")
			if bare == name || bare == name+":latest" {
				names = append(names, f.Cards[i].Name())
			}
		}
	}
	switch len(names) {
	case 1:
		return names[0], nil
	case 0:
		return "", s.notFound(name, found)
	}
	return "", fmt.Errorf("%w: %s; name one of them with its provider", ErrAmbiguous, strings.Join(names, ", "))
}

// Unasked is Resolve as far as no server has to be asked: it returns "" for a name of which only servers know what
// it stands for.
func (s *Set) Unasked(name string) string {
	if _, _, ok := s.Qualified(name); ok {
		return name
	}
	return s.alias(name)
}

// alias is the full name of the first model of an alias in the configuration.
func (s *Set) alias(name string) string {
	if targets := s.cfg.Models.Aliases[name]; len(targets) > 0 {
		return targets[0]
	}
	for _, full := range slices.Sorted(maps.Keys(s.cfg.Models.Cards)) {
		if slices.Contains(s.cfg.Models.Cards[full].Aliases, name) {
			return full
		}
	}
	return ""
}

// notFound says that no server has a model, and which were asked.
func (s *Set) notFound(name string, found []discover.Found) error {
	var asked, silent []string
	for _, f := range found {
		if f.Err != nil {
			silent = append(silent, fmt.Sprintf("%s at %s (%v)", f.Server.Provider(), f.Server, f.Err))
		} else {
			asked = append(asked, fmt.Sprintf("%s (%s)", f.Server.Provider(), f.Server))
		}
	}
	kind, text := llm.ErrNotFound, fmt.Sprintf("looking for the model %q", name)
	if len(asked) > 0 {
		text += ": it is not among those of " + strings.Join(asked, ", nor of ")
	}
	if len(silent) > 0 {
		kind, text = llm.ErrUnreachable, text+": no answer of "+strings.Join(silent, ", nor of ")
	}
	return fmt.Errorf("%s: %w", text, kind)
}

// Router returns the router whose default is the model of the full name, followed by the
// fallbacks of the configuration. With all it also has every other model of the
// configuration, for callers that prefer one; runs do not. The second result are the faults of
// fallbacks that are left out.
func (s *Set) Router(ctx context.Context, name string, all bool) (*router.Router, []error, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*probe) // for all together
	defer cancel()
	first, err := s.Card(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	b := &builder{set: s, cards: []router.Card{first}}
	m := &s.cfg.Models
	fallback := []string{} // not nil, which would mean all others
	for _, next := range m.Fallback {
		if full := b.add(ctx, next); full != "" && full != name {
			fallback = append(fallback, full)
		}
	}
	left := b.faults
	if all {
		for _, full := range slices.Sorted(maps.Keys(m.Cards)) {
			b.add(ctx, full)
		}
		for _, alias := range slices.Sorted(maps.Keys(m.Aliases)) {
			for _, target := range m.Aliases[alias] {
				b.add(ctx, target)
			}
		}
	}
	r, err := router.New(b.cards, &router.Options{Default: name, Fallback: fallback, Aliases: b.aliases(m)})
	return r, left, err
}

// builder collects the cards of a router.
type builder struct {
	set    *Set
	cards  []router.Card
	faults []error
}

// add adds a model, if it is not there yet, and returns its full name, or "" if it is
// unusable.
func (b *builder) add(ctx context.Context, name string) string {
	full, err := b.set.Resolve(ctx, name)
	if err == nil && slices.ContainsFunc(b.cards, func(c router.Card) bool { return c.Name() == full }) {
		return full
	}
	var card router.Card
	if err == nil {
		card, err = b.set.Card(ctx, full)
	}
	if err != nil {
		b.faults = append(b.faults, fmt.Errorf("%s: %w", name, err))
		return ""
	}
	b.cards = append(b.cards, card)
	return full
}

// aliases are the aliases of the configuration whose models the router has.
func (b *builder) aliases(m *config.Models) map[string][]string {
	all := make(map[string][]string)
	for alias, targets := range m.Aliases {
		for _, target := range targets {
			if slices.ContainsFunc(b.cards, func(c router.Card) bool { return c.Name() == target }) {
				all[alias] = append(all[alias], target)
			}
		}
	}
	return all
}

// ErrNone says that no model was found that an agent could use.
var ErrNone = errors.New("no model was found")

// maxAsked bounds the models that Find considers, of each server.
const maxAsked = 16

// defaultOpenAI is the model of OpenAI itself if none is named.
const defaultOpenAI = "gpt-5-mini"

// Find picks a model if none is named: the first that takes tools, of Ollama, then of the
// server of the OPENAI_ variables, then of the other servers of the configuration. It does not
// pick among the models of built-in vendors, which cost money. The error is [ErrNone], joined
// with the reason for each server.
func (s *Set) Find(ctx context.Context) (string, error) {
	errs := []error{ErrNone}
	order := slices.Clone(s.providers)
	slices.SortStableFunc(order, func(a, b Provider) int { return cmp.Compare(place(&a), place(&b)) })
	for i := range order {
		p := &order[i]
		if !p.Listed() || place(p) == never {
			continue
		}
		if p.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.Name, p.Err))
			continue
		}
		if p.own() {
			return "openai/" + cmp.Or(s.getenv("OPENAI_MODEL"), defaultOpenAI), nil
		}
		name, err := s.first(ctx, p)
		if err == nil {
			return name, nil
		}
		errs = append(errs, fmt.Errorf("%s at %s: %w", p.Name, p.Models, err))
	}
	return "", errors.Join(errs...)
}

// first returns the first model of a provider that takes tools.
func (s *Set) first(ctx context.Context, p *Provider) (string, error) {
	if named := s.getenv("OPENAI_MODEL"); named != "" && p.Name == config.TypeOpenAI {
		return p.Name + "/" + named, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*probe)
	defer cancel()
	cards, err := p.Models.List(ctx, maxAsked)
	if err != nil {
		return "", err
	}
	for i := range cards {
		if s.correct(&cards[i]); cards[i].Tools {
			return cards[i].Name(), nil
		}
	}
	return "", fmt.Errorf("it has %d models and none that takes tools", len(cards))
}

// never is the place of providers that Find skips.
const never = 9

// place orders providers for Find.
func place(p *Provider) int {
	switch {
	case p.Name == config.TypeOllama:
		return 0
	case p.Name == config.TypeOpenAI:
		return 1
	case config.IsBuiltIn(p.Name):
		return never
	}
	return 2
}

// own reports whether the provider is OpenAI itself, by its usual name.
func (p *Provider) own() bool { return p.Name == config.TypeOpenAI && p.BaseURL == "" }
