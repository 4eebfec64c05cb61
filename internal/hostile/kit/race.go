//go:build race

package kit

// Race holds when the race detector runs.
const Race = true
