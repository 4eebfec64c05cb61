package config

import (
	"cmp"
	"maps"
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

	refs []ref // where the files name models
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

// over returns c, which is a project's, with what it does not say taken from base, the
// user's.
func (c *Config) over(base *Config) *Config {
	out := *c
	out.Files = append(out.Files[:len(out.Files):len(out.Files)], base.Files...)
	out.refs = append(out.refs[:len(out.refs):len(out.refs)], base.refs...)
	m, b := &out.Models, &base.Models
	m.Default = cmp.Or(m.Default, b.Default)
	if m.Fallback == nil {
		m.Fallback = b.Fallback
	}
	m.Providers = under(m.Providers, b.Providers)
	m.Cards = under(m.Cards, b.Cards)
	m.Aliases = under(m.Aliases, b.Aliases)
	m.Prices = under(m.Prices, b.Prices)
	// Sampling of a project counts only in a file that is named, which stands alone.
	out.Sampling = base.Sampling
	out.Limits = c.Limits.within(&base.Limits)
	return &out
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

// within returns the limits of l where they are no wider than those of base, which count
// otherwise.
func (l Limits) within(base *Limits) Limits {
	return Limits{
		Tokens: least(l.Tokens, base.Tokens), Cost: least(l.Cost, base.Cost),
		ToolCalls: least(l.ToolCalls, base.ToolCalls), ModelCalls: least(l.ModelCalls, base.ModelCalls),
		Steps: least(l.Steps, base.Steps), Depth: least(l.Depth, base.Depth), Wall: least(l.Wall, base.Wall),
		OnLimit: cmp.Or(l.OnLimit, base.OnLimit),
	}
}

// least is the smaller of two limits, of which zero is none.
func least[N int | llm.Money | time.Duration](a, b N) N {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
