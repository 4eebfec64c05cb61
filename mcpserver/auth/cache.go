package auth

import (
	"crypto/sha256"
	"sync"
	"time"
)

// cache keeps values by hash until a time. It has two generations: when the new one is full
// it becomes the old one, whose values are lost unless they were used meanwhile.
type cache[V any] struct {
	most int // values of a generation

	mu       sync.Mutex // guards the maps, of goroutines of net/http, each for an instant
	new, old map[[sha256.Size]byte]kept[V]
}

type kept[V any] struct {
	value V
	until time.Time
}

// get returns a value that has not expired.
func (c *cache[V]) get(key [sha256.Size]byte, now time.Time) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.new[key]
	if !ok {
		if k, ok = c.old[key]; ok && now.Before(k.until) {
			c.keep(key, k)
		}
	}
	if !ok || !now.Before(k.until) {
		return v, false
	}
	return k.value, true
}

// put keeps a value.
func (c *cache[V]) put(key [sha256.Size]byte, v V, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep(key, kept[V]{v, until})
}

// first keeps a key, and reports whether it was not there.
func (c *cache[V]) first(key [sha256.Size]byte, now, until time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, ok := c.new[key]; ok && now.Before(k.until) {
		return false
	}
	if k, ok := c.old[key]; ok && now.Before(k.until) {
		return false
	}
	var none V
	c.keep(key, kept[V]{none, until})
	return true
}

// keep is called under the lock.
func (c *cache[V]) keep(key [sha256.Size]byte, k kept[V]) {
	if c.new == nil || len(c.new) >= c.most {
		c.old, c.new = c.new, make(map[[sha256.Size]byte]kept[V])
	}
	c.new[key] = k
}
