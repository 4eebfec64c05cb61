package mcpserver

import "github.com/troupe-dev/troupe/mcp"

// port is where the messages of one request go: the pipe that it came on, the array
// it was part of, or the answer to a POST. No method blocks, and a frame is the
// caller's again when it returns. Each request ends with one answer or one drop.
type port interface {
	// notify sends what belongs to the request and comes before its answer: a
	// notification, or a question to the client.
	Notify(frame []byte)
	// answer sends the response. Failed is the error in it, nil for a result.
	Respond(frame []byte, failed *mcp.Error)
	// drop says that there will be none: the request was cancelled.
	Drop()
}

// The session of a pipe or link is the port of requests that are carried out away
// from its reader.
func (s *session) Notify(frame []byte)                { s.write(frame) }
func (s *session) Respond(frame []byte, _ *mcp.Error) { s.write(frame) }
func (s *session) Drop()                              {}

// work is what a call carries out: a tool, a prompt, a resource, a completion.
type work interface {
	// name is for logs and messages.
	name() string
	// asks reports whether the handler takes the request: it may ask the client and
	// wait, so it runs on a goroutine of its own.
	asks() bool
	// speed decides whether it may run where a pipe is read; nil is never.
	speed() *speed
	// run carries it out and leaves the answer in r.out, see request.respond.
	run(r *request) error
}
