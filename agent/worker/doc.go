// Package worker runs the jobs of a queue.
//
// A job is a prompt for an agent that is kept in a store ([store.Jobs]); a worker claims
// those that are due, runs the agent, and records the outcome:
//
//	w, err := worker.New(rt, &worker.Options{Agents: []*agent.Agent{reader}, Store: s})
//	err = w.Run(ctx) // until ctx ends, and a while longer for the jobs under way
//
// Any number of workers, in any number of processes, may share one store.
//
// # Promises
//
//   - Only the worker that holds its lease works on a job, and the result is written once.
//     A worker that stood still past its lease is fenced off: neither the job nor the
//     journal of its run accepts its writes any more.
//   - The run of a job whose worker was lost goes on where its journal ends, with the answers
//     that were given meanwhile: see [agent.Runtime.Resume]. One that cannot go on is begun
//     again, as a run of its own (job.1, job.2, …),
//     unless the run may have made a call that is not declared safe to repeat
//     ([agent.Tool].Safe, or a trusted server's read-only and idempotent tools). Then it
//     is [store.JobUnknown], and a person decides: [store.Jobs].RetryJob. A loss is no
//     failure, and up to [Retry].MaxLosses are allowed. A job that has lost two workers
//     runs with no other job beside it: it may be the cause.
//   - A jump of the clock, a sleep of the machine or a pause of the process moves no job
//     from a worker that lives.
//   - The same holds for a job with a failure that may pass, such as an unreachable model
//     or a rate limit. It is queued again, with back-off.
//   - A run that waits for a person takes no goroutine and no place among the jobs at work.
//   - A schedule fires once for each of its times, in one of the workers; times that passed
//     while there was no worker make one firing together.
//
// Tests use a scripted model and a store in memory; in a testing/synctest bubble an hour
// of back-off takes no time.
package worker
