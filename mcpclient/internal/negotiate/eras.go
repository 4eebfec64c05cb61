package negotiate

import (
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// EraLife is how long a verdict holds: a server that was upgraded must not be locked out for
// good (ERA-01).
const EraLife = time.Hour

const maxVerdicts = 1000 // with more, half of them are forgotten

// Eras remembers which era a server belongs to, by its definition. The connections of a host
// share it. Its zero value has no verdict. It may be used from any goroutine.
type Eras struct{ newest atomic.Pointer[verdict] }

// verdict is the first of a list, which is not changed. Most are as short as this: mind its size.
type verdict struct {
	key   string
	until time.Duration // since began
	older *verdict
	count int32 // with the older ones
	era   mcp.Era
}

var began = time.Now()

// Get returns the verdict on a server, EraUnknown if there is none.
func (e *Eras) Get(key string) mcp.Era {
	if v := e.newest.Load().find(key); v != nil && time.Since(began) <= v.until {
		return v.era
	}
	return mcp.EraUnknown
}

// Set keeps a verdict; EraUnknown forgets it.
func (e *Eras) Set(key string, era mcp.Era) {
	v := &verdict{key: key, era: era, until: time.Since(began) + EraLife}
	for {
		before := e.newest.Load()
		after := before
		if before.find(key) != nil {
			after = before.without(key)
		}
		if era != mcp.EraUnknown {
			if after.len() >= maxVerdicts {
				after = after.first(maxVerdicts / 2)
			}
			after = v.on(after)
		}
		if e.newest.CompareAndSwap(before, after) {
			return
		}
	}
}

func (v *verdict) len() int32 {
	if v == nil {
		return 0
	}
	return v.count
}

func (v *verdict) find(key string) *verdict {
	for ; v != nil && v.key != key; v = v.older {
	}
	return v
}

// on returns the list of a copy of v and of older ones.
func (v *verdict) on(older *verdict) *verdict {
	return &verdict{v.key, v.until, older, older.len() + 1, v.era}
}

// without returns the list without the verdict on a server, which is in it.
func (v *verdict) without(key string) *verdict {
	if v.key == key {
		return v.older
	}
	return v.on(v.older.without(key))
}

// first returns the n newest of the list.
func (v *verdict) first(n int) *verdict {
	if n == 0 || v == nil {
		return nil
	}
	return v.on(v.older.first(n - 1))
}
