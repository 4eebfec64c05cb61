package conn

import "time"

// State is what a connection is doing.
type State uint8

// The states.
const (
	Idle         State = iota // no caller has asked for it yet
	Dialing                   // a transport is being made
	Negotiating               // both sides agree on a version
	Ready                     // calls go out
	Backoff                   // between two attempts
	Failed                    // for good; another attempt is made when a caller asks
	Unauthorized              // the peer wants a login; another attempt is made after that, or by [Conn.Retry]
	Closing                   // no more calls are taken
	Closed
)

var stateNames = [...]string{"idle", "dialing", "negotiating", "ready", "backoff", "failed", "unauthorized", "closing", "closed"}

// String returns the state's name.
func (s State) String() string { return stateNames[min(s, Closed)] }

// Status is a snapshot of a connection.
type Status struct {
	State State
	Since time.Time
	// Generation counts the transports.
	Generation uint64
	// Err is why the last attempt or transport ended; nil once ready.
	Err error
	// Failures counts the failed attempts since it was last stable.
	Failures int
}
