package httpguard

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync/atomic"

	"github.com/troupe-dev/troupe/internal/memo"
	"github.com/troupe-dev/troupe/internal/mirror"
)

type lasting struct{}

// Lasting marks the context of a GET whose answer is an event stream that lasts. Over HTTP/1.1
// it gets a connection of its own, which is closed with the answer and needs no goroutine but
// the reader's, see [Stream].
func Lasting(ctx context.Context) context.Context { return context.WithValue(ctx, lasting{}, true) }

func isLasting(req *http.Request) bool {
	return req.Method == http.MethodGet && req.Context().Value(lasting{}) != nil
}

const (
	max1xx   = 5   // responses before the one that counts
	maxHTTP2 = 256 // servers that are remembered to speak it
)

var (
	errHeaderSize = errors.New("the header of the answer is too long")
	errHandshake  = errors.New("the TLS handshake takes too long")
	errHTTP2      = errors.New("the server speaks HTTP/2")
)

// lastings carries requests marked by [Lasting]. What it does not know, which is a proxy, HTTP/2,
// names that are not ASCII, and connections beyond MaxConns, it leaves to net/http.
type lastings struct {
	o     *Options
	other *http.Transport
	http2 memo.Map[string, struct{}] // servers, by host and port
	open  atomic.Int64
}

func newLastings(o *Options, other *http.Transport) *lastings {
	l := &lastings{o: o, other: other}
	l.http2.Max = maxHTTP2
	return l
}

// RoundTrip implements [http.RoundTripper].
func (l *lastings) RoundTrip(req *http.Request) (*http.Response, error) {
	addr, ok := l.address(req)
	if !ok {
		return l.other.RoundTrip(req)
	}
	if err := checkRequest(req); err != nil {
		return nil, err
	}
	if l.open.Add(1) > int64(l.o.MaxConns) {
		l.open.Add(-1)
		return l.other.RoundTrip(req)
	}
	s := &Stream{open: &l.open, head: l.o.MaxHeader}
	if err := l.connect(req, addr, s); err != nil {
		s.Close()
		if errors.Is(err, errHTTP2) {
			l.http2.Set(addr, struct{}{}, 0)
			return l.other.RoundTrip(req)
		}
		return nil, err
	}
	resp, err := s.ask(req)
	if err != nil {
		s.Close()
		return nil, err
	}
	return resp, nil
}

// address returns the host and port of a request, and whether it is for us.
func (l *lastings) address(req *http.Request) (string, bool) {
	u := req.URL
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "http":
		port = "80"
	case u.Scheme == "https":
		port = "443"
	default:
		return "", false
	}
	host := u.Hostname()
	for i := range len(host) {
		if host[i] <= ' ' || host[i] > '~' {
			return "", false
		}
	}
	addr := net.JoinHostPort(host, port)
	if _, known := l.http2.Get(addr); known || host == "" || len(l.o.TLS.NextProtos) > 0 {
		return "", false
	}
	proxy, err := l.o.proxy(req)
	return addr, proxy == nil && err == nil
}

// checkRequest refuses what net/http would refuse.
func checkRequest(req *http.Request) error {
	for name, values := range req.Header {
		if !mirror.IsToken(name) || slices.ContainsFunc(values, func(v string) bool { return !ValidValue(v) }) {
			return fmt.Errorf("%w: %.100q", ErrHeader, name)
		}
	}
	return nil
}

// connect makes the connection of a stream.
func (l *lastings) connect(req *http.Request, addr string, s *Stream) error {
	ctx := req.Context()
	conn, err := l.o.Dial(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	s.conn = conn
	if req.URL.Scheme == "https" {
		cfg := l.o.TLS.Clone()
		if cfg.ServerName == "" {
			cfg.ServerName = req.URL.Hostname()
		}
		cfg.NextProtos = []string{"h2", "http/1.1"}
		secure := tls.Client(conn, cfg)
		s.conn = secure
		inTime, cancel := context.WithTimeoutCause(ctx, l.o.TLSTimeout, errHandshake)
		defer cancel()
		if err := secure.HandshakeContext(inTime); err != nil {
			if inTime.Err() != nil {
				err = context.Cause(inTime)
			}
			return err
		}
		if secure.ConnectionState().NegotiatedProtocol == "h2" {
			return errHTTP2
		}
	}
	if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: s.conn})
	}
	s.stop = context.AfterFunc(ctx, func() { s.conn.Close() })
	return nil
}

// ask sends the request and reads the header of the answer.
func (s *Stream) ask(req *http.Request) (*http.Response, error) {
	var out bytes.Buffer
	if err := req.Write(&out); err != nil {
		return nil, err
	}
	if _, err := s.conn.Write(out.Bytes()); err != nil {
		return nil, err
	}
	s.in = readers.Get().(*bufio.Reader)
	s.in.Reset((*wire)(s))
	for range max1xx + 1 {
		resp, err := http.ReadResponse(s.in, req)
		switch {
		case err != nil && s.head <= 0:
			return nil, errHeaderSize
		case err != nil:
			return nil, err
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("the server switches to another protocol")
		case resp.StatusCode/100 == 1:
			continue
		}
		s.head = noLimit
		s.chunked = len(resp.TransferEncoding) > 0
		s.left = resp.ContentLength
		if s.chunked {
			s.left = 0
		}
		if secure, ok := s.conn.(*tls.Conn); ok {
			state := secure.ConnectionState()
			resp.TLS = &state
		}
		resp.Body = s
		return resp, nil
	}
	return nil, errors.New("the server sends informational responses without end")
}
