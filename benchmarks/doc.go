// Package benchmarks measures whole servers from outside: each runs as a process
// of its own, and its CPU time is read from the operating system, so that the
// load generator does not count. A floor runs beside it in the same benchmark:
// the least a server can do, one decode and one encode by encoding/json, without
// validation, ids, cancel or limits.
//
//	go test -bench . ./benchmarks/...
//
// The parts (scanner, actors, in-process calls) have their benchmarks beside
// them, in their packages.
package benchmarks
