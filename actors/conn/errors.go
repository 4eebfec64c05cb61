package conn

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrConnectTimeout says that dialing or negotiating took too long.
	ErrConnectTimeout = errors.New("conn: connecting timed out")
	// ErrNoPing says that the peer gave no sign of life.
	ErrNoPing = errors.New("conn: the peer does not answer pings")
	// ErrPermanent is what an error is that was marked by [Permanent].
	ErrPermanent = errors.New("conn: trying again does not help")
	// ErrClosedByPeer is a transport that ended without an error.
	ErrClosedByPeer = errors.New("the peer closed the connection")
	// ErrGenerationOver ends the peer's requests when what they came on is gone.
	ErrGenerationOver = errors.New("conn: the transport of the request is gone")
	// ErrNotReady is returned for a notification without a connection.
	ErrNotReady = errors.New("conn: not connected")
)

// connectTimeout is [ErrConnectTimeout] with what was under way.
type connectTimeout struct {
	State State // what was under way
	After time.Duration
}

func (e *connectTimeout) Error() string {
	return fmt.Sprintf("no connection within %v (%v)", e.After, e.State)
}

func (e *connectTimeout) Is(target error) bool { return target == ErrConnectTimeout }

// pingError is [ErrNoPing] with what became of the pings.
type pingError struct {
	Misses int           // pings in a row without an answer
	After  time.Duration // how long each was waited for
	Err    error         // what became of the last
}

func (e *pingError) Error() string {
	return fmt.Sprintf("the peer did not answer %d pings within %v each: %v", e.Misses, e.After, e.Err)
}

func (e *pingError) Is(target error) bool { return target == ErrNoPing }

func (e *pingError) Unwrap() error { return e.Err }

// marked is an error that says how to go on.
type marked struct {
	error
	permanent, said bool
}

func (m *marked) Unwrap() error { return m.error }

func (m *marked) Is(target error) bool { return target == ErrPermanent && m.permanent }

// Permanent marks an error of Dial or Negotiate that trying again does not help.
func Permanent(err error) error { return &marked{err, true, false} }

// Refused marks an error of Dial as [Permanent] does, of a refusal that this side has decided and logged itself:
// a connection does not log it again.
func Refused(err error) error { return &marked{err, true, true} }

// IsRefused reports whether err was marked by [Refused].
func IsRefused(err error) bool {
	m, ok := errors.AsType[*marked](err)
	return ok && m.said
}

// Redial marks an error of Negotiate after which a fresh transport is to be tried
// at once: a few times in a row at most, and only before any other failure.
func Redial(err error) error { return &marked{err, false, false} }

func isRedial(err error) bool {
	m, ok := errors.AsType[*marked](err)
	return ok && !m.permanent
}
