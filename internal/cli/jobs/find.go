package jobs

import (
	"context"
	"errors"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/store"
)

// maxJobs bounds the jobs among which one is looked for by a part of its id, and those
// of a batch that are cancelled at once.
const maxJobs = 100_000

// allJobs reads the jobs of a query, the newest so many, briefly.
func allJobs(ctx context.Context, s store.Jobs, q store.JobQuery, most int) ([]store.Job, error) {
	var all []store.Job
	q.Brief, q.Limit = true, min(most, store.MaxPage)
	for len(all) < most {
		page, err := s.Jobs(ctx, q)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			break
		}
		all = append(all, page...)
		q.After = page[len(page)-1].Cursor()
	}
	return all, nil
}

// findJob looks a job up by its id, the beginning of it, or how new it is.
func findJob(ctx context.Context, s store.Jobs, name string) (store.Job, error) {
	n, counted := env.Newest(name)
	q, most := store.JobQuery{}, min(n, maxJobs)
	if !counted {
		j, err := s.Job(ctx, name)
		if err == nil || !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrInvalid) {
			return j, err
		}
		q.Beginning, most = name, maxJobs
	}
	all, err := allJobs(ctx, s, q, most)
	if !counted && (len(all) == 0 || err != nil) { // it may be a short form
		all, err = allJobs(ctx, s, store.JobQuery{}, maxJobs)
	}
	if err != nil {
		return store.Job{}, err
	}
	found, err := env.Pick("job", "jobs ls", name, all, func(j store.Job) string { return j.ID })
	if err != nil {
		return store.Job{}, err
	}
	return s.Job(ctx, found.ID)
}
