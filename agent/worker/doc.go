// Package worker works off a queue of jobs.
//
// A job is a prompt for an agent that is kept in a store ([store.Jobs]); a worker claims
// those that are due, runs the agent, and writes down what came of it:
//
//	w, err := worker.New(rt, &worker.Options{Agents: []*agent.Agent{reader}, Store: s})
//	err = w.Run(ctx) // until ctx ends, and a while longer for the jobs under way
//
// Any number of workers, in any number of processes, may have one store.
//
// # What is promised
//
//   - A job is worked on by the one worker that holds its lease, and its result is
//     written once. A worker that stood still past its lease is fenced off: neither
//     the job nor the journal of its run takes anything from it any more.
//   - A job whose worker was lost is begun again, as a run of its own (job.1, job.2, …),
//     unless a call may have been made that is not declared safe to make twice
//     ([agent.Tool].Safe, or a trusted server's read-only and idempotent tools). Then it
//     is [store.JobUnknown], and a human decides: [store.Jobs].RetryJob.
//     A loss is no failure, and up to [Retry].MaxLosses are borne. A job that has lost two
//     workers runs with no other job beside it: it may be what ends them.
//   - A jump of the clock, a sleep of the machine or a pause of the process moves no job
//     from a worker that lives.
//   - The same holds for a job that failed in a way that may pass: a model that can not
//     be reached, or not so often. It is queued again, with back-off.
//   - A run that waits for a human takes no goroutine and no place among the jobs at once.
//   - A schedule fires once for each of its times, whichever worker sees to it; times
//     that passed while there was no worker make one firing together.
//
// Tests use a scripted model and a store in memory; in a testing/synctest bubble an hour
// of back-off takes no time.
package worker
