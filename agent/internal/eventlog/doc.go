// Package eventlog keeps the events of a run for its readers: in memory within a bound, and beyond
// it in the run's journal, from where a run of another process is read, too.
package eventlog
