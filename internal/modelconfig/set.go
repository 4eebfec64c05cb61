// Package modelconfig makes the models of a configuration: it finds the server of a name, and
// joins the servers' descriptions of their models with the user's own.
//
// It is for programs. A program that has no troupe.yaml uses packages llm/discover and
// llm/router.
package modelconfig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/discover"
	"github.com/troupe-dev/troupe/llm/ollama"
	"github.com/troupe-dev/troupe/llm/openai"
	"github.com/troupe-dev/troupe/llm/router"
)

// probe bounds the questions about the models of a run, for each server.
const probe = 2 * time.Second

// Provider is a server of the configuration.
type Provider struct {
	config.Server
	// Models asks it. It is nil if Err is set.
	Models discover.Server
	// Err says what of its configuration is missing.
	Err error

	ollama *ollama.Server // nil for other types
}

// Ollama returns the provider as an Ollama server, if it is one.
func (p *Provider) Ollama() (*ollama.Server, bool) {
	return p.ollama, p.ollama != nil
}

// Set is all providers.
type Set struct {
	cfg       *config.Config
	getenv    func(string) string
	providers []Provider // sorted by name
	finder    *discover.Finder
}

// New makes the providers of a configuration, with variables from getenv. It sends
// nothing yet. Providers without their key are there, with Err.
func New(cfg *config.Config, getenv func(string) string) *Set {
	s := &Set{cfg: cfg, getenv: getenv}
	servers, faults := cfg.Servers(getenv)
	var asked []discover.Server
	for _, server := range servers {
		p := Provider{Server: server, Err: faults[server.Name]}
		if p.Err == nil {
			p.open(getenv)
			if p.Listed() {
				asked = append(asked, p.Models)
			}
		}
		s.providers = append(s.providers, p)
	}
	s.finder = discover.New(asked, nil)
	return s
}

// open makes the client of the server.
func (p *Provider) open(getenv func(string) string) {
	if p.Type == config.TypeOllama {
		o := &ollama.Options{
			Provider: p.Name, Host: cmp.Or(p.BaseURL, "127.0.0.1"), APIKey: p.APIKey.Reveal(), Header: p.Header(),
			ContextLength: p.Context, KeepAlive: p.KeepAlive,
		}
		p.ollama, p.Models = ollama.NewServer(o), discover.Ollama(o)
		return
	}
	o := &openai.Options{
		Provider: p.Name, BaseURL: p.BaseURL, APIKey: p.APIKey.Reveal(), Header: p.Header(),
		API: openai.API(p.API), APIVersion: p.APIVersion, MaxTokensField: p.MaxTokensField,
	}
	if p.Name == config.TypeOpenAI {
		o.Organization = cmp.Or(getenv("OPENAI_ORG_ID"), getenv("OPENAI_ORGANIZATION"))
		o.Project = cmp.Or(getenv("OPENAI_PROJECT_ID"), getenv("OPENAI_PROJECT"))
	}
	p.Models = discover.OpenAI(o)
}

// Listed reports whether the provider is asked for its models: those that the configuration
// or the environment names, and Ollama.
func (p *Provider) Listed() bool { return p.Configured || p.Name == config.TypeOllama }

// Providers returns all providers, sorted by name.
func (s *Set) Providers() []Provider { return slices.Clone(s.providers) }

// Provider returns the provider of a name; the error says why it is unusable.
func (s *Set) Provider(name string) (*Provider, error) {
	for i := range s.providers {
		if p := &s.providers[i]; p.Name == name {
			if p.Err != nil {
				return nil, fmt.Errorf("the provider %s: %w", name, p.Err)
			}
			return p, nil
		}
	}
	return nil, fmt.Errorf("there is no provider %q", name)
}

// Qualified cuts a name into provider and model, if its first part is a provider.
func (s *Set) Qualified(name string) (provider, model string, ok bool) {
	provider, model, _ = strings.Cut(name, "/")
	ok = model != "" && slices.ContainsFunc(s.providers, func(p Provider) bool { return p.Name == provider })
	return provider, model, ok
}

// Discover asks every listed provider for its models; see [discover.Finder]. The values of the
// configuration replace those of the servers.
func (s *Set) Discover(ctx context.Context) []discover.Found {
	all := s.finder.Discover(ctx)
	for i := range all {
		for j := range all[i].Cards {
			s.correct(&all[i].Cards[j])
		}
	}
	return all
}

// Card returns the card of a full name. It asks the server, which need not answer: a later
// turn shows its failure.
func (s *Set) Card(ctx context.Context, name string) (router.Card, error) {
	provider, model, ok := s.Qualified(name)
	if !ok {
		return router.Card{}, fmt.Errorf("%q is not PROVIDER/MODEL of a provider that there is", name)
	}
	p, err := s.Provider(provider)
	if err != nil {
		return router.Card{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, probe)
	defer cancel()
	card := p.Models.Card(ctx, model)
	s.correct(&card)
	return card, nil
}

// correct replaces values of a server by those of the configuration.
func (s *Set) correct(card *router.Card) {
	if price, ok := s.cfg.Models.Prices[card.Name()]; ok {
		card.Price = &price.Price
	}
	own, ok := s.cfg.Models.Cards[card.Name()]
	if !ok {
		return
	}
	for _, f := range []struct {
		to   *bool
		from *bool
	}{
		{&card.Tools, own.Tools}, {&card.Vision, own.Vision}, {&card.Audio, own.Audio},
		{&card.Thinking, own.Thinking}, {&card.JSON, own.JSON},
	} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	for _, f := range []struct {
		to   *float64
		from *float64
	}{{&card.Cost, own.Cost}, {&card.Speed, own.Speed}, {&card.Intelligence, own.Intelligence}} {
		if f.from != nil {
			*f.to = *f.from
			if *f.from == 0 {
				*f.to = -1 // stated, unlike the zero of a card
			}
		}
	}
	card.Context = cmp.Or(own.Context, card.Context)
	card.Parameters = cmp.Or(own.Parameters, card.Parameters)
	card.Aliases = append(card.Aliases, own.Aliases...)
}

// Prices are the prices of the configuration by full names.
func (s *Set) Prices() map[string]llm.Price {
	prices := make(map[string]llm.Price, len(s.cfg.Models.Prices))
	for name, p := range s.cfg.Models.Prices {
		prices[name] = p.Price
	}
	return prices
}

// ErrAmbiguous says that several models have the name.
var ErrAmbiguous = errors.New("several models have this name")
