//go:build !race

package mcptest

// Race holds when the race detector runs.
const Race = false
