package config

import (
	"fmt"
	"maps"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/troupe-dev/troupe/internal/nearest"
	"github.com/troupe-dev/troupe/llm"
)

// config reads the whole file.
func (d *decoder) config(n *yaml.Node, c *Config, foreign bool) {
	version := -1
	sections := fields{
		"version": func(n *yaml.Node) {
			if d.count(&version)(n); version >= 0 && version != Version {
				d.fail(n, "version %d is not known: this program reads version %d", version, Version)
			}
		},
		"models":   func(n *yaml.Node) { d.models(n, c, foreign) },
		"sampling": d.own(foreign, "sampling", func(n *yaml.Node) { d.sampling(n, c) }),
		"limits":   func(n *yaml.Node) { d.limits(n, &c.Limits) },
		"agents":   func(n *yaml.Node) { d.agents(n, c, foreign) },
	}
	maps.Copy(sections, d.services(c, foreign))
	d.object(n, sections)
	if version < 0 {
		d.fail(n, `the version is missing: begin with "version: %d"`, Version)
	}
}

func (d *decoder) models(n *yaml.Node, c *Config, foreign bool) {
	m := &c.Models
	d.object(n, fields{
		"default": func(n *yaml.Node) {
			d.text(&m.Default)(n)
			d.name(c, n, m.Default, false)
		},
		// Where a conversation goes that was meant for another model is the user's to say.
		"fallback": d.own(foreign, "models.fallback", func(n *yaml.Node) {
			d.texts(&m.Fallback)(n)
			d.names(c, n, m.Fallback, false)
		}),
		"providers": d.own(foreign, "models.providers", func(n *yaml.Node) {
			m.Providers = make(map[string]Provider)
			d.entries(n, func(key, value *yaml.Node) { m.Providers[key.Value] = d.provider(key, value) })
		}),
		"cards": func(n *yaml.Node) {
			m.Cards = make(map[string]Card)
			d.entries(n, func(key, value *yaml.Node) {
				d.name(c, key, key.Value, true)
				m.Cards[key.Value] = d.card(value, foreign)
			})
		},
		"aliases": d.own(foreign, "models.aliases", func(n *yaml.Node) {
			m.Aliases = make(map[string][]string)
			d.entries(n, func(key, value *yaml.Node) {
				var list []string
				d.texts(&list)(value)
				d.names(c, value, list, true)
				m.Aliases[key.Value] = list
			})
		}),
		"prices": d.own(foreign, "models.prices", func(n *yaml.Node) {
			m.Prices = make(map[string]Price)
			d.entries(n, func(key, value *yaml.Node) {
				d.name(c, key, key.Value, true)
				m.Prices[key.Value] = Price{Price: d.price(value), Source: fmt.Sprintf("%s:%d", d.file, key.Line)}
			})
		}),
	})
}

// price reads what a million tokens cost.
func (d *decoder) price(n *yaml.Node) llm.Price {
	var p llm.Price
	in, out := false, false
	d.object(n, fields{
		"in":  func(n *yaml.Node) { d.money(&p.Input)(n); in = true },
		"out": func(n *yaml.Node) { d.money(&p.Output)(n); out = true },
	})
	if n.Kind == yaml.MappingNode && (!in || !out) {
		d.fail(n, "a price has in and out, for a million tokens each")
	}
	return p
}

func (d *decoder) card(n *yaml.Node, foreign bool) Card {
	var c Card
	rate := func(out **float64) func(*yaml.Node) { return d.number(0, 1, func(v float64) { *out = &v }) }
	d.object(n, fields{
		"tools": d.flag(&c.Tools), "vision": d.flag(&c.Vision), "audio": d.flag(&c.Audio),
		"thinking": d.flag(&c.Thinking), "json": d.flag(&c.JSON),
		"context": d.count(&c.Context),
		"cost":    rate(&c.Cost), "speed": rate(&c.Speed), "intelligence": rate(&c.Intelligence),
		"parameters": d.number(0, 1e6, func(v float64) { c.Parameters = v }),
		"aliases":    d.own(foreign, "aliases of models.cards", d.texts(&c.Aliases)),
	})
	return c
}

func (d *decoder) sampling(n *yaml.Node, c *Config) {
	s := &c.Sampling
	d.object(n, fields{
		"model": func(n *yaml.Node) {
			d.text(&s.Model)(n)
			d.name(c, n, s.Model, false)
		},
		"default": func(n *yaml.Node) { s.Default = d.policy(n) },
		"servers": func(n *yaml.Node) {
			s.Servers = make(map[string]SamplingPolicy)
			d.entries(n, func(key, value *yaml.Node) { s.Servers[key.Value] = d.policy(value) })
		},
	})
}

// policy reads what a server may: a mode, or a mapping.
func (d *decoder) policy(n *yaml.Node) SamplingPolicy {
	var p SamplingPolicy
	mode := d.oneOf(&p.Mode, "ask", "allow", "deny")
	if n.Kind == yaml.ScalarNode {
		mode(n)
		return p
	}
	d.object(n, fields{
		"mode":             mode,
		"max_tokens_total": d.count(&p.MaxTokensTotal), "max_cost": d.money(&p.MaxCost),
		"max_requests": d.count(&p.MaxRequests), "per_minute": d.count(&p.PerMinute), "max_tokens": d.count(&p.MaxTokens),
		"models": d.texts(&p.Models),
		"context": func(n *yaml.Node) {
			if d.oneOf(&p.Context, "none", "thisServer", "allServers")(n); p.Context == "none" {
				p.Context = ""
			}
		},
	})
	return p
}

// check holds the models that are named against the providers there are.
func (c *Config) check() error {
	var problems []Problem
	for _, r := range c.refs {
		provider, model, qualified := strings.Cut(r.name, "/")
		_, known := c.Models.Providers[provider]
		p := r.Problem
		switch {
		case qualified && model == "" || r.full && !qualified:
			p.Text = fmt.Sprintf("want PROVIDER/MODEL, got %.80q", r.name)
		case qualified && !known && !IsBuiltIn(provider):
			names := providerNames(c.Models.Providers)
			if p.Text = fmt.Sprintf("there is no provider %.40q; there are %s", provider, strings.Join(names, ", ")); nearest.Name(provider, names) != "" {
				p.Text = fmt.Sprintf("there is no provider %.40q: did you mean %q?", provider, nearest.Name(provider, names))
			}
		default:
			continue
		}
		if problems = append(problems, p); len(problems) == maxProblems {
			break
		}
	}
	if problems != nil {
		return &Error{problems}
	}
	return nil
}

func (d *decoder) limits(n *yaml.Node, l *Limits) {
	d.object(n, fields{
		"tokens": d.count(&l.Tokens), "cost": d.money(&l.Cost),
		"tool_calls": d.count(&l.ToolCalls), "model_calls": d.count(&l.ModelCalls),
		"steps": d.count(&l.Steps), "depth": d.count(&l.Depth), "wall": d.duration(&l.Wall),
		"on_limit": d.oneOf(&l.OnLimit, "stop", "ask", "wrap-up"),
		"repeats": func(n *yaml.Node) {
			if d.count(&l.Repeats)(n); l.Repeats == 0 {
				l.Repeats = -1 // zero is the default
			}
		},
	})
}
