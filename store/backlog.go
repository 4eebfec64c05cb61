package store

import "time"

// Backlog is what waits in a store at one moment, for those who watch over it. Its zero value is nothing.
type Backlog struct {
	Asks      map[string]int // the pending asks of each kind; a kind without any is left out
	OldestAsk time.Time      // when the oldest of them was opened; zero without any
	OldestJob time.Time      // since when the queued job that is due the longest is due; zero without one that is due
	Parked    int            // jobs that wait without a worker
	// Succeeded is when the last job of each schedule that is done ended, by the name of the schedule; zero without one
	// in the store.
	Succeeded map[string]time.Time
}
