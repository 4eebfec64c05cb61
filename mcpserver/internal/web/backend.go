// backend.go: the server as this package sees it.

package web

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// Backend is the server whose messages are carried.
type Backend interface {
	// Modern handles a request of 2026-07-28 with the header h. A returned error refuses the
	// request; otherwise x gets its answer.
	Modern(m *mcp.Message, from Sender, h http.Header, x *Exchange) error
	// Open opens a legacy session. Messages that belong to none of its requests go to out.
	// Ended is called when the session ends, maybe more than once.
	Open(ctx context.Context, from Sender, out Output, ended func()) (Session, error)
}

// Session is a legacy session of the [Backend]. No method waits for the client.
type Session interface {
	// Request handles a request, and Batch an array of messages. With x nil the answers go to
	// the session's output.
	Request(m *mcp.Message, from Sender, x *Exchange)
	Batch(data []byte, from Sender, x *Exchange)
	Notification(m *mcp.Message)
	Response(m *mcp.Message)
	// Version returns the negotiated revision, empty before initialize.
	Version() mcp.Version
	// Busy reports whether calls are in flight.
	Busy() bool
	// Reachable says that the client has opened a stream for messages of the server.
	Reachable()
	// Close ends the session.
	Close(cause error)
}

// Output takes the messages of a session that belong to none of its requests. No method but
// Close blocks.
type Output interface {
	// Write sends a frame, after those that are appended.
	Write(frame []byte) error
	// Append leaves the sending to a later Write or Flush.
	Append(frame []byte) error
	Flush() error
	Close(ctx context.Context) error
}

// Nowhere is the output of a session whose messages all belong to requests.
type Nowhere struct{}

// Write, Append, Flush and Close implement [Output].
func (Nowhere) Write([]byte) error          { return nil }
func (Nowhere) Append([]byte) error         { return nil } // see Write
func (Nowhere) Flush() error                { return nil } // see Write
func (Nowhere) Close(context.Context) error { return nil } // see Write

// Sender is who has sent a request.
type Sender struct {
	ID        string    // of the principal; empty for an anonymous one
	Principal any       // as HTTPOptions.Authenticate has returned it
	Expiry    time.Time // of its token; zero is never
}

// ErrUnavailable refuses a request because the server shuts down.
var ErrUnavailable = errors.New("the server is shutting down")

// Causes of the end of a session.
var (
	errHungUp          = errors.New("the client has hung up")
	errTooManySessions = errors.New("there are too many sessions")
	errIdleSession     = errors.New("the session was idle for too long")
)

// Refusal is an error that chooses the response.
type Refusal struct {
	Status    int    // 400, 401, 403 or 503; others are 401
	Challenge string // the value of WWW-Authenticate; may be empty
	Nonce     string // the value of DPoP-Nonce; may be empty
	Err       error  // for the log
}

func (e *Refusal) Error() string { return e.Err.Error() }

// write answers a request with the refusal. The text is always the same.
func (e *Refusal) write(w http.ResponseWriter, id mcp.ID) (status int) {
	status, challenge, h := http.StatusUnauthorized, e.Challenge, w.Header()
	switch e.Status {
	case http.StatusForbidden, http.StatusBadRequest, http.StatusServiceUnavailable: // AUTH-04
		status = e.Status
	}
	if challenge == "" && status == http.StatusUnauthorized {
		challenge = "Bearer" // a 401 must have a challenge (RFC 9110, 15.5.2)
	}
	if challenge != "" {
		h.Set("Www-Authenticate", challenge)
	}
	if e.Nonce != "" {
		h.Set("Dpop-Nonce", e.Nonce)
	}
	if status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
		refuse(w, status, id, mcp.Errorf(mcp.CodeInternal, "authorization cannot be checked now"))
		return status
	}
	refuse(w, status, id, invalid("not authorized"))
	return status
}
