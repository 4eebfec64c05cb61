package httpguard

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Options changes how a client works; nil is the same as the zero value.
type Options struct {
	// DialTimeout and TLSTimeout bound the making of a connection. Zero means 10 s.
	DialTimeout, TLSTimeout time.Duration
	// MaxHeader bounds the header of a response, in bytes. Zero means 64 KiB.
	MaxHeader int64
	// MaxConns bounds the connections to one server, those of GET streams apart from
	// the others; more requests wait for one. Zero means 1024: a server that asks back
	// while it works on many calls is answered over connections beyond theirs.
	MaxConns int
	// TLS is the configuration to start from; its least version is raised to 1.2.
	// Nil trusts what the system trusts, or what SSL_CERT_FILE names.
	TLS *tls.Config
	// Proxy chooses the proxy of a request, which is never asked for this machine.
	// Nil means HTTP_PROXY, HTTPS_PROXY and NO_PROXY.
	Proxy func(*http.Request) (*url.URL, error)
	// Dial makes connections. Nil connects to hosts, and to sockets.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

func (o *Options) withDefaults() Options {
	d := *cmp.Or(o, new(Options))
	d.DialTimeout = cmp.Or(d.DialTimeout, 10*time.Second)
	d.TLSTimeout = cmp.Or(d.TLSTimeout, 10*time.Second)
	d.MaxHeader = cmp.Or(d.MaxHeader, 64<<10)
	d.MaxConns = cmp.Or(d.MaxConns, 1024)
	if d.Proxy == nil {
		d.Proxy = http.ProxyFromEnvironment
	}
	d.TLS = cmp.Or(d.TLS, new(tls.Config))
	d.TLS = d.TLS.Clone()
	d.TLS.MinVersion = max(d.TLS.MinVersion, tls.VersionTLS12)
	return d
}

// NewClient returns a client with one pool of connections, to be shared by all
// servers of a host. It has no time limit of its own: an answer may be a stream
// that lasts for days. CloseIdleConnections ends what is left when the host closes.
func NewClient(opts *Options) *http.Client {
	o := opts.withDefaults()
	if o.Dial == nil {
		o.Dial = (&dialer{net.Dialer{
			Timeout: o.DialTimeout,
			// A peer that is gone without a word is noticed within two minutes.
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 15 * time.Second, Count: 6},
		}}).dial
	}
	calls := &http.Transport{
		Proxy:                  o.proxy,
		DialContext:            o.Dial,
		TLSClientConfig:        o.TLS.Clone(), // net/http adds to it
		TLSHandshakeTimeout:    o.TLSTimeout,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		DisableCompression:     true, // Body does it, within bounds
		MaxConnsPerHost:        o.MaxConns,
		MaxIdleConns:           256,
		MaxIdleConnsPerHost:    64, // as many calls may be under way all the time
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: o.MaxHeader,
		ExpectContinueTimeout:  time.Second,
	}
	streams := calls.Clone()
	streams.ReadBufferSize, streams.WriteBufferSize = streamBuffer, streamBuffer
	return &http.Client{CheckRedirect: checkRedirect, Transport: &guard{calls, streams, newLastings(&o, streams)}}
}

// streamBuffer is the size of the buffers of a connection that carries a GET stream. Such
// a connection is idle for most of its life, and each client has one.
const streamBuffer = 1 << 10

// proxy keeps what is meant for this machine on it.
func (o *Options) proxy(req *http.Request) (*url.URL, error) {
	if host := req.URL.Hostname(); isLocal(host) || isSocketHost(host) {
		return nil, nil
	}
	return o.Proxy(req)
}

// isLocal reports whether a host is this machine by its name alone.
func isLocal(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	ip = ip.Unmap()
	return err == nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// guard is the transport: it adds the schemes that net/http does not know.
type guard struct {
	calls, streams *http.Transport
	lasting        *lastings
}

// carrier returns the transport for a request.
func (g *guard) carrier(req *http.Request) http.RoundTripper {
	if isLasting(req) {
		return g.lasting
	}
	if req.Method == http.MethodGet && req.Header.Get("Accept") == "text/event-stream" {
		return g.streams
	}
	return g.calls
}

// RoundTrip implements [http.RoundTripper].
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	inner, err := prepare(req)
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	resp, err := g.carrier(inner).RoundTrip(inner)
	if err == nil {
		resp.Request = req
	}
	return resp, err
}

// prepare returns the request that goes to net/http. One that asks for an encoding
// itself is not copied: a call should not pay for what few need.
func prepare(req *http.Request) (*http.Request, error) {
	if isSocketHost(req.URL.Hostname()) {
		return nil, fmt.Errorf("%w: a reserved host name", ErrURL)
	}
	if req.URL.Scheme != schemeUnix && req.Header.Get("Accept-Encoding") != "" {
		return req, nil
	}
	inner := req.Clone(req.Context())
	if inner.Header.Get("Accept-Encoding") == "" {
		inner.Header.Set("Accept-Encoding", "gzip")
	}
	if req.URL.Scheme == schemeUnix {
		u, err := socketURL(req.URL)
		if err != nil {
			return nil, err
		}
		inner.URL, inner.Host = u, "localhost"
	}
	return inner, nil
}

// CloseIdleConnections is called by the method of [http.Client] of the same name.
func (g *guard) CloseIdleConnections() {
	g.calls.CloseIdleConnections()
	g.streams.CloseIdleConnections()
}

type dialer struct{ net.Dialer }

// dial connects to a host, or to a socket by the name that stands for it.
func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if host, _, err := net.SplitHostPort(addr); err == nil && isSocketHost(host) {
		path, err := socketPath(host)
		if err != nil {
			return nil, err
		}
		return d.DialContext(ctx, "unix", path)
	}
	return d.DialContext(ctx, network, addr)
}
