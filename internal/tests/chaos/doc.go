// Package chaos lets faults happen to workers that share a store, and holds what came of their jobs against the invariants
// in docs/durability.md: an oracle reads the store, each change of a job's row, and the effects of the tools, which are
// lines that a server has written to a file. "make kill-matrix" has the rows of workers, one fault each at a moment that was
// chosen (TestKillMatrixWorkers); "make chaos SEED=…" is a schedule of faults that follows from the seed (TestChaos). The
// tests are for Linux, since they read /proc.
package chaos
