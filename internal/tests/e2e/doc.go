// Package e2e tests the client against servers that others have written, as real
// processes: server-everything over each transport in each revision it speaks, and
// the SDKs for TypeScript and Go in 2026-07-28.
//
// What is not a test file is shared with package interop, which has the Go SDK: [Modern] is the test of any server that offers the tools named there.
package e2e
