// Package interop tests Troupe against the official Go SDK, both ways round and
// in both eras: its client drives our stdio server, our host drives its.
package interop
