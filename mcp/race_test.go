//go:build race

package mcp

// raceEnabled holds when the race detector runs, under which pools lose items at random.
const raceEnabled = true
