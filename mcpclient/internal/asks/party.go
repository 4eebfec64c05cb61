package asks

import (
	"github.com/troupe-dev/troupe/mcpclient/internal/pool"
)

// Party is who answers for what the server asks because of a call.
type Party struct {
	human   any // nil if it has none of its own, as the sampler
	sampler any
	roots   *Call // the call itself, if no person is asked and it tells roots of its own
}

// Party returns who answers for the call, which has this sampler of its own, or nil.
func (t *Call) Party(sampler any) Party {
	p := Party{human: t.Human, sampler: sampler}
	if p.human == nil && p.sampler == nil && t.Roots != nil {
		p.roots = t
	}
	return p
}

// Same implements [pool.Owner].
func (p Party) Same(other pool.Owner) bool {
	o := other.(Party)
	if p.human != nil || o.human != nil {
		return Same(p.human, o.human)
	}
	return p.roots == o.roots && Same(p.sampler, o.sampler)
}

// Is implements [pool.Owner]; the identity is that of a Human with an Owner.
func (p Party) Is(identity any) bool {
	h, ok := p.human.(interface{ Owner() any })
	return ok && h.Owner() == identity
}
