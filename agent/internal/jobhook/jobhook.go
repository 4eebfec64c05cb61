// Package jobhook is the door from agent/worker into agent: what the runs of jobs need and no other
// program does. It is no part of the public API of agent, which registers the functions when it is
// linked.
package jobhook

import (
	"context"

	"github.com/troupe-dev/troupe/store"
)

// Hooks are the functions. The type parameters are the types of those names in agent, which this
// package cannot import.
//
// Ends returns the end of the job: a run that ends with an answer has it written in one transaction with its
// own end, see [store.Append]. It must not block, and must be valid.
type Hooks[Agent, Run, RunOptions, ResumeOptions, Result any] struct {
	// Start starts a run for the attempt of a job, as Agent.Start does, but calls answer in place of the wait until
	// the run is recorded: once, from any goroutine, or before it returns.
	Start func(ctx context.Context, a *Agent, prompt string, o *RunOptions, ends func(*Result) *store.JobUpdate, answer func(*Run, error))
	// Resumes makes the run that the options are for the attempt of a job.
	Resumes func(o *ResumeOptions, ends func(*Result) *store.JobUpdate)
}

var registered any

// Register sets the hooks. Package agent calls it when it is initialized.
func Register(hooks any) { registered = hooks }

// Get returns the hooks. H is the type that agent has registered; any other panics.
func Get[H any]() H { return registered.(H) }
