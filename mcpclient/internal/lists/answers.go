package lists

import (
	linked "container/list"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// Freshness says how long an answer may be used again, and by whom.
type Freshness struct {
	Until     time.Time // zero is until something changes, as lists of legacy servers are
	Private   bool      // only for the principal that it was given to (CACHE-05)
	Principal string
}

// FreshnessOf reads what a modern server says of its answer: without a ttlMs it is
// stale at once (CACHE-02), and without a scope it is private. What a legacy server
// has answered holds until it says otherwise.
func FreshnessOf(era mcp.Era, ttl time.Duration, scope, principal string, now time.Time) Freshness {
	f := Freshness{Private: scope != mcp.CachePublic, Principal: principal}
	if era == mcp.EraModern {
		f.Until = now.Add(ttl)
	}
	return f
}

// fresh reports whether the answer may be used at now.
func (f Freshness) fresh(now time.Time) bool { return f.Until.IsZero() || now.Before(f.Until) }

// belongs reports whether principal may have it (SECA-47).
func (f Freshness) belongs(principal string) bool { return !f.Private || f.Principal == principal }

// Answers keeps a bounded number of answers by their key, those used last. Its
// zero value keeps none.
type Answers[V any] struct {
	max     int // entries
	maxSize int // bytes of all

	mu    sync.Mutex                 // guards the fields below it: callers look answers up on their own goroutines, without a message to an actor
	byKey map[string]*linked.Element // of answer[V]
	order *linked.List               // used last in front; nil as byKey is
	size  int
	epoch int // counts what may have made an answer under way stale
}

type answer[V any] struct {
	key   string
	value V
	size  int
	Freshness
}

// Get returns an answer that is fresh and may be seen by principal. The epoch is for
// Put, if there is none.
func (a *Answers[V]) Get(key, principal string) (v V, ok bool, epoch int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.byKey[key]; e != nil {
		k := e.Value.(*answer[V])
		if !k.fresh(time.Now()) {
			a.remove(e)
		} else if k.belongs(principal) {
			a.order.MoveToFront(e)
			return k.value, true, a.epoch
		}
	}
	return v, false, a.epoch
}

// Put keeps an answer, unless it was stale before it came: a change since epoch.
func (a *Answers[V]) Put(key string, v V, size int, f Freshness, epoch int) {
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
	a.byKey[key] = a.order.PushFront(&answer[V]{key, v, size, f})
	a.size += size
	for len(a.byKey) > a.max || a.size > a.maxSize {
		a.remove(a.order.Back())
	}
}

// Drop forgets the answers whose key is chosen, and those under way. Nil is all.
func (a *Answers[V]) Drop(chosen func(key string) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.epoch++
	for key, e := range a.byKey {
		if chosen == nil || chosen(key) {
			a.remove(e)
		}
	}
}

func (a *Answers[V]) remove(e *linked.Element) {
	k := a.order.Remove(e).(*answer[V])
	delete(a.byKey, k.key)
	a.size -= k.size
}
