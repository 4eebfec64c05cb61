// Package intern keeps one copy of large values that many objects have alike.
package intern

import (
	"bytes"
	"sync"
	"unsafe"
	"weak"
)

// few is how many copies a set remembers: those who share a value come one after the other as a rule.
const few = 8

// Set finds the copies that are still in use. Its zero value is ready, it may be used from any
// goroutine, and keeps nothing alive.
type Set[T any] struct {
	mu   sync.Mutex // guards the fields below it
	last [few]weak.Pointer[T]
	next int
}

// Of returns a copy of v, as an assignment makes it, which all have that gave the same: it must not be changed. The same
// is what has the same bytes in memory: equal numbers, the same strings, maps, slices, pointers and functions. A
// string or function that is equal but another one just makes another copy.
func (s *Set[T]) Of(v T) *T {
	// What the other copy holds is alive, and so has no address that is meant by another pointer of v.
	return s.OfEqual(v, Same)
}

// Same reports whether *a and *b are the same in the sense of [Set.Of]. That means something only as long as
// what both hold is alive.
func Same[T any](a, b *T) bool { return bytes.Equal(memory(a), memory(b)) }

// OfEqual is [Set.Of] where equal says what is the same.
func (s *Set[T]) OfEqual(v T, equal func(a, b *T) bool) *T {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.last {
		if p := w.Value(); p != nil && equal(p, &v) {
			return p
		}
	}
	p := new(T)
	*p = v
	s.last[s.next], s.next = weak.Make(p), (s.next+1)%few
	return p
}

// memory is the memory of *p.
func memory[T any](p *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p)) }
