// Package jobhook is the door from agent/worker into agent: what the runs of jobs need and no other
// program does. It is no part of the public API of agent, which registers the functions when it is
// linked.
package jobhook

import (
	"context"
	"encoding/json"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// Hooks are the functions. The type parameters are the types of those names in agent, which this
// package cannot import.
type Hooks[Agent, Run, RunOptions, ResumeOptions, ForkOptions, Result any] struct {
	// Start starts a run for the attempt of a job, as Agent.Start does, but calls answer in place of the wait until
	// the run is recorded: once, from any goroutine, or before it returns.
	Start func(ctx context.Context, a *Agent, prompt string, o *RunOptions, job Job[Result], answer func(*Run, error))
	// Resumes makes the run that the options are for the attempt of a job. It goes on under the job's lease, and is not claimed.
	Resumes func(o *ResumeOptions, job Job[Result])
	// Forks makes the fork that the options are for the attempt of a job, which goes on from an earlier one: it keeps the
	// nonce of the run that it is a fork of, so that the keys of calls stay theirs, and counts what that run has spent.
	Forks func(o *ForkOptions, job Job[Result])
	// Leave ends the work of this process on a run, since another one has it or will have it: nothing is appended, and
	// the run ends with [agent.ErrLeft] and the cause.
	Leave func(run *Run, cause error)
	// Encode encodes a result for a job; nil for none.
	Encode func(*Result) json.RawMessage
}

// Job is a job whose lease the caller holds, and under which its run works. It stays the caller's: the run renews it, and does not
// give it up when it is suspended or left.
type Job[Result any] struct {
	ID, Owner string
	Epoch     int64
	Lease     time.Duration // how long a renewal makes the lease last; zero means that of the runtime
	// Ends returns the end of the job, which is written in one transaction with that of its run, see [store.Append]; nil
	// for one that the caller ends. The error is nil exactly if the run has an answer. It must not block.
	Ends func(*Result, error) *store.JobUpdate
}

var registered any

// Register sets the hooks. Package agent calls it when it is initialized.
func Register(hooks any) { registered = hooks }

// Get returns the hooks. H is the type that agent has registered; any other panics.
func Get[H any]() H { return registered.(H) }
