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
//   - A worker leaves a run, and never ends one. The run of a job whose worker was lost goes on where its
//     journal ends, with the answers that were given meanwhile: see [agent.Runtime.Resume]. A loss is no
//     failure. A job that has lost two workers, with nothing new recorded between, goes on with no other
//     job beside it: it may be the cause. After [Retry].MaxLosses a person is asked whether it goes on.
//   - A model's provider that is away is waited for: the run is parked, without an attempt or a time limit that
//     counts, and goes on by itself. After [Options].GiveUp a person is asked whether it goes on.
//   - A job that has failed goes on behind the last recorded result when it is tried again, with the same
//     idempotency keys, limits and spending.
//   - A jump of the clock, a sleep of the machine or a pause of the process moves no job
//     from a worker that lives.
//   - A run that waits for a person takes no goroutine and no place among the jobs at work.
//   - A schedule fires once for each of its times, in one of the workers; times that passed
//     while there was no worker make one firing together.
//
// Tests use a scripted model and a store in memory; in a testing/synctest bubble an hour
// of back-off takes no time.
package worker
