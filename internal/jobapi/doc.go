// Package jobapi is what the world sees of a worker without a terminal: jobs that
// come over HTTP, their ends told to webhooks, and metrics.
//
//   - [Intake] is the HTTP interface: /v1/jobs, /healthz, /readyz, /metrics.
//   - [Hooks] tells the URLs of jobs what has become of them: signed, with retries, and
//     never to an address that is not public unless the user says so.
//   - [Metrics] counts what a worker does, in Prometheus' format.
//   - [Request] and [Job] are a job as it is handed in, and as it is shown; the command
//     line uses them too.
//
// Nothing here decides what a job does: that is package agent/worker. Everything may be
// used from any goroutine, and everything that comes from outside is bounded.
package jobapi
