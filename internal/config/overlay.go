package config

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

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
	if out.MCP.Polls == nil {
		out.MCP.Polls = base.MCP.Polls
	}
	out.MCP.Protocol = cmp.Or(out.MCP.Protocol, base.MCP.Protocol)
	out.MCP.Instances = cmp.Or(out.MCP.Instances, base.MCP.Instances)
	out.MCP.HeldInstances = cmp.Or(out.MCP.HeldInstances, base.MCP.HeldInstances)
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
	bound := base.Limits.Or(builtInLimits)
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
	c.Limits = c.Limits.Or(base.Limits)
	for section, take := range map[string]func(){
		"sampling": func() { c.Sampling = base.Sampling }, "store": func() { c.Store = base.Store },
		"serve": func() { c.Serve = base.Serve }, "worker": func() { c.Worker = base.Worker },
		"telemetry": func() { c.Telemetry = base.Telemetry },
	} {
		if !c.sections[section] {
			take()
			continue
		}
		for key, v := range base.values { // a section that is stated stands alone
			if strings.HasPrefix(key, section+".") && c.values[key] == v {
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

// shadowing is an agent of a project that has the name of one of the user's. It takes its
// place, for it says what that is here, and keeps to what the user has forbidden the
// name: sections of the user's, such as schedules, may mean it (SECA-45).
func (a Agent) shadowing(own Agent) Agent {
	if own.Err != nil { // what it forbids is unknown
		a.Err = own.Err
		return a
	}
	if a.Approve != "all" && (own.Approve == "all" || own.Approve == "writes") {
		a.Approve = own.Approve
	}
	a.Deny = slices.Concat(a.Deny, own.Deny)
	a.Allow = among(a.Allow, own.Allow, func(pattern, name string) bool {
		ok, err := path.Match(pattern, name)
		return err == nil && ok
	})
	a.Servers = among(a.Servers, own.Servers, func(x, y string) bool { return x == y })
	return a
}

// among returns those of list that are within bounds. Where none is left, or nothing was
// chosen, it is all of the bounds; without any, the list.
func among(list, bounds []string, has func(bound, one string) bool) []string {
	if bounds == nil {
		return list
	}
	var in []string
	for _, one := range list {
		if slices.ContainsFunc(bounds, func(b string) bool { return has(b, one) }) {
			in = append(in, one)
		}
	}
	if len(in) == 0 {
		return bounds
	}
	return in
}
