package weblink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/internal/intern"
	"github.com/troupe-dev/troupe/internal/pause"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/httpguard"
	"github.com/troupe-dev/troupe/mcpclient/internal/negotiate"
	"github.com/troupe-dev/troupe/mcpclient/internal/oldsse"
	"github.com/troupe-dev/troupe/mcpclient/internal/streamable"
)

// pool is the one pool of connections of this process, for all servers over HTTP.
var pool = struct {
	client func() *http.Client
	users  atomic.Int64 // links
}{client: sync.OnceValue(func() *http.Client { return httpguard.NewClient(nil) })}

// pooled is a link over HTTP. The last one to be closed takes the idle connections
// with it.
type pooled struct {
	mcp.Link
	client *http.Client
	closed atomic.Bool
}

func newPooled(link mcp.Link, client *http.Client) *pooled {
	pool.users.Add(1)
	return &pooled{Link: link, client: client}
}

// Close implements [mcp.Link].
func (p *pooled) Close() error {
	err := p.Link.Close()
	if !p.closed.Swap(true) && pool.users.Add(-1) == 0 {
		p.client.CloseIdleConnections()
	}
	return err
}

// Options are those of a server.
type Options struct {
	Definition
	Auth httpguard.Auth // authorizes requests, unless HeadersFunc does; nil leaves them as they are
	Log  *slog.Logger
	Eras *negotiate.Eras
	// Changed is called when the warnings are others.
	Changed func()
}

// Definition are the options that clients with the same functions and values share.
type Definition struct {
	Server  string // its configured name
	URL     string
	Headers map[string]string // as they are when a link is made
	// HeadersFunc returns further headers; nil is none. See [headerAuth].
	HeadersFunc func(context.Context) (map[string]string, error)
	OldOnly     bool         // only HTTP+SSE is used
	Client      *http.Client // nil is that of all servers
	System      *actors.System
	MaxMessage  int                                              // bytes
	TooLong     func(server string, max int, certain bool) error // makes the error of a message with more
	// Denied makes the error for status 401 or 403, and WantsAuthorization knows it again.
	Denied             func(status int, challenges []string, shown string, err error) error
	WantsAuthorization func(error) bool
}

// shared is a definition with what its links have in common.
type shared struct {
	Definition
	links atomic.Pointer[streamable.Server] // see linked; nil before the first
}

// definitions are those of all servers, which are not changed.
var definitions intern.Set[shared]

// Server is what a client knows of its server over HTTP.
type Server struct {
	*shared
	auth    httpguard.Auth
	log     *slog.Logger
	eras    *negotiate.Eras
	changed func()

	link atomic.Pointer[streamable.Link] // the newest; nil while the old transport is used
	// Nil is none.
	refusal   atomic.Pointer[error]     // of the handshake by POST: the old transport is to be tried (SSE-10)
	notBefore atomic.Pointer[time.Time] // the server wants no attempt until then
	trouble   atomic.Pointer[string]    // with what the server sends on its own account
}

// New returns a server that was not connected to yet.
func New(opts Options) *Server {
	d := definitions.OfEqual(shared{Definition: opts.Definition}, func(a, b *shared) bool { return intern.Same(&a.Definition, &b.Definition) })
	return &Server{shared: d, auth: opts.Auth, log: opts.Log, eras: opts.Eras, changed: opts.Changed}
}

// Streamable returns the newest link, nil while the old transport is used, and for a nil s.
func (s *Server) Streamable() *streamable.Link {
	if s == nil {
		return nil
	}
	return s.link.Load()
}

// WantsAuthorization reports whether the server has to let us in first.
func (s *Server) WantsAuthorization(err error) bool { return s.shared.WantsAuthorization(err) }

// Warnings are those of the status.
func (s *Server) Warnings() []string {
	if s == nil {
		return nil
	}
	if text := s.trouble.Load(); text != nil {
		return []string{*text}
	}
	return nil
}

// troubled is called when the messages that the server sends on its own account do not
// arrive, with the reason, or with "" when they do.
func (s *Server) troubled(text string) {
	var now *string
	if text != "" {
		now = &text
	}
	before := s.trouble.Swap(now)
	if now == before || now != nil && before != nil && *now == *before {
		return
	}
	if text != "" {
		s.log.Warn(text)
	}
	s.changed()
}

// Refuse notes that the server has refused the handshake by POST, with nil that it has not.
func (s *Server) Refuse(err error) {
	if err == nil {
		s.refusal.Store(nil)
		return
	}
	s.refusal.Store(&err)
}

// LeaveAlone keeps the next attempt from being made before d has passed.
func (s *Server) LeaveAlone(d time.Duration) {
	until := time.Now().Add(min(d, maxPatience))
	s.notBefore.Store(&until)
}

// pause waits until the server may be asked again, but not longer than ctx.
func (s *Server) pause(ctx context.Context) error {
	until := s.notBefore.Load()
	if until == nil || !time.Now().Before(*until) {
		return nil
	}
	return pause.For(ctx, time.Until(*until))
}

// maxPatience bounds how long a server can keep us from trying again.
const maxPatience = 30 * time.Second

// Dial makes a link to the server. For Streamable HTTP nothing is sent yet.
func (s *Server) Dial(ctx context.Context, sink mcp.Sink) (mcp.Link, error) {
	calls, ok := sink.(mcp.CallSink)
	if !ok {
		return nil, conn.Permanent(errors.New("HTTP needs a sink that takes reports on single calls"))
	}
	o, err := s.linked()
	if err != nil {
		return nil, err
	}
	if err := s.pause(ctx); err != nil {
		return nil, err
	}
	auth, err := s.newAuth(ctx)
	if err != nil {
		return nil, err
	}
	s.trouble.Store(nil)
	if s.OldOnly || s.refusal.Load() != nil || s.eras.Get(s.sseKey()) == mcp.EraLegacy {
		s.link.Store(nil)
		link, err := oldsse.Dial(ctx, oldsse.Options{ // which waits for the endpoint (SSE-02)
			URL: o.URL, Header: o.Header, Client: o.Client, Go: o.Go, Name: o.Name, Log: s.log, Sink: calls, Denied: o.Denied,
			MaxMessage: o.MaxMessage, TooLong: o.TooLong, Auth: auth,
		})
		if err = s.dialed(err); err != nil {
			return nil, err
		}
		return newPooled(link, o.Client), nil
	}
	link := o.Link(streamable.Options{Log: s.log, Sink: calls, Auth: auth, Trouble: s.troubled})
	s.link.Store(link)
	return newPooled(link, o.Client), nil
}

// urls are those of all links, which are not changed.
var urls intern.Set[url.URL]

// linked returns what links have in common: all of the server, unless it has headers, which the program may
// change in between. An error is permanent.
func (d *shared) linked() (*streamable.Server, error) {
	if o := d.links.Load(); o != nil {
		return o, nil
	}
	u, err := httpguard.ParseURL(d.URL)
	if err != nil {
		return nil, conn.Permanent(err)
	}
	header, err := headerOf(d.Headers)
	if err != nil {
		return nil, err
	}
	made := streamable.NewServer(streamable.Options{
		URL: urls.Of(*u), Header: header, Client: cmp.Or(d.Client, pool.client()), Go: d.System.Go, WhenReadable: d.whenReadable, Name: d.Server,
		Denied: d.Denied, MaxMessage: d.MaxMessage, TooLong: func(certain bool) error { return d.TooLong(d.Server, d.MaxMessage, certain) },
	})
	if d.Headers == nil {
		d.links.Store(made)
	}
	return made, nil
}

// whenReadable is [actors.System.WhenReadable] with a limit.
func (o *Definition) whenReadable(owner string, conn syscall.Conn, within time.Duration, ready func()) (streamable.Wait, bool) {
	w := o.System.NewReadWait(owner, conn, ready)
	return w, w.BeginWithin(within)
}

// dialed keeps what an attempt with the old transport has shown, and returns its error.
func (s *Server) dialed(err error) error {
	refusal := s.refusal.Swap(nil)
	switch {
	case err == nil:
		s.eras.Set(s.sseKey(), mcp.EraLegacy) // from now on (SSE-10)
		return nil
	case s.WantsAuthorization(err):
		return conn.Permanent(err)
	}
	s.eras.Set(s.sseKey(), mcp.EraUnknown)
	if refusal != nil {
		return fmt.Errorf("the server speaks neither Streamable HTTP (%w) nor HTTP+SSE (%w)", *refusal, err)
	}
	return err
}

// headerOf returns configured headers, checked.
func headerOf(of map[string]string) (http.Header, error) {
	if len(of) == 0 {
		return nil, nil
	}
	out := make(http.Header, len(of))
	for name, value := range of {
		out.Set(name, value)
	}
	if err := httpguard.CheckHeader(out); err != nil {
		return nil, conn.Permanent(err)
	}
	return out, nil
}

// sseKey is the key of the verdict that the server has the old transport only.
func (o *Definition) sseKey() string { return "sse at " + Endpoint(o.URL) }

// Endpoint returns a server's URL without a query: all clients of the server share it.
func Endpoint(of string) string {
	u, err := httpguard.ParseURL(of)
	if err != nil {
		return of
	}
	path := url.URL{Path: u.Path, RawPath: u.RawPath, Fragment: u.Fragment}
	return httpguard.Origin(u) + path.String()
}
