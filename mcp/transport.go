package mcp

// Outgoing is one message handed to a transport. The fields beside Frame repeat
// what the frame says, so that a transport need not decode it (the headers of
// Streamable HTTP, HDR-01..).
type Outgoing struct {
	Frame  []byte // one JSON-RPC message (2025-03-26: or a batch), without a newline
	Kind   Kind
	ID     ID     // of a request or a response
	Method string // of a request or a notification
	Name   string // params.name or params.uri of a named method, else empty
}

// Link is one live connection of a transport: it carries whole messages and
// knows nothing of their meaning (WIRE-01). It may be used from any goroutine.
// A custom transport is a Link and the function that makes it (WIRE-02).
type Link interface {
	// Send passes on one message, in the order of the calls. The frame is the
	// caller's again when it returns. It does not wait for a slow peer: what can
	// not be written at once is queued within a bound, beyond which it is an error.
	Send(m Outgoing) error
	// Close ends the connection and releases what it holds; the Sink's Lost is
	// called if it was not yet. Close may be called more than once.
	Close() error
}

// Sink takes what a Link receives.
type Sink interface {
	// Frame takes one message (or batch). The bytes are valid until it returns.
	// It may be called from several goroutines at once, and does not block.
	Frame(frame []byte)
	// Lost is called once, when no more can come: err says why, nil for an
	// ordinary end.
	Lost(err error)
}
