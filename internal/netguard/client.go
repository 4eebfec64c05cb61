package netguard

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

// ErrTooLarge is the error of reading an answer beyond its bound.
var ErrTooLarge = errors.New("the answer is too large")

// connectTime bounds each of the two steps to a connection.
const connectTime = 5 * time.Second

// maxHeader bounds the header of an answer, in bytes.
const maxHeader = 16 << 10

// ClientOptions changes the clients of a guard; nil is the same as the zero value.
type ClientOptions struct {
	// Timeout bounds a request with the reading of its answer. Zero means 10 s.
	Timeout time.Duration
	// MaxBody bounds the body of an answer, in bytes: reading more is ErrTooLarge. Zero
	// means 64 KiB.
	MaxBody int64
	// Proxy chooses the proxy of a request, such as [http.ProxyFromEnvironment]; nil uses none.
	// It is contacted wherever it is. What it is asked for is judged by its name, and by the
	// addresses that the name has here, if it has any; this machine is not asked for.
	Proxy func(*http.Request) (*url.URL, error)
	// TLS is the configuration to start from; its least version is raised to 1.2. Nil
	// trusts what the system trusts.
	TLS *tls.Config
}

// Client returns a client that contacts only what the guard lets through. An answer with a
// redirect is returned as it is, and not followed.
func (g *Guard) Client(opts *ClientOptions) *http.Client {
	var o ClientOptions
	if opts != nil {
		o = *opts
	}
	tlsConfig := new(tls.Config)
	if o.TLS != nil {
		tlsConfig = o.TLS.Clone()
	}
	tlsConfig.MinVersion = max(tlsConfig.MinVersion, tls.VersionTLS12)
	next := func() *http.Transport {
		return &http.Transport{
			TLSClientConfig:        tlsConfig,
			TLSHandshakeTimeout:    connectTime,
			DisableKeepAlives:      true, // each request is judged anew, and no idle connection has to be ended
			DisableCompression:     true, // so that the bound is on the bytes that arrive
			MaxResponseHeaderBytes: maxHeader,
		}
	}
	t := &transport{guard: g, maxBody: cmp.Or(o.MaxBody, 64<<10), proxy: o.Proxy, direct: next()}
	t.direct.DialContext = g.dial
	if o.Proxy != nil {
		t.proxied = next()
		t.proxied.DialContext = (&net.Dialer{Timeout: connectTime}).DialContext
		t.proxied.Proxy = func(req *http.Request) (*url.URL, error) {
			return req.Context().Value(proxyKey{}).(*url.URL), nil
		}
	}
	return &http.Client{
		Timeout:       cmp.Or(o.Timeout, 10*time.Second),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     t,
	}
}

// proxyKey is the key of the proxy that a request was judged with.
type proxyKey struct{}

// transport judges each request by its address, and bounds its answer.
type transport struct {
	guard   *Guard
	maxBody int64
	proxy   func(*http.Request) (*url.URL, error) // nil for none
	direct  *http.Transport
	proxied *http.Transport // connects to proxies only
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.guard.check(req.URL); err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	next, req, err := t.route(req)
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	resp, err := next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = &body{ReadCloser: resp.Body, left: t.maxBody}
	return resp, nil
}

// route chooses the way to the host of a request.
func (t *transport) route(req *http.Request) (*http.Transport, *http.Request, error) {
	if t.proxy == nil || IsLoopback(req.URL.Hostname()) {
		return t.direct, req, nil
	}
	proxy, err := t.proxy(req)
	if err != nil || proxy == nil {
		return t.direct, req, err
	}
	if err := t.guard.judgeName(req.Context(), req.URL.Hostname(), port(req.URL)); err != nil {
		return nil, req, err
	}
	return t.proxied, req.WithContext(context.WithValue(req.Context(), proxyKey{}, proxy)), nil
}

// lookupTime bounds the look-up of a name that a proxy is asked for: it may have none here.
const lookupTime = 2 * time.Second

// judgeName judges a host that a proxy looks up, by what is known of it here.
func (g *Guard) judgeName(ctx context.Context, host, port string) error {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	ips, err := cmp.Or(g.resolver, net.DefaultResolver).LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil
	}
	for _, ip := range ips {
		if err := g.judge(host, port, ip); err != nil {
			return err
		}
	}
	return nil
}

// judge judges an address at which a host is.
func (g *Guard) judge(host, port string, ip netip.Addr) error {
	local := g.loopback && IsLoopback(host)
	switch {
	case g.allowsHost(host, port), g.allowsAddr(ip):
		return nil
	case local && !ip.Unmap().IsLoopback():
		return refuse("the host %s is at %s, which is not this machine", host, ip)
	case !local && !Public(ip):
		return refuse("the host %s is at %s, which is not public", host, ip)
	}
	return nil
}

// body ends with ErrTooLarge where the bound is exceeded.
type body struct {
	io.ReadCloser
	left int64 // bytes that may come yet
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, ErrTooLarge
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1] // the byte beyond the bound tells that there is more
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n - 1, ErrTooLarge
	}
	return n, err
}

// dial connects to the host of a request, and judges the address at which it is.
func (g *Guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, refuse("%v", err)
	}
	d := net.Dialer{Timeout: connectTime, Resolver: g.resolver, Control: func(_, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return refuse("%v", err)
		}
		return g.judge(host, port, ap.Addr())
	}}
	return d.DialContext(ctx, network, address)
}
