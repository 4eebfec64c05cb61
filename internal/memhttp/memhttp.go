// Package memhttp serves HTTP in memory, for tests that run in a synctest bubble.
package memhttp

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"testing"
	"time"
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
	l := NewListener()
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
	return l.Dial
}

// Listener is a listener whose connections are pairs of net.Pipe.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
}

// NewListener returns a listener. It is closed once.
func NewListener() *Listener {
	return &Listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial connects to the listener; it takes no notice of the address.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
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

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *Listener) Close() error { close(l.closed); return nil }

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{} }

// HoldTime is how long a server of ours may keep a connection whose request does not come, with the
// moments between two bytes of Held.
const HoldTime = 34 * time.Second

// Held begins a request, keeps bytes of its body
// coming, and returns how long the server keeps the connection, at most an hour.
func Held(t testing.TB, c net.Conn, head string) time.Duration {
	t.Helper()
	defer c.Close()
	begin, gone := time.Now(), make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, c)
	}()
	if _, err := io.WriteString(c, head); err != nil {
		t.Fatal(err)
	}
	for time.Since(begin) < time.Hour {
		select {
		case <-gone:
			return time.Since(begin)
		case <-time.After(3 * time.Second):
			_, _ = c.Write([]byte("x")) // if it is gone the server has closed it
		}
	}
	return time.Since(begin)
}

// HeldBy is Held for requests with a length to a handler on a server without bounds: each of heads is
// a request's first line with headers, without the end. It reports those that are held too long.
func HeldBy(t *testing.T, h http.Handler, heads ...string) {
	t.Helper()
	dial := Listen(t, h)
	for _, head := range heads {
		c, err := dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		if got := Held(t, c, head+"\r\nContent-Length: 60000\r\n\r\n{"); got > HoldTime {
			t.Errorf("%q: the connection is held for %v", head, got)
		}
	}
}
