// Package memo remembers a bounded number of values by their key.
package memo

import "sync"

// Map forgets what was not used for the longest time when it is full: what it holds can be found
// out again. Its zero value, with a Max, holds nothing. It may be used from any goroutine, and
// must not be copied.
type Map[K comparable, V any] struct {
	Max     int // entries
	MaxSize int // bytes of all, as Set and Update are told; zero is no bound

	mu    sync.Mutex         // guards the fields below it: calls and requests look values up in passing, each of which would be a message to an actor
	byKey map[K]*entry[K, V] // nil while there are few: the ring is searched then
	last  *entry[K, V]       // used last, in a ring of all; nil without entries
	count int
	size  int
}

// few entries make no map, which would be several times their size.
const few = 8

// entry is one value in the ring.
type entry[K comparable, V any] struct {
	older, newer *entry[K, V]
	key          K
	value        V
	size         int
}

// Get returns the value of a key, which counts as a use.
func (m *Map[K, V]) Get(key K) (v V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.find(key)
	if e == nil {
		return v, false
	}
	m.use(e)
	return e.value, true
}

// Set remembers a value that takes size bytes.
func (m *Map[K, V]) Set(key K, v V, size int) {
	m.Update(key, size, func(V, bool) (V, bool) { return v, true })
}

// Update remembers the value that f makes of the one before, which takes size bytes, unless f
// says otherwise. Other uses of the map wait for f. A value with more bytes than the map may
// hold is not remembered.
func (m *Map[K, V]) Update(key K, size int, f func(v V, ok bool) (next V, keep bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.find(key)
	var before V
	if e != nil {
		before = e.value
	}
	next, keep := f(before, e != nil)
	if !keep {
		return
	}
	if m.MaxSize > 0 && size > m.MaxSize {
		m.remove(e)
		return
	}
	if e == nil {
		e = &entry[K, V]{key: key}
		m.add(e)
	}
	m.size += size - e.size
	e.value, e.size = next, size
	m.use(e)
	for m.count > max(m.Max, 1) || m.MaxSize > 0 && m.size > m.MaxSize {
		m.remove(m.last.newer) // the oldest: the newest is before it in the ring
	}
}

// find returns the entry of a key, nil if there is none. It is called under the lock.
func (m *Map[K, V]) find(key K) *entry[K, V] {
	if m.byKey != nil {
		return m.byKey[key]
	}
	e := m.last
	for range m.count {
		if e.key == key {
			return e
		}
		e = e.older
	}
	return nil
}

// add counts an entry, which is not in the ring yet. It is called under the lock.
func (m *Map[K, V]) add(e *entry[K, V]) {
	if m.byKey == nil && m.count == few {
		m.byKey = make(map[K]*entry[K, V])
		for old := m.last; m.byKey[old.key] == nil; old = old.older {
			m.byKey[old.key] = old
		}
	}
	if m.byKey != nil {
		m.byKey[e.key] = e
	}
	m.count++
}

// use makes e the one that was used last. It is called under the lock.
func (m *Map[K, V]) use(e *entry[K, V]) {
	if m.last == e {
		return
	}
	m.unlink(e)
	if m.last == nil {
		e.older, e.newer = e, e
	} else {
		e.older, e.newer = m.last, m.last.newer
		e.older.newer, e.newer.older = e, e
	}
	m.last = e
}

// unlink takes e out of the ring, if it is in it. It is called under the lock.
func (m *Map[K, V]) unlink(e *entry[K, V]) {
	switch {
	case e.newer == nil:
		return
	case e.newer == e:
		m.last = nil
	case m.last == e:
		m.last = e.older
	}
	e.older.newer, e.newer.older = e.newer, e.older
}

// remove forgets e, if it is not nil. It is called under the lock.
func (m *Map[K, V]) remove(e *entry[K, V]) {
	if e != nil {
		m.unlink(e)
		delete(m.byKey, e.key)
		m.count--
		m.size -= e.size
	}
}

// Delete forgets a key.
func (m *Map[K, V]) Delete(key K) { m.Take(key) }

// Take forgets a key, and returns the value that it had.
func (m *Map[K, V]) Take(key K) (v V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.find(key)
	if e == nil {
		return v, false
	}
	m.remove(e)
	return e.value, true
}

// DeleteFunc forgets the keys that f chooses; nil chooses all.
func (m *Map[K, V]) DeleteFunc(f func(K) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.last
	for range m.count {
		older := e.older
		if f == nil || f(e.key) {
			m.remove(e)
		}
		e = older
	}
}

// Len returns how many values there are.
func (m *Map[K, V]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count
}
