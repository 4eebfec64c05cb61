package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/llm"
)

// Version is the only version of the format.
const Version = 1

// Config is what the files say. The zero value is that of no file.
type Config struct {
	// Files are those that were read, the one that counts most first.
	Files    []string
	Models   Models
	Sampling Sampling
	Limits   Limits
	MCP      MCP
	// Agents are by name: those of the files and those that have files of their own.
	Agents    map[string]Agent
	Store     Store
	Serve     Serve
	Worker    Worker
	Telemetry Telemetry
	// Notes say what of a project's file does not count, and why.
	Notes []Problem

	refs     []ref            // where the files name models
	values   map[string]Value // what the files say and counts, by key
	sections map[string]bool  // those that the file has
	resolved map[string]bool  // sections whose variables were put in
}

// Models says which models there are and which are used.
type Models struct {
	// Default is used where nothing names a model. Empty means what is found.
	Default string
	// Fallback are asked, in this order, when the chosen one fails. Nil means none.
	Fallback []string
	// Providers are servers by their name, which is the first half of their models' names.
	Providers map[string]Provider
	// Cards say more of models than their servers do, by full names.
	Cards map[string]Card
	// Aliases are more names for models, maybe those of other vendors.
	Aliases map[string][]string
	// Prices are by full names.
	Prices map[string]Price
}

// Price is what a model costs, and where that is written.
type Price struct {
	llm.Price
	Source string // file and line
}

// Card overrides what is known of a model. What is nil or zero is left as it is.
type Card struct {
	Tools, Vision, Audio, Thinking, JSON *bool
	Context                              int
	Cost, Speed, Intelligence            *float64 // from 0 to 1
	Parameters                           float64  // billions
	Aliases                              []string
}

// Sampling says what MCP servers may ask of models.
type Sampling struct {
	// Model answers them. Empty means the one of the run.
	Model   string
	Default SamplingPolicy
	// Servers are exceptions, by the servers' names.
	Servers map[string]SamplingPolicy
}

// SamplingPolicy is what one server may. Zero values mean what agent.SamplingPolicy says
// of them.
type SamplingPolicy struct {
	Mode           string // "", ask, allow or deny
	MaxTokensTotal int
	MaxCost        llm.Money
	MaxRequests    int
	PerMinute      int
	MaxTokens      int
	Models         []string // names; nil means all
	Context        string   // "", thisServer or allServers
}

// Limits are what a run may spend where the command line says nothing. Zero means not
// said.
type Limits struct {
	Tokens     int
	Cost       llm.Money
	ToolCalls  int
	ModelCalls int
	Steps      int
	Depth      int
	Wall       time.Duration
	OnLimit    string // "", stop, ask or wrap-up
}

// over returns c with what it does not say taken from base, which counts less. A
// foreign one, that of a project which the user has not named, cannot widen what base allows.
func (c *Config) over(base *Config, foreign bool) *Config {
	out := *c
	out.Files = append(out.Files[:len(out.Files):len(out.Files)], base.Files...)
	out.refs = append(out.refs[:len(out.refs):len(out.refs)], base.refs...)
	out.values = under(c.values, base.values)
	m, b := &out.Models, &base.Models
	if m.Default != "" && foreign && !base.names(m.Default) {
		out.Notes = append(out.Notes, c.problemAt("models.default",
			"the model %s does not count: your own configuration names %s, and a project chooses only among the models that it names", m.Default, b.Default))
		m.Default = ""
		out.take("models.default", base)
	}
	m.Default = cmp.Or(m.Default, b.Default)
	if m.Fallback == nil {
		m.Fallback = b.Fallback
	}
	m.Providers = under(m.Providers, b.Providers)
	m.Cards = under(m.Cards, b.Cards)
	m.Aliases = under(m.Aliases, b.Aliases)
	m.Prices = under(m.Prices, b.Prices)
	if out.MCP.Files == nil {
		out.MCP.Files = base.MCP.Files
	}
	out.MCP.Protocol = cmp.Or(out.MCP.Protocol, base.MCP.Protocol)
	out.MCP.Instances = cmp.Or(out.MCP.Instances, base.MCP.Instances)
	out.Agents = under(c.Agents, base.Agents)
	if foreign {
		out.within(base)
	} else {
		out.services(base)
	}
	return &out
}

// take lets the value of base count under a key.
func (c *Config) take(key string, base *Config) {
	if v, ok := base.values[key]; ok {
		c.values[key] = v
	} else {
		delete(c.values, key)
	}
}

// names reports whether a project may choose the model: where nothing is chosen, or
// where it is one that the configuration itself names.
func (c *Config) names(model string) bool {
	if c.Models.Default == "" {
		return true
	}
	return slices.ContainsFunc(c.refs, func(r ref) bool { return r.name == model })
}

// within narrows what a project says to what base, or else the program, allows. Sections
// of base that a project has nothing to say about are taken as they are.
func (c *Config) within(base *Config) {
	bound := base.Limits.or(&builtInLimits)
	stated := c.Limits
	c.Limits = c.Limits.within(&base.Limits, &bound)
	was, is := stated.fields(), c.Limits.fields()
	for i, f := range is {
		if was[i].amount != 0 && was[i].amount != f.amount {
			c.Notes = append(c.Notes, c.problemAt("limits."+f.key, "the limit does not count: a project cannot allow more than you do, or the program by itself"))
			c.take("limits."+f.key, base)
		}
	}
	for name, a := range c.Agents {
		if !a.Foreign {
			continue
		}
		a.Limits = a.Limits.within(&c.Limits, &bound)
		if own, there := base.Agents[name]; there {
			a = a.shadowing(own)
			a.Limits = a.Limits.within(&own.Limits, &bound)
		}
		if a.Model != "" && !base.names(a.Model) {
			c.Notes = append(c.Notes, Problem{File: a.Source, Text: fmt.Sprintf("the agent %s: its model %s does not count: your own configuration names %s", name, a.Model, base.Models.Default)})
			a.Model = ""
		}
		c.Agents[name] = a
	}
	c.Sampling, c.Store, c.Serve, c.Worker, c.Telemetry = base.Sampling, base.Store, base.Serve, base.Worker, base.Telemetry
}

// services takes over from base, section by section, what is not said.
func (c *Config) services(base *Config) {
	c.Limits = c.Limits.or(&base.Limits)
	sections := []struct {
		name string
		take func()
	}{
		{"sampling", func() { c.Sampling = base.Sampling }}, {"store", func() { c.Store = base.Store }},
		{"serve", func() { c.Serve = base.Serve }}, {"worker", func() { c.Worker = base.Worker }},
		{"telemetry", func() { c.Telemetry = base.Telemetry }},
	}
	for _, s := range sections {
		if !c.sections[s.name] {
			s.take()
			continue
		}
		for key := range base.values { // it stands alone
			if v := c.values[key]; strings.HasPrefix(key, s.name+".") && v == base.values[key] {
				delete(c.values, key)
			}
		}
	}
}

// under joins two maps; what is in top counts.
func under[V any](top, base map[string]V) map[string]V {
	if len(top)+len(base) == 0 {
		return nil
	}
	all := make(map[string]V, len(top)+len(base))
	maps.Copy(all, base)
	maps.Copy(all, top)
	return all
}

// builtInLimits are those that a run has where nothing is said, see agent.Limits.
var builtInLimits = Limits{Steps: 32, ToolCalls: 256, Depth: 8, Wall: time.Hour}

// within returns the limits of l where they are no wider than those of bound, and
// those of base where l says nothing.
func (l Limits) within(base, bound *Limits) Limits {
	return Limits{
		Tokens: narrow(l.Tokens, base.Tokens, bound.Tokens), Cost: narrow(l.Cost, base.Cost, bound.Cost),
		ToolCalls: narrow(l.ToolCalls, base.ToolCalls, bound.ToolCalls), ModelCalls: narrow(l.ModelCalls, base.ModelCalls, bound.ModelCalls),
		Steps: narrow(l.Steps, base.Steps, bound.Steps), Depth: narrow(l.Depth, base.Depth, bound.Depth), Wall: narrow(l.Wall, base.Wall, bound.Wall),
		OnLimit: cmp.Or(l.OnLimit, base.OnLimit),
	}
}

// or returns the limits of l, and those of base where l says nothing.
func (l Limits) or(base *Limits) Limits {
	return Limits{
		Tokens: cmp.Or(l.Tokens, base.Tokens), Cost: cmp.Or(l.Cost, base.Cost),
		ToolCalls: cmp.Or(l.ToolCalls, base.ToolCalls), ModelCalls: cmp.Or(l.ModelCalls, base.ModelCalls),
		Steps: cmp.Or(l.Steps, base.Steps), Depth: cmp.Or(l.Depth, base.Depth), Wall: cmp.Or(l.Wall, base.Wall),
		OnLimit: cmp.Or(l.OnLimit, base.OnLimit),
	}
}

// Or returns the limits of l, and those of base where l says nothing.
func (l Limits) Or(base Limits) Limits { return l.or(&base) }

// limitField is one limit and its key.
type limitField struct {
	key    string
	amount int64
}

func (l *Limits) fields() []limitField {
	return []limitField{
		{"tokens", int64(l.Tokens)}, {"cost", int64(l.Cost)}, {"tool_calls", int64(l.ToolCalls)}, {"model_calls", int64(l.ModelCalls)},
		{"steps", int64(l.Steps)}, {"depth", int64(l.Depth)}, {"wall", int64(l.Wall)},
	}
}

// narrow is a where it is said and not more than bound, of which zero is no bound; else
// base.
func narrow[N int | llm.Money | time.Duration](a, base, bound N) N {
	if a == 0 || bound != 0 && a > bound {
		return base
	}
	return a
}
