package auth

import (
	"crypto/sha256"
	"time"

	"github.com/troupe-dev/troupe/internal/memo"
)

// cache keeps values by hash until a time, a bounded number of them.
type cache[V any] struct {
	memo.Map[[sha256.Size]byte, kept[V]]
}

type kept[V any] struct {
	value V
	until time.Time
}

// get returns a value that has not expired.
func (c *cache[V]) get(key [sha256.Size]byte, now time.Time) (v V, ok bool) {
	k, ok := c.Get(key)
	if !ok || !now.Before(k.until) {
		return v, false
	}
	return k.value, true
}

// put keeps a value.
func (c *cache[V]) put(key [sha256.Size]byte, v V, until time.Time) {
	c.Set(key, kept[V]{v, until}, 0)
}

// first keeps a key, and reports whether it was not there.
func (c *cache[V]) first(key [sha256.Size]byte, now, until time.Time) (first bool) {
	c.Update(key, 0, func(k kept[V], ok bool) (kept[V], bool) {
		first = !ok || !now.Before(k.until)
		return kept[V]{k.value, until}, first
	})
	return first
}
