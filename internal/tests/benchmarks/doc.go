// Package benchmarks measures clients and calls within a process, and holds what
// a call allocates to hard limits. A floor runs beside each benchmark: the least
// a program can do, one decode and one encode by encoding/json, without
// validation, ids, cancel or limits. Where a process is measured alone its CPU
// time is read from the operating system, so that the other side does not count.
//
//	go test -bench . ./benchmarks
//
// Command compare measures servers, beside those of other libraries. The parts (scanner,
// actors, checks) have their benchmarks beside them, in their packages.
package benchmarks
