// Package sse reads and writes event streams (text/event-stream), as the HTTP
// transports of MCP carry them (WIRE-10, WIRE-11).
//
// [Reader] is strict about the grammar and bounded in all it keeps: whatever a
// peer sends, it holds one event of at most a given size, and starts no goroutine.
// [AppendEvent] and [AppendComment] write what it reads. Neither knows of MCP.
package sse
