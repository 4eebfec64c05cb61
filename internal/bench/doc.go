// Package bench makes load: [Server] on any MCP server, by sessions of Troupe's client,
// and [Agents] on Troupe's own runtime, by agents whose model is scripted. Both end by
// themselves, and give a report that is written as JSON of a documented shape;
// [Compare] finds what differs between two of them.
//
// # What is measured
//
// Latencies are kept in HDR histograms. A closed loop keeps a number of calls in flight,
// and waits for each answer before the next call: a server that stalls is asked less.
// An open loop begins calls at the times of a schedule, whatever the server does, and
// counts from the time on the schedule: what a caller waited because the server, or the
// load generator, was still busy with earlier ones is part of the latency.
//
// The load generator is Troupe's client, on the cores that the server runs on. CPU time
// and memory are those of the server's processes alone.
//
// Nothing here starts a goroutine that it does not wait for.
package bench
