package jobs

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/store"
)

// needsStore refuses --no-store: without a store that lasts there is no queue.
func needsStore(e *env.Env) error {
	if e.NoStore {
		return env.Usagef("jobs are in the store: --no-store does not go with them")
	}
	return nil
}

// storedJobs is [env.Env.Stored] for a store that lasts.
func storedJobs(e *env.Env, run func(*cobra.Command, []string, store.Store) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := needsStore(e); err != nil {
			return err
		}
		return e.Stored(run)(cmd, args)
	}
}

// maxJobs bounds the jobs among which one is looked for by a part of its id, and those
// of a batch that are cancelled at once.
const maxJobs = 100_000

// allJobs reads the jobs of a query, the newest so many, briefly.
func allJobs(ctx context.Context, s store.Jobs, q store.JobQuery, most int) ([]store.Job, error) {
	var all []store.Job
	q.Brief, q.Limit = true, min(most, store.MaxPage)
	for len(all) < most {
		page, err := s.Jobs(ctx, q)
		if len(page) == 0 || err != nil {
			return all, err
		}
		all = append(all, page...)
		q.After = page[len(page)-1].Cursor()
	}
	return all, nil
}

// findJob looks a job up by its id, the beginning of it, or how new it is.
func findJob(ctx context.Context, s store.Jobs, name string) (store.Job, error) {
	return env.Find("job", "jobs ls", name, func(j store.Job) string { return j.ID },
		func(id string) (store.Job, error) { return s.Job(ctx, id) },
		func() ([]store.Job, error) {
			if n, counted := env.Newest(name); counted {
				return allJobs(ctx, s, store.JobQuery{}, min(n, maxJobs))
			}
			all, err := allJobs(ctx, s, store.JobQuery{Beginning: name}, maxJobs)
			if len(all) == 0 || err != nil { // it may be a short form
				return allJobs(ctx, s, store.JobQuery{}, maxJobs)
			}
			return all, nil
		})
}
