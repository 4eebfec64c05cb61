// Package frame splits a byte stream into lines and writes lines into one.
//
// It is the framing of the stdio transport, and of sockets and in-memory pipes
// that reuse it: one message a line (STDIO-02, WIRE-02). It knows nothing of
// JSON. A [Reader] belongs to one goroutine; a [Writer] is shared by any number
// of them, never interleaves lines (STDIO-09) and never makes a caller wait for
// a slow peer. Both are bounded: the reader by its longest line, the writer by
// its queue (WIRE-04, ROB-3).
package frame
