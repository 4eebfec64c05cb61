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
	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/callbacks"
	"github.com/troupe-dev/troupe/mcpclient/internal/capability"
	"github.com/troupe-dev/troupe/mcpclient/internal/consent"
	"github.com/troupe-dev/troupe/mcpclient/internal/listening"
	"github.com/troupe-dev/troupe/mcpclient/internal/lists"
	"github.com/troupe-dev/troupe/mcpclient/internal/negotiate"
	"github.com/troupe-dev/troupe/mcpclient/internal/pipe"
	"github.com/troupe-dev/troupe/mcpclient/internal/pool"
	"github.com/troupe-dev/troupe/mcpclient/internal/weblink"
	"golang.org/x/time/rate"
)

// Info is what is known about a server since the last time it was connected.
type Info struct {
	Name         string              // as configured
	Server       *mcp.Implementation // as it calls itself: for display and logs only (META-07); may be nil
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
	server    Server
	opts      Options
	log       *slog.Logger
	sys       *actors.System
	ownSys    bool
	conn      *conn.Conn
	events    callbacks.Queue
	cache     lists.Cache
	watches   atomic.Pointer[listening.Watching] // nil before it is needed, see watching
	logs      logLimit

	info    atomic.Pointer[Info]       // nil before the first connection
	level   atomic.Value               // mcp.LogLevel
	process atomic.Pointer[pipe.Stdio] // the newest; nil if there was none
	web     *weblink.Server            // nil without a URL

	consent   *consent.Given // of all instances
	instances *pool.Pool     // of the first only
	closing   sync.Once
	closed    error
}

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

// Dial connects to a server. An attempt that fails is the error, and nothing is
// left of it. The client must be closed.
func Dial(ctx context.Context, server Server, opts *Options) (*Client, error) {
	c, err := newClient(server, opts)
	if err != nil {
		return nil, err
	}
	if c.opts.Lazy {
		if err := c.conn.Start(); err != nil {
			return nil, errors.Join(err, c.dialing.endSystem(ctx))
		}
		return c, nil
	}
	if err := c.conn.StartConnect(ctx); err != nil {
		now, cancel := context.WithCancel(context.WithoutCancel(ctx))
		cancel() // there is nothing to wait for
		_ = c.Shutdown(now)
		return nil, &ServerError{Server: server.Name, Err: err}
	}
	return c, nil
}

// newClient makes a client whose connection is not started.
func newClient(server Server, opts *Options) (*Client, error) {
	if err := server.check(); err != nil {
		return nil, err
	}
	if opts != nil {
		if err := capability.CheckExtensions(opts.Extensions); err != nil {
			return nil, err
		}
	}
	c := &Client{server: server, opts: opts.withDefaults(), consent: consent.None()}
	c.requests, c.tools, c.changes, c.dialing, c.incoming = requests{c}, toolCalls{c}, changes{c}, dialing{c}, incoming{c}
	c.sys = c.opts.System
	if c.sys == nil {
		sys, err := actors.NewSystem(&actors.Options{Logger: c.opts.Logger})
		if err != nil {
			return nil, fmt.Errorf("starting the client: %w", err)
		}
		c.sys, c.ownSys = sys, true
	}
	c.log = c.opts.Logger
	if c.log == nil {
		c.log = c.sys.Log()
	}
	c.log = c.log.With("server", server.Name)
	if c.opts.main != nil {
		c.log = c.log.With("instance", c.opts.number)
	}
	c.instances = c.dialing.newPool()
	c.level.Store(c.opts.LogLevel)
	if c.opts.OnLog != nil {
		c.logs.rate = rate.NewLimiter(logRate, logBurst)
	}
	c.events.System, c.events.Owner = c.sys, "events of "+c.instanceName()
	c.cache.Init((*listSource)(c), c.opts.OnToolsChanged, c.opts.OnResourcesChanged, c.opts.OnPromptsChanged)
	versions, _ := server.versions() // checked above
	c.web = c.dialing.newWeb()
	n := &negotiate.Negotiator{
		Key: server.eraKey(), Versions: versions, Probe: c.opts.ProbeTimeout, Client: &c.opts.Info,
		Eras: c.opts.eras, Log: c.log, Level: c.logLevel, Agreed: c.dialing.agreed, Declared: c.questions.declared, Unread: c.dialing.neverRead,
		Mismatch: func(ours, theirs []mcp.Version) error { return &VersionError{Ours: ours, Theirs: theirs} },
	}
	if c.web != nil {
		n.Web, n.Fallback = c.web, server.Transport == "" || server.Transport == TransportAuto
	}
	c.conn = conn.New(c.sys, conn.Options{
		Name: c.instanceName(), Dial: c.dialing.dial, Negotiate: n.Negotiate, Received: c.incoming.received, Inbound: &inbound.Options{Limit: maxAsked},
		OnStatus: c.status, Lazy: c.opts.Lazy, ConnectTimeout: server.ConnectTimeout,
		Calls: call.Options{Limit: c.opts.MaxCalls}, Logger: c.log,
		Ping: c.dialing.signOfLife, PingEvery: c.opts.PingEvery, PingTimeout: min(c.opts.PingEvery, pingTimeout),
	})
	if err := c.dialing.initQuestions(); err != nil {
		return nil, errors.Join(err, c.dialing.endSystem(context.Background()))
	}
	return c, nil
}

// dial makes a transport.
func (c dialing) dial(ctx context.Context, _ uint64, sink mcp.Sink) (mcp.Link, error) {
	switch s := &c.server; {
	case s.Err != nil:
		return nil, conn.Permanent(s.Err)
	case s.Connect != nil:
		return s.Connect.Connect(sink)
	case s.stream != nil:
		conn, err := s.stream(ctx)
		switch {
		case err != nil:
			return nil, err
		case conn == nil:
			return nil, errors.New("the dial function returned no stream")
		}
		return pipe.NewStream(conn, c.dialing.pipeOptions(sink)), nil
	}
	if err := c.dialing.mayStart(ctx); ctx.Err() != nil {
		return nil, context.Cause(ctx) // the attempt is over, whatever the answer: nothing is started for it
	} else if err != nil {
		return nil, conn.Permanent(err)
	}
	if c.server.URL != "" {
		return c.web.Dial(ctx, sink)
	}
	proc, err := c.opts.start(&c.server)
	if err != nil {
		return nil, err
	}
	c.log.Debug("started", "command", c.server.CommandLine())
	link := pipe.NewStdio(proc, c.dialing.pipeOptions(sink))
	c.process.Store(link)
	return link, nil
}

func (c dialing) pipeOptions(sink mcp.Sink) pipe.Options {
	return pipe.Options{
		System: c.sys, Server: c.server.Name, Log: c.log, Sink: sink, MaxMessage: c.server.maxMessage(), TooLong: c.server.tooLong,
		Exit: func(status, stderr string, err error) error {
			return &ExitError{Status: status, Stderr: stderr, Err: err}
		},
	}
}

// starter starts the process of a server.
type starter func(*Server) (pipe.Process, error)

func startProcess(s *Server) (pipe.Process, error) {
	return pipe.Start(&pipe.Command{Path: s.Command, Args: s.Args, Env: s.Env, Dir: s.Dir})
}

// neverRead reports whether the newest process has ended without reading anything that it
// was sent. It is false if that cannot be known.
func (c dialing) neverRead() bool {
	l := c.process.Load()
	return l != nil && l.NeverRead()
}

// mayStart asks for consent, once for each definition (STDIO-25). A URL needs it as
// a command does: headers of the file carry secrets of the environment there.
func (c dialing) mayStart(ctx context.Context) error {
	s := &c.server
	if s.File == "" {
		return nil
	}
	return c.consent.Ask(ctx, s.hash(), func() error {
		refused := &NotApprovedError{Server: s.Name, File: s.File, CommandLine: s.CommandLine(), URL: s.URL}
		if c.opts.Consent != nil {
			if refused.Err = c.opts.Consent(ctx, *s); refused.Err == nil {
				return nil
			}
		}
		return refused
	})
}

// agreed keeps the outcome of a negotiation.
func (c dialing) agreed(o *negotiate.Outcome) {
	info := &Info{
		Name: c.server.Name, Server: o.Server, Era: o.Era, Version: o.Version,
		Capabilities: o.Capabilities, Instructions: o.Instructions, Discovered: o.Discovered,
	}
	c.info.Store(info)
	c.cache.Renew()
	if w := c.watches.Load(); w != nil {
		w.Connected(info.Era)
	}
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

// closeTime is how long Close lets calls end by themselves.
const closeTime = 2 * time.Second

// Close is [Client.Shutdown] with a bound of 2 s for the calls under way.
func (c *Client) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	return c.Shutdown(ctx)
}

// Shutdown lets calls end until ctx does, then ends them, and ends the server's
// process. It takes at most some seconds longer than ctx, and returns the cause of
// ctx if calls had to be ended. Later calls return what the first did.
func (c *Client) Shutdown(ctx context.Context) error {
	c.closing.Do(func() {
		c.cache.Close()
		c.watching().Close() // made now if need be, so that nothing is watched from here on
		others := c.instances.Close(ctx)
		errs := []error{c.conn.Close(ctx)}
		for _, done := range others {
			<-done.Done() // Shutdown has its own bound
			_, err := done.Result()
			errs = append(errs, err)
		}
		c.closed = errors.Join(append(errs, c.dialing.endSystem(ctx))...)
	})
	return c.closed
}

// systemGrace bounds the end of a client's own system.
const systemGrace = 10 * time.Second

func (c dialing) endSystem(ctx context.Context) error {
	if !c.ownSys {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), systemGrace)
	defer cancel()
	return c.sys.Shutdown(ctx)
}

func (c *Client) logLevel() mcp.LogLevel { return c.level.Load().(mcp.LogLevel) }
