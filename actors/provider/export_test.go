package provider

import "github.com/troupe-dev/troupe/llm"

// The states of a circuit.
const (
	CircuitClosed   = circuitClosed
	CircuitOpen     = circuitOpen
	CircuitHalfOpen = circuitHalfOpen
)

// Provider returns a provider of the group.
func (g *Group) Provider(name string) *provider { return g.provider(name) }

// Model returns m behind the provider.
func (p *provider) Model(m llm.Model) llm.Model { return p.behind(m) }
