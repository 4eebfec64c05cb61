package mcp

// Outgoing is one message handed to a transport. The fields beside Frame repeat
// what the frame says, so that a transport need not decode it (the headers of
// Streamable HTTP).
type Outgoing struct {
	Frame  []byte // one JSON-RPC message (2025-03-26: or a batch), without a newline
	Kind   Kind
	ID     ID     // of a request or a response
	Method string // of a request or a notification
	Name   string // params.name, params.uri or params.taskId of a named method, else empty
	// Headers are the tool parameters that Streamable HTTP mirrors, Mcp-Param-*,
	// with values not yet encoded. Other transports ignore them.
	Headers []Header
	// Cancels is the request that notifications/cancelled withdraws: over modern
	// HTTP its stream is closed and nothing is sent.
	Cancels ID
	// Tag is what the caller of the request wants the link to know: a server's, which
	// stream a question belongs to. It is nil for most.
	Tag any
}

// Header is one mirrored parameter.
type Header struct {
	Name  string // as in the header's name, without Mcp-Param-
	Value string
}

// Link is one live connection of a transport: it carries whole messages and
// knows nothing of their meaning. It may be used from any goroutine.
// A custom transport is a Link and the function that makes it.
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

// CallSink is a [Sink] that can be told more by a transport that carries each
// request on a stream of its own. The connection's sink is one.
type CallSink interface {
	Sink
	// FrameOf is Frame for a message that came on the stream of our request id, so
	// that a question of the peer is known to belong to it.
	FrameOf(id ID, frame []byte)
	// Failed ends one request, whose answer cannot arrive any more, while the
	// connection goes on. What err wraps decides what follows, see package call.
	Failed(id ID, err error)
}

// SkipSink is a [Sink] that can be told of a message that was too long to be taken, while
// the connection goes on. The connection's sink is one.
type SkipSink interface {
	Sink
	// Skipped ends the request that the message answers: the one whose id stands at
	// either end of it, else all that await an answer, with what err returns for an
	// answer that is certain, or not. A request of the peer is refused. Head and tail are
	// the first and the last bytes of the message.
	Skipped(head, tail []byte, err func(certain bool) error)
}
