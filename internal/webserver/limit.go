package webserver

import (
	"cmp"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Limits bounds the connections of a listener. Connections is required.
type Limits struct {
	// Connections is how many there may be at once. It is lowered to half of the files that the
	// process may have open. Further ones wait in the kernel.
	Connections int
	// Share is how many of them one address may have (see [Source]). Zero means a quarter. Further
	// ones are closed at once. A Unix socket has no addresses, and no shares.
	Share int
	// Proxied takes the share from this machine and from private networks: a proxy there has the
	// connections of all clients.
	Proxied bool
	// Logger is told that an address has used its share up, at most once a minute. Nil discards that.
	Logger *slog.Logger
}

// Limit returns a listener whose connections are bounded.
func Limit(l net.Listener, o Limits) net.Listener {
	if files := openFiles(); files > 0 {
		o.Connections = max(1, min(o.Connections, files/2))
	}
	o.Share = cmp.Or(o.Share, max(1, o.Connections/4))
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &limited{Listener: l, Limits: o, places: make(chan struct{}, o.Connections), closed: make(chan struct{}), of: make(map[string]int)}
}

type limited struct {
	net.Listener
	Limits
	places chan struct{} // has an element for each connection
	closed chan struct{}
	close  sync.Once

	mu     sync.Mutex     // guards what follows: connections end on goroutines of net/http
	of     map[string]int // connections by their source
	warned time.Time
}

// Accept implements [net.Listener].
func (l *limited) Accept() (net.Conn, error) {
	for {
		select {
		case l.places <- struct{}{}:
		case <-l.closed:
			return nil, net.ErrClosed
		}
		c, err := l.Listener.Accept()
		if err != nil {
			<-l.places
			return nil, err
		}
		source := l.sourceOf(c)
		if !l.take(source) {
			_ = c.Close() // the client has no more than that to learn
			<-l.places
			continue
		}
		release := sync.OnceFunc(func() {
			l.give(source)
			<-l.places
		})
		if tcp, ok := c.(*net.TCPConn); ok {
			return &tcpConn{tcp, release}, nil
		}
		return &conn{c, release}, nil
	}
}

// Close implements [net.Listener].
func (l *limited) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// sourceOf is what a connection counts for; empty for nothing.
func (l *limited) sourceOf(c net.Conn) string {
	at, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok || l.Proxied && mayBeProxy(at.AddrPort().Addr()) {
		return ""
	}
	return Source(at.AddrPort().Addr().String())
}

func (l *limited) take(source string) bool {
	if source == "" {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[source] >= l.Share {
		if now := time.Now(); now.Sub(l.warned) >= time.Minute {
			l.warned = now
			l.Logger.Warn("an address has all the connections that one may have: its further ones are closed. If it is your proxy, say --behind-proxy", "address", source, "connections", l.Share)
		}
		return false
	}
	l.of[source]++
	return true
}

func (l *limited) give(source string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[source]--; l.of[source] <= 0 {
		delete(l.of, source)
	}
}

// tcpConn is a connection that gives its place back. What else a TCP connection can do it can do, too.
type tcpConn struct {
	*net.TCPConn
	release func()
}

// Close implements [net.Conn].
func (c *tcpConn) Close() error {
	defer c.release()
	return c.TCPConn.Close()
}

// conn is as tcpConn, for other networks.
type conn struct {
	net.Conn
	release func()
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// mayBeProxy reports whether an address is of this machine or of a private network.
func mayBeProxy(ip netip.Addr) bool {
	ip = ip.Unmap()
	return ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast()
}
