package mcpclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/internal/memo"
	"github.com/troupe-dev/troupe/internal/shellwords"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
	"github.com/troupe-dev/troupe/mcpclient/internal/capability"
	"github.com/troupe-dev/troupe/mcpclient/internal/consent"
	"github.com/troupe-dev/troupe/mcpclient/internal/login"
	"github.com/troupe-dev/troupe/mcpclient/internal/loglimit"
	"github.com/troupe-dev/troupe/mcpclient/internal/negotiate"
	"github.com/troupe-dev/troupe/mcpclient/internal/pipe"
	"github.com/troupe-dev/troupe/mcpclient/internal/pool"
	"github.com/troupe-dev/troupe/mcpclient/internal/weblink"
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
	err = c.conn.StartConnect(ctx)
	if err = c.dialing.connectAuthorized(ctx, err); err != nil {
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
	o := opts.withDefaults()
	o.Serial = o.Serial || server.Serial
	c := &Client{server: definitions.Of(server), opts: filledIn.Of(o), consent: consent.None()}
	c.eras, c.pool = cmp.Or(o.eras, new(negotiate.Eras)), cmp.Or(o.pool, new(asks.HostLimit))
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
	c.log = redactedLog(c.log, c.server).With("server", server.Name)
	if c.opts.main != nil {
		c.log = c.log.With("instance", c.opts.number)
	}
	c.level.Store(c.opts.LogLevel)
	if c.opts.OnLog != nil {
		c.logs = loglimit.New()
	}
	c.cache.Init((*listSource)(c), c.opts.OnToolsChanged, c.opts.OnResourcesChanged, c.opts.OnPromptsChanged)
	var err error
	if c.web, err = c.dialing.newWeb(); err != nil {
		return nil, errors.Join(err, c.dialing.endSystem(context.Background()))
	}
	c.conn = conn.New(c.sys, conn.Options{
		Name: c.instanceName(), Dial: c.dialing.dial, Negotiate: c.dialing.negotiate, Received: c.incoming.received, Inbound: &asked,
		OnStatus: c.status, Await: login.Await, Lazy: c.opts.Lazy, ConnectTimeout: server.ConnectTimeout,
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
	switch s := c.server; {
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
		return nil, conn.Refused(err)
	}
	if c.server.URL != "" {
		link, err := c.web.Dial(ctx, sink)
		return link, c.server.RedactError(err)
	}
	proc, err := c.opts.start(c.server)
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

// neverRead reports whether the newest process has ended without reading anything that it
// was sent. It is false if that cannot be known.
func (c dialing) neverRead() bool {
	l := c.process.Load()
	return l != nil && l.NeverRead()
}

// mayStart asks for consent, once for each definition (STDIO-25). A URL needs it as
// a command does: headers of the file carry secrets of the environment there.
func (c dialing) mayStart(ctx context.Context) error {
	s := c.server
	if s.File == "" {
		return nil
	}
	return c.consent.Ask(ctx, s.hash(), func(again bool) error {
		refused := &NotApprovedError{Server: s.Name, File: s.File, Runs: s.RunsHere(), Contacts: s.URL != "", Reach: s.Reach(false)}
		if c.opts.Consent != nil {
			if refused.Err = c.opts.Consent(ctx, *s); refused.Err == nil {
				return nil
			}
		}
		if !again && ctx.Err() == nil { // who leaves has refused nothing
			c.log.Warn("a server is not started: its definition is not approved", "file", s.File, "consent", refused.Err, "approve", "troupe mcp approve "+shellwords.Join([]string{s.Name}))
		}
		return refused
	})
}

// negotiate begins a session.
func (c dialing) negotiate(ctx context.Context, s *conn.Session) error {
	versions, _ := negotiate.Versions(c.server.Protocol) // checked by newClient
	n := &negotiate.Negotiator{
		Key: c.server.eraKey(), Versions: versions, Probe: c.opts.ProbeTimeout, Client: &c.opts.Info,
		Eras: c.eras, Log: c.log, Level: c.logLevel, Agreed: c.agreed, Declared: c.questions.declared, Unread: c.neverRead,
		Mismatch: func(ours, theirs []mcp.Version) error { return &VersionError{Ours: ours, Theirs: theirs} },
	}
	if c.web != nil {
		n.Web, n.Fallback = c.web, c.server.Transport == "" || c.server.Transport == TransportAuto
	}
	return c.server.RedactError(n.Negotiate(ctx, s)) // a web server says what it was asked for
}

// agreed keeps the outcome of a negotiation.
func (c dialing) agreed(o *negotiate.Outcome) {
	info := infos.OfEqual(Info{
		Name: c.server.Name, Server: o.Server, Era: o.Era, Version: o.Version, Capabilities: o.Capabilities, Instructions: o.Instructions, Discovered: o.Discovered,
	}, func(a, b *Info) bool { return reflect.DeepEqual(a, b) })
	c.info.Store(info)
	c.cache.Renew()
	if w := c.watches.Load(); w != nil {
		w.Connected(info.Era)
	}
}

// newWeb returns the server's side over HTTP, nil for a server without a URL.
func (c dialing) newWeb() (*weblink.Server, error) {
	s := c.server
	if s.URL == "" {
		return nil, nil
	}
	var auth Auth
	if own := http.Header(nil); c.opts.Authorizer != nil && !s.OAuth.Off && s.HeadersFunc == nil {
		own = make(http.Header)
		for name, value := range s.Headers {
			own.Set(name, value)
		}
		if own.Get("Authorization") == "" {
			var err error
			if auth, err = c.opts.Authorizer.For(s); err != nil {
				return nil, &ServerError{Server: s.Name, Err: err}
			}
		}
	}
	return weblink.New(weblink.Options{Auth: auth, Log: c.log, Eras: c.eras, Changed: func() { c.status(c.conn.Status()) }, Definition: weblink.Definition{
		Server: s.Name, URL: s.URL, Headers: s.Headers, HeadersFunc: s.HeadersFunc, OldOnly: s.Transport == TransportSSE,
		Client: c.opts.httpClient, System: c.sys, MaxMessage: s.maxMessage(),
		TooLong: func(server string, max int, certain bool) error { return &MessageTooLongError{server, max, certain} },
		Denied:  denied, WantsAuthorization: func(err error) bool { return errors.Is(err, ErrAuthRequired) },
	}}), nil
}

// pingTimeout is how long a ping of [Options].PingEvery waits for its answer, at most.
const pingTimeout = 10 * time.Second

// signOfLife is the connection's own ping.
func (c dialing) signOfLife(ctx context.Context, _ *conn.Session) error {
	_, err := c.conn.Do(ctx, &call.Request{Method: mcp.MethodPing})
	return err
}

// pooled returns the pool of the client's server, of which the client is the first.
func (c *Client) pooled() *pool.Pool { return memo.Lazily(&c.instances, c.dialing.newPool) }

func (c dialing) newPool() *pool.Pool {
	return pool.New(pool.Options{
		System: c.sys, Server: c.server.Name, Log: c.log, First: (*member)(c.Client), Most: c.server.mostInstances(), Held: c.server.heldInstances(), Closed: ErrClosed,
		Make: func(n int) (pool.Member, error) {
			i, err := c.dialing.another(n)
			if err != nil {
				return nil, err
			}
			return (*member)(i), nil
		},
		Connect: func(m pool.Member) error {
			i := (*Client)(m.(*member))
			if err := c.opts.spawn(i.conn); err != nil {
				return err
			}
			return i.conn.Connect(context.Background()) // bounded by [Server].ConnectTimeout
		},
		Discard: func(m pool.Member) {
			i := (*Client)(m.(*member))
			_ = i.Close()
			ctx, cancel := context.WithTimeout(context.Background(), closeTime)
			defer cancel()
			_ = i.conn.Close(ctx) // it may have been closed before it was started
		},
	})
}

// another makes the client of a further instance. Its lists are not used, and it asks for
// no consent of its own.
func (c dialing) another(n int) (*Client, error) {
	o := *c.opts
	o.System, o.main, o.number, o.Lazy, o.eras, o.pool = c.sys, c.Client, n, true, c.eras, c.pool
	o.OnState, o.OnToolsChanged, o.OnResourcesChanged, o.OnPromptsChanged = nil, nil, nil, nil
	o.NoListen = true
	i, err := newClient(*c.server, &o)
	if err != nil {
		return nil, err
	}
	i.consent, i.questions.asks.Limits = c.consent, c.questions.asks.Limits
	i.questions.roots.Store(c.questions.roots.Load())
	i.level.Store(c.logLevel())
	return i, nil
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
		others := c.pooled().Close(ctx)
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
