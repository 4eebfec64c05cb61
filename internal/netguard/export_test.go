package netguard

import "net"

// WithResolver has the guard look names up elsewhere.
func (g *Guard) WithResolver(r *net.Resolver) *Guard {
	g.resolver = r
	return g
}
