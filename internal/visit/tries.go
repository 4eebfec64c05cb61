package visit

import "github.com/troupe-dev/troupe/internal/ratelimit"

// Tries bounds the attempts to log in: 30 from one address and then one in three seconds, 50 for one
// name and then one in ten, 5 for one name from one address and then two a minute.
type Tries struct{ addresses, names, pairs *ratelimit.Limits }

// NewTries returns limits of which nothing is used.
func NewTries() *Tries {
	return &Tries{ratelimit.New(1.0/3, 30), ratelimit.New(1.0/10, 50), ratelimit.New(1.0/30, 5)}
}

// Exceeded counts an attempt, whose name may be empty, and reports whether there were too many.
func (t *Tries) Exceeded(address, name string) bool {
	wait := t.addresses.Take(t.addresses.Of(address))
	if name != "" {
		wait = max(wait, t.pairs.Take(t.pairs.Of(address+" "+name)), t.names.Take(t.names.Of(name)))
	}
	return wait > 0
}
