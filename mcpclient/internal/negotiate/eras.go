package negotiate

import (
	"time"

	"github.com/troupe-dev/troupe/internal/memo"
	"github.com/troupe-dev/troupe/mcp"
)

// EraLife is how long a verdict holds: a server that was upgraded must not be locked out for
// good (ERA-01).
const EraLife = time.Hour

const maxVerdicts = 1000

// Eras remembers which era a server belongs to, by its definition. The connections of a host
// share it.
type Eras struct{ verdicts memo.Map[string, verdict] }

type verdict struct {
	era   mcp.Era
	until time.Time
}

// NewEras returns one without a verdict.
func NewEras() *Eras {
	e := new(Eras)
	e.verdicts.Max = maxVerdicts
	return e
}

// Get returns the verdict on a server, EraUnknown if there is none.
func (e *Eras) Get(key string) mcp.Era {
	if v, ok := e.verdicts.Get(key); ok && !time.Now().After(v.until) {
		return v.era
	}
	return mcp.EraUnknown
}

// Set keeps a verdict; EraUnknown forgets it.
func (e *Eras) Set(key string, era mcp.Era) {
	if era == mcp.EraUnknown {
		e.verdicts.Delete(key)
		return
	}
	e.verdicts.Set(key, verdict{era, time.Now().Add(EraLife)}, 0)
}
