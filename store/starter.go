package store

import "time"

// Starter is a [Journal] that writes without a goroutine of the caller, so that an actor may write. Both stores of
// this module are Starters; a caller falls back to [Journal.Create] and [Journal.Append].
//
// A type that embeds one of those stores and overrides Create or Append inherits their StartCreate and StartAppend,
// which the runtime prefers: override both. A type that embeds the interface [Store] is no Starter.
//
// Its methods return without waiting for a disk or another caller. They call done exactly once, before they return or
// later, from a goroutine of the store. The function done must not block, and the caller must not change what it has
// handed over before the call of done. A store that cannot take a write, as too much waits, reports an error
// for which [Passing] is true.
type Starter interface {
	// StartCreate begins what [Journal.Create] does.
	StartCreate(r Run, owner string, ttl time.Duration, first []Event, done func(Run, error))
	// StartAppend begins what [Journal.Append] does. Appends of one caller are made in the order in which they began.
	StartAppend(a Append, done func(last int64, err error))
}

// JobStarter is a [Jobs] that adds and claims without a goroutine of the caller. Both stores of this module are
// JobStarters; a caller falls back to [Jobs.AddJob] and [Jobs.ClaimJobs]. What is said of a [Starter] holds here, too.
type JobStarter interface {
	// StartAdd begins what [Jobs.AddJob] does. Jobs that one caller adds are added in the order in which that began.
	StartAdd(j Job, done func(Job, error))
	// StartClaim begins what [Jobs.ClaimJobs] does.
	StartClaim(c Claim, done func([]Job, error))
}

// Claim is a claim of jobs that is started.
type Claim struct {
	Owner  string
	TTL    time.Duration // of the leases
	Agents []string      // whose jobs are claimed
	// Places returns how many jobs are to be claimed, at most; more than [MaxClaim] count as that. The store calls
	// it when it makes the claim, from any goroutine, and again if that has to be repeated. It must not block. A
	// store that commits writes together makes the claim behind the others, so that it has the places of the jobs
	// that end with them.
	Places func() int
}

// Check reports the first rule that c breaks.
func (c *Claim) Check() error { return CheckClaim(c.Owner, 0, c.TTL, c.Agents) }
