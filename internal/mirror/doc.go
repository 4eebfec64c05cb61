// Package mirror makes and checks the headers in which Streamable HTTP of 2026-07-28
// repeats what a request's body says, so that intermediaries need not read it.
//
// [Encode] writes any value, a name (HDR-03) or a parameter. [Params] reads from a
// tool's input schema which arguments are repeated (HDR-20), [Headers] takes them
// from the arguments of a call, and a [Plan] holds what a server got against them
// (HDR-24). All functions may be used from any goroutine.
package mirror
