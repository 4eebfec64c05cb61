// Package memo remembers a bounded number of values by their key.
package memo

import "sync"

// Map forgets everything when it is full: what it holds can be found out again. Its zero
// value holds nothing. It may be used from any goroutine, and must not be copied.
type Map[K comparable, V any] struct {
	Max     int // entries
	MaxSize int // bytes of all, as Set is told; zero is no bound

	mu   sync.Mutex // guards the fields below it: calls and requests look values up in passing, each of which would be a message to an actor
	m    map[K]V
	size int
}

// Get returns the value of a key.
func (m *Map[K, V]) Get(key K) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.m[key]
	return v, ok
}

// Set remembers a value that takes size bytes.
func (m *Map[K, V]) Set(key K, v V, size int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.m == nil || len(m.m) >= m.Max || m.MaxSize > 0 && m.size+size > m.MaxSize {
		m.m, m.size = make(map[K]V), 0
	}
	m.m[key] = v
	m.size += size
}

// Delete forgets a key.
func (m *Map[K, V]) Delete(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.m, key)
}

// Len returns how many values there are.
func (m *Map[K, V]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.m)
}
