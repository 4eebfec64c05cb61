// Package killmatrix makes faults at every commit of a store and at every effect of the tools of a run, and
// compares what comes of it with a run that was left alone: its process is killed with SIGKILL, or stands
// still past its lease, and another one goes on with the run; or its disk is full, its store locked, or the
// clock jumps, and it goes on by itself. "make kill-matrix" tries them all, a test without KILL_MATRIX=whole
// about a tenth. The tests are for Linux, since they read /proc.
package killmatrix
