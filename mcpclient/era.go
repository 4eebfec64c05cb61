package mcpclient

import (
	"sync"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// eraLife is how long a verdict holds: a server that was upgraded must not be
// locked out for good (ERA-01).
const eraLife = time.Hour

// eraCache remembers which era a server belongs to, by its definition. It is
// shared by the connections of a host and never holds more than a thousand.
type eraCache struct {
	mu       sync.Mutex
	verdicts map[string]verdict
}

type verdict struct {
	era   mcp.Era
	until time.Time
}

const maxVerdicts = 1000

func (e *eraCache) get(hash string) mcp.Era {
	e.mu.Lock()
	defer e.mu.Unlock()
	v := e.verdicts[hash]
	if time.Now().After(v.until) {
		return mcp.EraUnknown
	}
	return v.era
}

// set keeps a verdict; EraUnknown forgets it.
func (e *eraCache) set(hash string, era mcp.Era) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if era == mcp.EraUnknown {
		delete(e.verdicts, hash)
		return
	}
	if e.verdicts == nil || len(e.verdicts) >= maxVerdicts {
		e.verdicts = make(map[string]verdict)
	}
	e.verdicts[hash] = verdict{era, time.Now().Add(eraLife)}
}
