package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/httpguard"
	"github.com/troupe-dev/troupe/mcpclient/internal/streamable"
)

// Values of [Server].Transport for a server with a URL.
const (
	TransportAuto = "auto" // Streamable HTTP, or the old one if the server only has that (SSE-10)
	TransportHTTP = "http" // Streamable HTTP
	TransportSSE  = "sse"  // HTTP+SSE of 2024-11-05
)

// ErrAuthRequired is what an [AuthRequiredError] is.
var ErrAuthRequired = errors.New("mcpclient: the server wants authorization")

// AuthRequiredError says that a server does not let us in: HTTP status 401 or 403.
type AuthRequiredError struct {
	Status    int
	Challenge string // its WWW-Authenticate header, fit to be shown
	// Challenges are the values of that header as they came, at most 16 of together 8 KiB.
	// They are the server's text: not to be shown, or to be believed.
	Challenges []string
	Err        error // what it says beside that
}

func (e *AuthRequiredError) Error() string {
	text := "the server wants authorization"
	if e.Status == http.StatusForbidden {
		text = "the server refuses access"
	}
	if e.Challenge != "" {
		text += " (" + e.Challenge + ")"
	}
	return fmt.Sprintf("%s: %v", text, e.Err)
}

// Is reports that the error is [ErrAuthRequired].
func (e *AuthRequiredError) Is(target error) bool { return target == ErrAuthRequired }

// Unwrap returns what the server says.
func (e *AuthRequiredError) Unwrap() error { return e.Err }

func denied(status int, challenges []string, shown string, err error) error {
	return &AuthRequiredError{Status: status, Challenge: shown, Challenges: challenges, Err: err}
}

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
	once   sync.Once
}

func newPooled(link mcp.Link, client *http.Client) *pooled {
	pool.users.Add(1)
	return &pooled{Link: link, client: client}
}

// Close implements [mcp.Link].
func (p *pooled) Close() error {
	err := p.Link.Close()
	p.once.Do(func() {
		if pool.users.Add(-1) == 0 {
			p.client.CloseIdleConnections()
		}
	})
	return err
}

// web is what a client knows of its server over HTTP.
type web struct {
	link atomic.Pointer[streamable.Link] // the newest; nil while the old transport is used

	mu        sync.Mutex // guards what follows
	refusal   error      // of the handshake by POST: the old transport is to be tried (SSE-10)
	notBefore time.Time  // the server wants to be left alone until then
	trouble   string     // with what the server sends on its own account; "" is none
}

// setTrouble reports whether that is news.
func (w *web) setTrouble(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	news := w.trouble != text
	w.trouble = text
	return news
}

// warnings are those of the status.
func (w *web) warnings() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trouble == "" {
		return nil
	}
	return []string{w.trouble}
}

// troubled is told that what the server sends on its own account does not arrive, and
// why, or with "" that it does.
func (c *Client) troubled(text string) {
	if !c.web.setTrouble(text) {
		return
	}
	if text != "" {
		c.log.Warn(text)
	}
	c.status(c.conn.Status())
}

func (w *web) refuse(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusal = err
}

func (w *web) refused() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refusal
}

// leaveAlone keeps the next attempt from being made before d has passed.
func (w *web) leaveAlone(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notBefore = time.Now().Add(min(d, maxPatience))
}

// pause waits until the server may be asked again, but not longer than ctx.
func (w *web) pause(ctx context.Context) error {
	w.mu.Lock()
	d := time.Until(w.notBefore)
	w.mu.Unlock()
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// maxPatience bounds how long a server can keep us from trying again.
const maxPatience = 30 * time.Second

// dialHTTP makes the link to a server with a URL. For Streamable HTTP nothing is sent yet.
func (c *Client) dialHTTP(ctx context.Context, sink mcp.Sink) (mcp.Link, error) {
	u, err := httpguard.ParseURL(c.server.URL)
	if err != nil {
		return nil, conn.Permanent(err)
	}
	calls, ok := sink.(mcp.CallSink)
	if !ok {
		return nil, conn.Permanent(errors.New("HTTP needs a sink that is told of single calls"))
	}
	if err := c.web.pause(ctx); err != nil {
		return nil, err
	}
	header, err := c.server.header()
	if err != nil {
		return nil, err
	}
	auth, err := c.server.newAuth(ctx, c.log)
	if err != nil {
		return nil, err
	}
	c.web.setTrouble("")
	client := c.opts.httpClient
	if client == nil {
		client = pool.client()
	}
	if c.oldTransport() {
		return c.dialSSE(ctx, u, header, auth, client, calls)
	}
	link := streamable.New(streamable.Options{
		URL: u, Header: header, Client: client, Go: c.sys.Go, Name: c.server.Name, Log: c.log, Sink: calls, Denied: denied,
		MaxMessage: c.server.maxMessage(), TooLong: c.server.tooLong, Auth: auth, Trouble: c.troubled,
	})
	c.web.link.Store(link)
	return newPooled(link, client), nil
}

// dialed keeps what an attempt with the old transport has shown, and returns its error.
func (c *Client) dialed(err error) error {
	refusal := c.web.refused()
	c.web.refuse(nil)
	switch {
	case err == nil:
		c.opts.eras.set(c.server.sseKey(), mcp.EraLegacy) // from now on (SSE-10)
		return nil
	case errors.Is(err, ErrAuthRequired):
		return conn.Permanent(err)
	}
	c.opts.eras.set(c.server.sseKey(), mcp.EraUnknown)
	if refusal != nil {
		return fmt.Errorf("the server speaks neither Streamable HTTP (%w) nor HTTP+SSE (%w)", refusal, err)
	}
	return err
}

// header returns the headers that the configuration wants.
func (s *Server) header() (http.Header, error) {
	out := make(http.Header, len(s.Headers))
	for name, value := range s.Headers {
		out.Set(name, value)
	}
	if err := httpguard.CheckHeader(out); err != nil {
		return nil, conn.Permanent(err)
	}
	return out, nil
}

// checkURL says what is wrong with what only servers over HTTP have.
func (s *Server) checkURL() error {
	switch s.Transport {
	case "", TransportAuto, TransportHTTP:
	case TransportSSE:
		if v := mcp.Version(s.Protocol); s.Protocol == ProtocolModern || v.Era() == mcp.EraModern {
			return fmt.Errorf("the transport sse has no revision %s", s.Protocol) // SSE-12
		}
	default:
		return fmt.Errorf("unknown transport %.40q: want auto, http or sse", s.Transport)
	}
	return nil
}

// eraKey is what a verdict on the server's era is kept under: its endpoint over HTTP,
// which all clients of this server share, else its definition (ERA-01).
func (s *Server) eraKey() string {
	if s.URL == "" {
		return s.hash()
	}
	return "at " + s.endpoint()
}

// sseKey is eraKey for the verdict that the server has the old transport only.
func (s *Server) sseKey() string { return "sse at " + s.endpoint() }

func (s *Server) endpoint() string {
	u, err := httpguard.ParseURL(s.URL)
	if err != nil {
		return s.URL
	}
	path := url.URL{Path: u.Path, RawPath: u.RawPath, Fragment: u.Fragment}
	return httpguard.Origin(u) + path.String()
}
