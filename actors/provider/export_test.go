package provider

import "github.com/troupe-dev/troupe/llm"

// The states of a circuit.
const (
	CircuitClosed   = circuitClosed
	CircuitOpen     = circuitOpen
	CircuitHalfOpen = circuitHalfOpen
)

// NameOf returns the name of the provider of a model.
func NameOf(m llm.Model) string { return nameOf(m) }

// Provider returns a provider of the group.
func (g *Group) Provider(name string) *provider { return g.provider(name) }

// Model returns m behind the provider.
func (p *provider) Model(m llm.Model) llm.Model { return p.behind(m) }
