package runs

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/owner"
	"github.com/troupe-dev/troupe/store"
)

// FindRun looks a run up by id, by the beginning of one, or by how new it is.
func FindRun(ctx context.Context, s store.Store, name string) (store.Run, error) {
	return env.Find("run", "runs ls", name, func(r store.Run) string { return r.ID },
		func(id string) (store.Run, error) { return s.Run(ctx, id) },
		func() ([]store.Run, error) {
			if _, counted := env.Newest(name); !counted {
				if all, err := s.Runs(ctx, store.Query{Beginning: name}); len(all) > 0 || err != nil {
					return all, err
				}
			}
			return s.Runs(ctx, store.Query{}) // by number, or by a short form
		})
}

// StateOf is a run's state as a reader sees it: one that claims to be running
// and that no process holds any more was cut off.
func StateOf(r store.Run) string {
	if !r.State.Ended() && r.State != store.Waiting && !owner.Holds(r, time.Now()) {
		return "interrupted"
	}
	return string(r.State)
}
