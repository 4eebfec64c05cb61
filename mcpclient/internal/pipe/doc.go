// Package pipe connects to servers that read and write lines: processes, by their standard
// streams ([Start], [NewStdio]), and byte streams ([NewStream]).
package pipe
