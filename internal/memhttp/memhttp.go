// Package memhttp serves HTTP in memory, for tests that run in a synctest bubble.
package memhttp

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"testing"
)

// Serve runs h on an in-memory network and returns a client of it, so that a test may
// run in a synctest bubble.
func Serve(t testing.TB, h http.Handler) *http.Client {
	t.Helper()
	return client(t, h, nil)
}

// ServeHTTP2 is Serve over HTTP/2, without TLS.
func ServeHTTP2(t testing.TB, h http.Handler) *http.Client {
	t.Helper()
	var only http.Protocols
	only.SetUnencryptedHTTP2(true)
	return client(t, h, &only)
}

func client(t testing.TB, h http.Handler, protocols *http.Protocols) *http.Client {
	t.Helper()
	transport := &http.Transport{DialContext: listen(t, h, protocols), Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// Listen is as Serve, for a client that makes connections by a function.
func Listen(t testing.TB, h http.Handler) (dial func(ctx context.Context, network, addr string) (net.Conn, error)) {
	t.Helper()
	return listen(t, h, nil)
}

func listen(t testing.TB, h http.Handler, protocols *http.Protocols) (dial func(ctx context.Context, network, addr string) (net.Conn, error)) {
	t.Helper()
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0), Protocols: protocols}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return l.dial
}

// pipes is a listener whose connections are pairs of net.Pipe.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error   { close(l.closed); return nil }
func (l *pipes) Addr() net.Addr { return &net.TCPAddr{} }
