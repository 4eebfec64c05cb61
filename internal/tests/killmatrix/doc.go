// Package killmatrix kills a process with SIGKILL before and after every commit of its store and every
// effect of its tools, lets the run go on in another process, and compares what came of it with a run
// that was left alone. "make kill-matrix" tries every point, a test without KILL_MATRIX=whole every
// tenth. The tests are for Linux, since they read /proc.
package killmatrix
