package visit

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/troupe-dev/troupe/internal/ratelimit"
	"github.com/troupe-dev/troupe/internal/webserver"
)

// Tries bounds the attempts to log in: 30 from one address and then one in three seconds, 50 for one
// name and then one in ten, 5 for one name from one address and then two a minute. An attempt counts
// for all of them or, where one of them refuses it, for none: who may not try cannot use up the
// attempts of others for the same name.
type Tries struct {
	mu                      sync.Mutex // makes an attempt one step; requests make them at once
	addresses, names, pairs *ratelimit.Limits
}

// NewTries returns limits of which nothing is used.
func NewTries() *Tries {
	return &Tries{addresses: ratelimit.New(1.0/3, 30), names: ratelimit.New(1.0/10, 50), pairs: ratelimit.New(1.0/30, 5)}
}

// Exceeded counts an attempt, whose name may be empty, and reports whether there were too many. An
// IPv6 address counts as its /64.
func (t *Tries) Exceeded(address, name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	address = webserver.Source(address)
	limits := []*rate.Limiter{t.addresses.Of(address)}
	if name != "" {
		limits = append(limits, t.pairs.Of(address+" "+name), t.names.Of(name))
	}
	now := time.Now()
	for _, l := range limits {
		if l.TokensAt(now) < 1 {
			return true
		}
	}
	for _, l := range limits {
		l.AllowN(now, 1)
	}
	return false
}
