package memo

import "sync/atomic"

// Lazily returns what p points to. It is made when it is first needed; of two that are made at
// the same time one is used, and the other was made in vain.
func Lazily[T any](p *atomic.Pointer[T], made func() *T) *T {
	if v := p.Load(); v != nil {
		return v
	}
	p.CompareAndSwap(nil, made())
	return p.Load()
}
