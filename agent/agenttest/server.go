package agenttest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// FakeServer is a scripted MCP server in the process of the test. Make it with [Server];
// its methods that change it are for before it is used.
type FakeServer struct {
	name  string
	tools []*FakeTool
	def   mcpclient.Server // its definition for the runtime
	opts  mcpserver.Options

	mu     sync.Mutex // guards the fields below, which the test and the server's connections use; the test is no actor
	server *mcpserver.Server
	lines  []*line // its connections, broken ones too
	calls  []Call
	down   error // why no client can connect; nil if one can
}

// Call is a call that a [FakeServer] has got.
type Call struct {
	Tool      string
	Arguments json.RawMessage
	// Key is the idempotency key that runs send: the same for a call that is repeated.
	Key  string
	Time time.Time
}

// Server returns a scripted server with these tools. It speaks all revisions of the
// protocol, and clients choose the newest; the user does not trust it.
func Server(name string, tools ...*FakeTool) *FakeServer {
	s := &FakeServer{name: name, tools: tools, opts: mcpserver.Options{Limits: mcpserver.Limits{Grace: time.Millisecond}}}
	s.def = mcpclient.InProcess(name, s)
	return s
}

// Trusted has the user trust the server's annotations of its tools: by the default policy
// read-only tools then need no approval. It returns the server.
func (s *FakeServer) Trusted() *FakeServer {
	s.def.Trusted = true
	return s
}

// Speaks restricts the server to revisions of the protocol, and so to an era, and returns
// the server.
func (s *FakeServer) Speaks(versions ...mcp.Version) *FakeServer {
	s.opts.Versions = versions
	return s
}

// Down lets all attempts to connect fail with this error; nil ends that. Connections that
// are there stay: see [FakeServer.Drop]. It may be called at any time and returns the
// server.
func (s *FakeServer) Down(err error) *FakeServer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
	return s
}

// Drop breaks all connections to the server, as a crash does. Clients may connect again.
func (s *FakeServer) Drop() {
	s.mu.Lock()
	lines := s.lines
	s.lines = nil
	s.mu.Unlock()
	for _, l := range lines {
		l.drop()
	}
}

// Calls returns the calls that the server has got so far, in the order in which they came.
func (s *FakeServer) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Connect implements [mcpclient.Connector].
func (s *FakeServer) Connect(to mcp.Sink) (mcp.Link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down != nil:
		return nil, s.down
	case s.server == nil:
		return nil, errors.New("the server's test is over")
	}
	l := &line{to: to}
	link, err := s.server.Connect(l)
	if err != nil {
		return nil, err
	}
	l.Link = link
	s.lines = append(s.lines, l)
	return l, nil
}

// start makes the real server behind this one.
func (s *FakeServer) start(sys *actors.System) (mcpclient.Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		return mcpclient.Server{}, fmt.Errorf("the server %s is used by another runtime already", s.name)
	}
	s.opts.System = sys
	server, err := mcpserver.New(mcp.Implementation{Name: s.name, Version: "1.0.0"}, &s.opts)
	if err != nil {
		return mcpclient.Server{}, fmt.Errorf("making the server %s: %w", s.name, err)
	}
	for _, t := range s.tools {
		if err := t.addTo(s, server); err != nil {
			return mcpclient.Server{}, errors.Join(fmt.Errorf("making the server %s: %w", s.name, err), server.Close())
		}
	}
	s.server = server
	return s.def, nil
}

func (s *FakeServer) stop() error {
	s.mu.Lock()
	server := s.server
	s.server = nil
	s.mu.Unlock()
	if server == nil {
		return nil
	}
	return server.Close()
}

// record writes a call down.
func (s *FakeServer) record(req *mcpserver.ToolRequest) {
	c := Call{Tool: req.Name(), Arguments: slices.Clone(req.Arguments()), Time: time.Now()}
	_, _ = req.Meta().Get(agent.MetaIdempotencyKey, &c.Key) // empty for callers that send none
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
}

// line is a connection that can break: a [mcp.Link] for the client, and a [mcp.Sink] for
// the server.
type line struct {
	mcp.Link
	to   mcp.Sink
	lost sync.Once

	broken atomic.Bool
}

// errDropped is how a connection has ended that was dropped.
var errDropped = errors.New("the connection broke, as the test's script says")

// Frame implements [mcp.Sink].
func (l *line) Frame(frame []byte) {
	if !l.broken.Load() {
		l.to.Frame(frame)
	}
}

// Lost implements [mcp.Sink].
func (l *line) Lost(err error) { l.lost.Do(func() { l.to.Lost(err) }) }

func (l *line) drop() {
	l.broken.Store(true)
	l.Lost(errDropped)
	_ = l.Close()
}
