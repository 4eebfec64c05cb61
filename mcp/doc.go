// Package mcp holds the wire types of the Model Context Protocol, its JSON-RPC
// codec, and what differs between its five revisions.
//
// It is a leaf: values and functions without goroutines, clocks or I/O. A
// message from a peer goes through [Scan], which checks all of it in one pass
// and finds the parts; a typed value is then decoded with [Unmarshal] from one
// of those parts. Towards a peer, [AppendRequest] and its siblings write the
// envelope and [AppendResultOf] writes a result as one revision wants it.
//
// # What is promised
//
//   - Nothing a peer sends makes a function here panic, recurse without bound
//     or take more than linear time.
//   - Names are case-sensitive; a duplicate name, invalid UTF-8, a lone
//     surrogate or bytes after the value are refused at every depth.
//   - Unknown members and content blocks are kept and written again.
//   - Every function may be used from any goroutine. A value may be read by
//     several goroutines, and changed by one.
//
// Both [Marshal] and encoding/json write these types with their unknown members.
// Read them with [Unmarshal]: encoding/json drops unknown members.
package mcp
