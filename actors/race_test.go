//go:build race

package actors

// raceEnabled is whether the race detector is on. It allows 8,128 goroutines, and
// reports what the library does wrong.
const raceEnabled = true
