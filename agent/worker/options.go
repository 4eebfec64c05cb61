package worker

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/store"
)

// Options are the settings of a worker.
type Options struct {
	// Agents are the agents whose jobs are claimed. At least one is required, and no two may
	// have the same name.
	Agents []*agent.Agent
	// Store holds the jobs. It is required, and has to be the runtime's own: see
	// [agent.Options].Store.
	Store store.Store
	// Concurrency bounds the jobs at work, without jobs that wait for a person and those
	// whose outcome is being committed, as many as that at most. Zero means 8.
	Concurrency int
	// MaxParked bounds the jobs that wait for a person here, and so memory: such a job takes
	// about 10 KB until it is parked, see ParkAfter. At the bound the worker claims no more, and reports it in the log and in
	// [Status]. Zero means 100,000.
	MaxParked int
	// ParkAfter is how long a job that waits for a person stays here. Then it is parked: no worker has
	// it, and it takes no memory, until its question is decided or has expired. Zero means a minute,
	// below zero never.
	ParkAfter time.Duration
	// GiveUp is how long a job waits for its model's provider before it asks a person whether to
	// go on. Zero means 24 hours.
	GiveUp time.Duration
	// Lease is how long a job stays this worker's without a renewal. Zero means 30 seconds. The runs have leases of their own: see [agent.Options].Lease.
	Lease time.Duration
	// Poll is how often the store is asked for work, cancels and schedules. Zero means
	// half a second.
	Poll time.Duration
	// Drain is how long jobs under way have when the worker ends. Zero means 30 seconds.
	Drain time.Duration
	// Keep is how long runs and jobs that have ended are kept: the worker removes older ones
	// every hour. Zero means 180 days, below zero keeps all.
	Keep time.Duration
	// KeepRuns bounds the runs, and the jobs, that have ended and are kept: the worker removes
	// the oldest. Zero is no bound.
	KeepRuns int
	// KeepRules are for some of the runs and jobs in place of Keep and KeepRuns: the first rule that has one decides about
	// it, and it is not counted for KeepRuns. At most 100. The run of a sub-agent goes by that agent's name.
	KeepRules []KeepRule
	// Retry sets how often and when a job is tried again.
	Retry Retry
	// Retryable reports which failures get another attempt. Nil means [Retryable].
	Retryable func(err error) bool
	// Name is part of the worker's name in the store. Empty means the host's name.
	Name string
	// OnEvent receives all events, one after the other. When some thousand events wait for
	// it, the worker claims no more jobs.
	OnEvent func(Event)
	// Logger takes structured logs. Nil discards them.
	Logger *slog.Logger
}

func (o *Options) withDefaults() (Options, error) {
	d := *cmp.Or(o, new(Options))
	if d.Store == nil {
		return d, errors.New("there is no store: set Options.Store to the runtime's")
	}
	if len(d.Agents) == 0 || len(d.Agents) > store.MaxClaim {
		return d, fmt.Errorf("there are %d agents: want 1 to %d", len(d.Agents), store.MaxClaim)
	}
	names := make(map[string]bool)
	for _, a := range d.Agents {
		if a == nil || names[a.Name()] {
			return d, errors.New("an agent is nil, or two have the same name")
		}
		names[a.Name()] = true
	}
	if d.Concurrency < 0 || d.MaxParked < 0 || d.GiveUp < 0 || d.Lease < 0 || d.Poll < 0 || d.Drain < 0 || d.KeepRuns < 0 || d.Retry.MaxAttempts < 0 || d.Retry.MaxLosses < 0 || d.Retry.First < 0 || d.Retry.Max < 0 {
		return d, errors.New("an option is below zero: zero means its default")
	}
	if err := checkKeepRules(d.KeepRules); err != nil {
		return d, err
	}
	d.Concurrency = cmp.Or(d.Concurrency, 8)
	d.MaxParked = cmp.Or(d.MaxParked, 100_000)
	d.ParkAfter = cmp.Or(d.ParkAfter, time.Minute)
	d.GiveUp = cmp.Or(d.GiveUp, 24*time.Hour)
	d.Lease = cmp.Or(d.Lease, 30*time.Second)
	d.Poll = cmp.Or(d.Poll, 500*time.Millisecond)
	d.Drain = cmp.Or(d.Drain, 30*time.Second)
	d.Keep = cmp.Or(d.Keep, 180*24*time.Hour)
	d.Retry.MaxAttempts = cmp.Or(d.Retry.MaxAttempts, 3)
	d.Retry.MaxLosses = cmp.Or(d.Retry.MaxLosses, 10)
	d.Retry.First = cmp.Or(d.Retry.First, time.Second)
	d.Retry.Max = max(cmp.Or(d.Retry.Max, 5*time.Minute), d.Retry.First)
	if d.Retryable == nil {
		d.Retryable = Retryable
	}
	if d.Name == "" {
		d.Name, _ = os.Hostname()
	}
	d.Logger = cmp.Or(d.Logger, slog.New(slog.DiscardHandler))
	return d, nil
}

// ownerName makes the name of a worker's leases, which no other worker has.
func ownerName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < '!' || r > '~' {
			return '-'
		}
		return r
	}, name)
	return fmt.Sprintf("%s-%d-%s", name[:min(len(name), 64)], os.Getpid(), uuid.NewString()[:8])
}
