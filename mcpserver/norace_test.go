//go:build !race

package mcpserver_test

// raceEnabled holds when the race detector runs, under which pools lose items at random.
const raceEnabled = false
