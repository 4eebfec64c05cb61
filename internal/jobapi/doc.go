// Package jobapi is the HTTP interface of a worker: it takes jobs, delivers webhooks at their
// ends, and serves metrics.
//
//   - [Intake] is the HTTP interface: /v1/jobs, /healthz, /readyz, /metrics.
//   - [Hooks] delivers the outcome of jobs to their URLs: signed, with retries, and never to
//     an address that is not public unless the user allows it.
//   - [Notices] has people notified of questions that begin to wait.
//   - [Metrics] counts the work of a worker, in Prometheus' format.
//   - [Request] and [Job] are the JSON of a job to be queued and of one that is shown; the
//     command line uses them too.
//
// Package agent/worker runs the jobs. Everything here may be used from any goroutine, and all
// input from outside is bounded.
package jobapi
