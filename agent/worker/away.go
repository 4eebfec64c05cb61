// away.go: what a worker does not claim, as it could not work on it: jobs whose provider of models is away, and those that it
// has put back because a server had no instance for them.

package worker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/store"
)

// tryEvery is how long a job that tries whether a provider is back keeps others from trying it, too.
const tryEvery = 30 * time.Second

// providersAway are the providers of models that are away, as the jobs of this worker have found out: no jobs are
// claimed that need one, but for one at a time that tries whether it is back.
type providersAway struct {
	mu        sync.Mutex           // guards all: the actors of jobs note, and the task of a look asks
	providers map[string]time.Time // when it is tried again, by the provider's name
	agents    map[string]time.Time // when jobs are claimed again of an agent that needs more than one provider
}

// noteAway takes in that a run of an agent was left because of an outage.
func (w *Worker) noteAway(name string, out *agent.OutageError) {
	p := &w.away
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.providers == nil {
		p.providers, p.agents = make(map[string]time.Time), make(map[string]time.Time)
	}
	if needs := w.agents[name].Providers(); len(needs) == 1 && !w.answers(needs[0]) {
		p.providers[needs[0]] = out.RetryAt
	} else { // another model may answer, or it is that of a sub-agent
		p.agents[name] = out.RetryAt
	}
}

// answers reports whether the last attempt at a provider was answered.
func (w *Worker) answers(provider string) bool {
	s, ok := w.rt.Providers()[provider]
	return ok && s.LastError == nil && s.Circuit == "closed"
}

// split returns the agents whose jobs can be claimed, and those of whose jobs one may be, to try whether their provider
// is back.
func (w *Worker) split() (well, tries []string) {
	p := &w.away
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.providers)+len(p.agents) == 0 {
		return w.names, nil
	}
	now := time.Now()
	for name := range p.providers {
		if w.answers(name) {
			delete(p.providers, name)
		}
	}
	for _, name := range w.names {
		until, away := p.agents[name]
		if away && !now.Before(until) {
			delete(p.agents, name)
			away = false
		}
		needs := w.agents[name].Providers()
		if len(needs) == 1 && !away {
			until, away = p.providers[needs[0]]
		}
		switch {
		case !away:
			well = append(well, name)
		case !now.Before(until):
			tries = append(tries, name)
		}
	}
	return well, tries
}

// tried notes that a job of an agent tries whether its provider is back.
func (w *Worker) tried(name string) {
	w.away.mu.Lock()
	defer w.away.mu.Unlock()
	for _, provider := range w.agents[name].Providers() {
		if _, ok := w.away.providers[provider]; ok {
			w.away.providers[provider] = time.Now().Add(tryEvery)
		}
	}
}

// claimJobs claims jobs whose agents can work, and one that tries whether a provider is back.
func (w *Worker) claimJobs(ctx context.Context, n int) (jobs []store.Job, err error) {
	well, tries := w.split()
	left := w.leftToOthers()
	if len(well) > 0 {
		jobs, err = w.store.ClaimJobs(ctx, w.owner, n, w.opts.Lease, well, left...)
	}
	if err != nil || len(tries) == 0 || len(jobs) == n {
		return jobs, err
	}
	more, err := w.store.ClaimJobs(ctx, w.owner, 1, w.opts.Lease, tries, left...)
	for _, j := range more {
		w.tried(j.Agent)
	}
	return append(jobs, more...), err
}

// maxPutBack bounds the jobs that are left to others at once: those beyond it wait here.
const maxPutBack = store.MaxClaim

// putBackFor is how long a job is left to others, once as many are as may be: it may long be another's.
const putBackFor = time.Minute

// putBack are jobs that wait for an instance of a server, and that this worker has put back for others to take.
type putBack struct {
	mu   sync.Mutex // guards all: the actors of jobs note, and the task of a look asks
	jobs map[string]wanted
}

// wanted is the server of which a job wants an instance.
type wanted struct {
	server string
	since  time.Time
}

// mayPutBack reports whether one more job may be put back.
func (w *Worker) mayPutBack() bool {
	w.back.mu.Lock()
	defer w.back.mu.Unlock()
	if len(w.back.jobs) >= maxPutBack {
		maps.DeleteFunc(w.back.jobs, func(_ string, want wanted) bool { return time.Since(want.since) >= putBackFor })
	}
	return len(w.back.jobs) < maxPutBack
}

// notePutBack takes in that a job is put back, as it wants an instance of the server. Several may be on their way at the bound:
// those beyond it are not left to others, as a claim excepts so many only.
func (w *Worker) notePutBack(job, server string) {
	w.back.mu.Lock()
	defer w.back.mu.Unlock()
	if len(w.back.jobs) >= maxPutBack {
		return
	}
	if w.back.jobs == nil {
		w.back.jobs = make(map[string]wanted)
	}
	w.back.jobs[job] = wanted{server, time.Now()}
}

// leftToOthers returns the jobs that were put back and whose server still has no instance here.
func (w *Worker) leftToOthers() []string {
	w.back.mu.Lock()
	defer w.back.mu.Unlock()
	if len(w.back.jobs) == 0 {
		return nil
	}
	full := make(map[string]bool)
	for _, s := range w.rt.Host().Servers() {
		full[s.Name] = s.Full
	}
	maps.DeleteFunc(w.back.jobs, func(_ string, want wanted) bool { return !full[want.server] })
	return slices.Collect(maps.Keys(w.back.jobs))
}
