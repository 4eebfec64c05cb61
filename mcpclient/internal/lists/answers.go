package lists

import (
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/internal/memo"
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
	byKey memo.Map[string, answer[V]]
	epoch atomic.Int64 // counts what may have made an answer under way stale
}

type answer[V any] struct {
	value V
	Freshness
}

// Get returns an answer that is fresh and may be seen by principal. The epoch is for
// Put, if there is none.
func (a *Answers[V]) Get(key, principal string) (v V, ok bool, epoch int64) {
	epoch = a.epoch.Load()
	k, ok := a.byKey.Get(key)
	switch {
	case !ok:
	case !k.fresh(time.Now()):
		a.byKey.Delete(key)
	case k.belongs(principal):
		return k.value, true, epoch
	}
	return v, false, epoch
}

// Put keeps an answer, unless it was stale before it came: a change since epoch.
func (a *Answers[V]) Put(key string, v V, size int, f Freshness, epoch int64) {
	size += len(key)
	if !f.fresh(time.Now()) || size > a.byKey.MaxSize {
		return
	}
	a.byKey.Update(key, size, func(answer[V], bool) (answer[V], bool) {
		return answer[V]{v, f}, a.epoch.Load() == epoch // a Drop that counts later comes after this
	})
}

// Drop forgets the answers whose key is chosen, and those under way. Nil is all.
func (a *Answers[V]) Drop(chosen func(key string) bool) {
	a.epoch.Add(1)
	a.byKey.DeleteFunc(chosen)
}
