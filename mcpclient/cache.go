package mcpclient

import (
	linked "container/list"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// freshness says how long an answer may be used again, and by whom.
type freshness struct {
	until     time.Time // zero is until something changes, as lists of legacy servers are
	private   bool      // only for the principal that it was given to (CACHE-05)
	principal string
}

// freshnessOf reads what a modern server says of its answer: without a ttlMs it is
// stale at once (CACHE-02), and without a scope it is private. What a legacy server
// has answered holds until it says otherwise.
func freshnessOf(era mcp.Era, ttl time.Duration, scope, principal string, now time.Time) freshness {
	f := freshness{private: scope != mcp.CachePublic, principal: principal}
	if era == mcp.EraModern {
		f.until = now.Add(ttl)
	}
	return f
}

// fresh reports whether the answer may be used at now.
func (f freshness) fresh(now time.Time) bool { return f.until.IsZero() || now.Before(f.until) }

// belongs reports whether principal may have it (SECA-47).
func (f freshness) belongs(principal string) bool { return !f.private || f.principal == principal }

// answers keeps a bounded number of answers by their key, those used last. Its
// zero value keeps none.
type answers[V any] struct {
	max     int // entries
	maxSize int // bytes of all

	mu    sync.Mutex
	byKey map[string]*linked.Element // of kept[V]
	order *linked.List               // used last in front; nil as byKey is
	size  int
	epoch int // counts what may have made an answer under way stale
}

type kept[V any] struct {
	key   string
	value V
	size  int
	freshness
}

// get returns an answer that is fresh and may be seen by principal. The epoch is for
// put, if there is none.
func (a *answers[V]) get(key, principal string) (v V, ok bool, epoch int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.byKey[key]; e != nil {
		k := e.Value.(*kept[V])
		if !k.fresh(time.Now()) {
			a.remove(e)
		} else if k.belongs(principal) {
			a.order.MoveToFront(e)
			return k.value, true, a.epoch
		}
	}
	return v, false, a.epoch
}

// put keeps an answer, unless it was stale before it came: a change since epoch.
func (a *answers[V]) put(key string, v V, size int, f freshness, epoch int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	size += len(key)
	if a.epoch != epoch || !f.fresh(time.Now()) || size > a.maxSize {
		return
	}
	if e := a.byKey[key]; e != nil {
		a.remove(e)
	}
	if a.byKey == nil {
		a.byKey, a.order = make(map[string]*linked.Element), linked.New()
	}
	a.byKey[key] = a.order.PushFront(&kept[V]{key, v, size, f})
	a.size += size
	for len(a.byKey) > a.max || a.size > a.maxSize {
		a.remove(a.order.Back())
	}
}

// drop forgets the answers whose key is chosen, and those under way. Nil is all.
func (a *answers[V]) drop(chosen func(key string) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.epoch++
	for key, e := range a.byKey {
		if chosen == nil || chosen(key) {
			a.remove(e)
		}
	}
}

func (a *answers[V]) remove(e *linked.Element) {
	k := a.order.Remove(e).(*kept[V])
	delete(a.byKey, k.key)
	a.size -= k.size
}
