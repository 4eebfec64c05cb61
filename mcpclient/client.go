package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/internal/callbacks"
	"github.com/troupe-dev/troupe/internal/intern"
	"github.com/troupe-dev/troupe/internal/memo"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
	"github.com/troupe-dev/troupe/mcpclient/internal/consent"
	"github.com/troupe-dev/troupe/mcpclient/internal/listening"
	"github.com/troupe-dev/troupe/mcpclient/internal/lists"
	"github.com/troupe-dev/troupe/mcpclient/internal/loglimit"
	"github.com/troupe-dev/troupe/mcpclient/internal/negotiate"
	"github.com/troupe-dev/troupe/mcpclient/internal/pipe"
	"github.com/troupe-dev/troupe/mcpclient/internal/pool"
	"github.com/troupe-dev/troupe/mcpclient/internal/weblink"
)

// Info is what is known about a server since the last time it was connected. It must not be changed.
type Info struct {
	Name         string              // as configured
	Server       *mcp.Implementation // as it calls itself: for display and logs only; may be nil
	Era          mcp.Era
	Version      mcp.Version
	Capabilities mcp.ServerCapabilities
	Instructions string              // for the model; untrusted
	Discovered   *mcp.DiscoverResult // of a modern server, else nil
}

// Client is the connection to one server. It outlives the server's processes: a
// server that ends is started again, and calls wait for it.
type Client struct {
	// The parts of a client, each of them the methods for one purpose.
	requests requests
	tools    toolCalls
	changes  changes
	dialing  dialing
	incoming incoming

	questions questions
	server    *Server  // of all clients with equal ones: not to be changed
	opts      *Options // likewise
	log       *slog.Logger
	sys       *actors.System
	conn      *conn.Conn
	eras      *negotiate.Eras // of the host, or its own
	pool      *asks.HostLimit // likewise
	cache     lists.Cache
	watches   atomic.Pointer[listening.Watching] // nil before it is needed, see watching
	instances atomic.Pointer[pool.Pool]          // likewise, see pooled; of the first only
	callbacks atomic.Pointer[callbacks.Queue]    // likewise, see events
	logs      *loglimit.Limit                    // nil if no function takes messages

	info    atomic.Pointer[Info]       // nil before the first connection
	level   atomic.Value               // mcp.LogLevel
	process atomic.Pointer[pipe.Stdio] // the newest; nil if there was none
	web     *weblink.Server            // nil without a URL

	consent *consent.Given // of all instances
	closing sync.Once
	ownSys  bool
	closed  error
}

// What clients share.
var definitions, filledIn, infos = new(intern.Set[Server]), new(intern.Set[Options]), new(intern.Set[Info])

type (
	// requests carry out what the program asks of the server.
	requests struct{ *Client }
	// toolCalls are the requests that call tools: their schemas, headers and tasks.
	toolCalls struct{ *Client }
	// changes are what the client watches at its server: tasks, lists and resources.
	changes struct{ *Client }
	// dialing makes connections, and what they need.
	dialing struct{ *Client }
	// incoming takes what the server sends on its own account.
	incoming struct{ *Client }
)

// events returns the queue of the program's functions.
func (c *Client) events() *callbacks.Queue {
	return memo.Lazily(&c.callbacks, func() *callbacks.Queue {
		return &callbacks.Queue{System: c.sys, Owner: "events of " + c.instanceName(), Bounded: true}
	})
}

// status passes on what the connection does.
func (c *Client) status(conn.Status) {
	if c.opts.OnState != nil {
		c.opts.OnState(c.Status())
	}
}

// Status is a snapshot of a client.
type Status struct {
	Name       string
	State      conn.State
	Since      time.Time
	Generation uint64 // how often it was connected to, attempts included
	Failures   int    // attempts that failed since it last was ready for a while
	Err        error  // why the last connection or attempt ended; nil once ready
	Info       *Info  // nil before the first connection
	Stderr     string // the last lines the server wrote there, at most 2 KiB
	// Warnings say in words what does not work as it should while the server is used:
	// those of the definition, and a server that refuses its event stream.
	Warnings []string
}

// Status returns what the client is doing.
func (c *Client) Status() Status {
	s := c.conn.Status()
	out := Status{Name: c.server.Name, State: s.State, Since: s.Since, Generation: s.Generation, Failures: s.Failures, Err: s.Err, Info: c.info.Load()}
	if p := c.process.Load(); p != nil {
		out.Stderr = p.LastLines()
	}
	out.Warnings = slices.Concat(c.server.Warnings, c.web.Warnings())
	return out
}

// Info connects if that was not done yet, and returns what is known of the server.
func (c *Client) Info(ctx context.Context) (*Info, error) {
	if info := c.info.Load(); info != nil {
		return info, nil
	}
	if err := c.conn.Connect(ctx); err != nil {
		return nil, &ServerError{Server: c.server.Name, Err: err}
	}
	return c.info.Load(), nil
}

// Stderr returns the end of what the server wrote to its standard error, at most
// 64 KiB.
func (c *Client) Stderr() string {
	if p := c.process.Load(); p != nil {
		return p.Stderr()
	}
	return ""
}

func (c *Client) logLevel() mcp.LogLevel { return c.level.Load().(mcp.LogLevel) }

// failed names the server and method of an error; nil stays nil.
func (c *Client) failed(method string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, call.ErrClosed) {
		err = fmt.Errorf("%s: %w", method, ErrClosed)
	}
	return &ServerError{Server: c.server.Name, Method: method, Err: c.server.RedactError(public(err))}
}

// principal says for whom the client acts now.
func (c *Client) principal() string {
	if c.opts.Principal == nil {
		return ""
	}
	return c.opts.Principal(c.server.Name)
}

// era returns that of the server as it was last connected to.
func (c *Client) era() mcp.Era {
	if info := c.info.Load(); info != nil {
		return info.Era
	}
	return mcp.EraUnknown
}

// instanceName is what the connection of an instance is called.
func (c *Client) instanceName() string {
	if c.opts.main == nil {
		return c.server.Name
	}
	return fmt.Sprintf("%s#%d", c.server.Name, c.opts.number)
}
