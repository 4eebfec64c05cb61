package setup

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/internal/cli/version"
	"github.com/troupe-dev/troupe/internal/jobapi"
	"github.com/troupe-dev/troupe/store"
)

// MetricsOptions are those of the metrics of a process.
func MetricsOptions(o *Opened) jobapi.MetricsOptions {
	stalled := func() int { return len(o.Runtime.Stalled()) }
	build := version.Current()
	return jobapi.MetricsOptions{System: o.Runtime.System(), Store: o.Store, Version: build.Version, Commit: build.Commit, Probe: jobapi.NewStoreProbe(o.Runtime.System(), o.Store, stalled, o.Log), Stalled: stalled,
		Servers: func() []jobapi.ServerUse { return serverUse(o) }, Providers: func() []jobapi.Provider { return ModelProviders(o) }}
}

// StoreReady says why the store takes no work. Any client may ask, so the look is cheap however many jobs there are.
func StoreReady(ctx context.Context, s store.Jobs, probe *jobapi.StoreProbe) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if _, err := s.Jobs(ctx, store.JobQuery{Brief: true, Limit: 1}); err != nil {
		return errors.New("the store does not answer")
	}
	return probe.Check(ctx)
}

// serverUse says how many processes the servers have.
func serverUse(o *Opened) []jobapi.ServerUse {
	var all []jobapi.ServerUse
	for _, s := range o.Runtime.Host().Servers() {
		all = append(all, jobapi.ServerUse{Name: s.Name, Instances: len(s.Instances), Waiting: s.Waiting})
	}
	return all
}

// ModelProviders says how the providers of models stand.
func ModelProviders(o *Opened) []jobapi.Provider {
	states, errs := o.Runtime.Providers(), o.Runtime.ModelErrors()
	var all []jobapi.Provider
	for _, name := range slices.Sorted(maps.Keys(states)) {
		s := states[name]
		all = append(all, jobapi.Provider{Name: name, Circuit: s.Circuit, Class: s.Class, Since: s.Since, Until: s.Until, Errors: errs[name]})
	}
	return all
}
