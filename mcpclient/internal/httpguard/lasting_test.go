package httpguard

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// lastingTo sends a request for an event stream that lasts.
func lastingTo(t *testing.T, c *http.Client, url string) (*http.Response, error) {
	t.Helper()
	req := request(t, http.MethodGet, url)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Accept-Encoding", "identity")
	return Do(c, req.WithContext(Lasting(req.Context())), 0)
}

// owns reports whether an answer is on a connection of its own.
func owns(resp *http.Response) bool {
	_, own := resp.Body.(*cancelBody).ReadCloser.(*Stream)
	return own
}

// The answer is what net/http makes of it, whatever the server sends.
func TestLastingAnswers(t *testing.T) {
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	long := strings.Repeat("x", 100_000)
	for name, answer := range map[string]string{
		"chunks":               chunked + "3\r\nabc\r\n4;ext=1\r\ndefg\r\n0\r\n\r\n",
		"hexadecimal":          chunked + "000A \r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n",
		"a cut chunk":          chunked + "5\r\nabc",
		"no last chunk":        chunked + "3\r\nabc\r\n",
		"nothing":              chunked,
		"no end of a chunk":    chunked + "3\r\nabcd\r\n0\r\n\r\n",
		"a bare LF":            chunked + "3\nabc\r\n0\r\n\r\n",
		"a CR in the middle":   chunked + "3;\r \r\nabc\r\n0\r\n\r\n",
		"no number":            chunked + "z\r\nabc\r\n0\r\n\r\n",
		"no digits":            chunked + "\r\nabc\r\n0\r\n\r\n",
		"a sign":               chunked + "+3\r\nabc\r\n0\r\n\r\n",
		"a number too large":   chunked + "fffffffffffffffff\r\nabc\r\n0\r\n\r\n",
		"a long line":          chunked + "3;" + long + "\r\nabc\r\n0\r\n\r\n",
		"many long lines":      chunked + strings.Repeat("1;"+long[:500]+"\r\na\r\n", 100) + "0\r\n\r\n",
		"byte by byte":         chunked + strings.Repeat("1\r\na\r\n", 10_000) + "0\r\n\r\n",
		"large":                chunked + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(long), long),
		"a length":             "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef",
		"a length too long":    "HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\nabcdef",
		"to the end":           "HTTP/1.1 200 OK\r\n\r\nabc",
		"HTTP/1.0":             "HTTP/1.0 200 OK\r\n\r\nabc",
		"without a body":       "HTTP/1.1 204 No Content\r\n\r\nabc",
		"405":                  "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 3\r\n\r\nabc",
		"hints":                strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 3) + "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
		"one large header":     "HTTP/1.1 200 OK\r\nX: " + long + "\r\n\r\n",
		"many headers":         "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 20_000) + "\r\n",
		"endless 1xx":          strings.Repeat("HTTP/1.1 103 Early Hints\r\nX: "+long[:1000]+"\r\n\r\n", 1000),
		"a large status line":  "HTTP/1.1 200 " + long + "\r\n\r\n",
		"no answer":            "",
		"no HTTP":              "SSH-2.0-x\r\n",
		"half a header":        "HTTP/1.1 200 OK\r\nContent-Le",
		"two lengths":          "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"two ways":             "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"an unknown encoding":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc",
		"an encoding in front": "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	} {
		at := raw(t, answer) + "/?secret"
		read := func(resp *http.Response, err error) (int, string, error) {
			if err != nil {
				if errors.Is(err, ErrUnsent) || strings.Contains(err.Error(), "secret") {
					t.Errorf("%s: got the error %v, which counts as unsent or holds the query", name, err)
				}
				return 0, "", err
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			return resp.StatusCode, string(got), err
		}
		resp, err := lastingTo(t, newClient(t, nil), at)
		if err == nil && !owns(resp) {
			t.Errorf("%s: net/http has carried the request", name)
		}
		status, got, err := read(resp, err)
		req := request(t, http.MethodGet, at)
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Accept-Encoding", "identity")
		wantStatus, want, wantErr := read(Do(newClient(t, nil), req, 0))
		if status != wantStatus || got != want || (err == nil) != (wantErr == nil) {
			t.Errorf("%s: got %d, %.60q, %v, want %d, %.60q, %v", name, status, got, err, wantStatus, want, wantErr)
		}
	}
}

// Chunks are read as net/http reads them, however the parts of them come.
func FuzzChunks(f *testing.F) {
	for _, s := range []string{"3\r\nabc\r\n0\r\n\r\n", "3\r\nabc\r\n4;x\r\ndefg\r\n0\r\n", "00a \r\n0123456789\r\n", "1\r\na\r\n1\r\nb\r\nx", "\r\n", "3\nabc"} {
		f.Add([]byte(s), uint8(1))
		f.Add([]byte(s), uint8(100))
	}
	f.Fuzz(func(t *testing.T, in []byte, piece uint8) {
		want, wantErr := io.ReadAll(httputil.NewChunkedReader(bufio.NewReaderSize(bytes.NewReader(in), streamBuffer)))
		s := &Stream{conn: &pieces{in: in, size: int(piece)%64 + 1}, open: new(atomic.Int64), head: noLimit, chunked: true, idle: time.Second}
		var got []byte
		buf := make([]byte, 16)
		for {
			n, err := s.Read(buf)
			got = append(got, buf[:n]...)
			if err == ErrIdle {
				if s.in != nil {
					t.Fatal("an idle stream holds a buffer")
				}
				continue
			}
			if err == nil {
				continue
			}
			if !bytes.Equal(got, want) || (err == io.EOF) != (wantErr == nil) {
				t.Errorf("got %q, %v, want %q, %v", got, err, want, wantErr)
			}
			return
		}
	})
}

// pieces is a connection from which each second read times out, if it has a deadline.
type pieces struct {
	net.Conn
	in       []byte
	size     int
	deadline bool
	late     bool
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.late = !p.late; p.late && p.deadline {
		return 0, os.ErrDeadlineExceeded
	}
	if len(p.in) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.in[:min(p.size, len(p.in))])
	p.in = p.in[n:]
	return n, nil
}

func (p *pieces) SetReadDeadline(at time.Time) error {
	p.deadline = !at.IsZero()
	return nil
}

func (p *pieces) Close() error { return nil }

// SECA-22, ROB-6: redirects are followed within the origin only, as those of other requests.
func TestLastingRedirects(t *testing.T) {
	other := newRecorder(t, nil)
	var hops atomic.Int32
	r := newRecorder(t, func(w http.ResponseWriter, req *http.Request) {
		switch {
		case req.URL.Path == "/away":
			http.Redirect(w, req, other.URL, http.StatusTemporaryRedirect)
		case hops.Add(-1) >= 0:
			http.Redirect(w, req, "/next", http.StatusTemporaryRedirect)
		}
	})
	c := newClient(t, nil)
	for n, want := range map[int32]bool{1: true, maxRedirects: true, maxRedirects + 1: false} {
		hops.Store(n)
		resp, err := lastingTo(t, c, r.URL)
		if (err == nil) != want {
			t.Errorf("%d redirects: got %v, want followed: %t", n, err, want)
		}
		if err == nil {
			if !owns(resp) {
				t.Error("net/http has followed a redirect")
			}
			resp.Body.Close()
		}
	}
	_, err := lastingTo(t, c, r.URL+"/away")
	if _, refused := errors.AsType[*RedirectError](err); !refused || len(other.requests()) > 0 {
		t.Errorf("a redirect to another origin: got %v and %d requests there, want a RedirectError and none", err, len(other.requests()))
	}
	if n := c.Transport.(*guard).lasting.open.Load(); n != 0 {
		t.Errorf("%d connections count as open, want none", n)
	}
}

// What needs more than a connection of HTTP/1.1 goes through net/http.
func TestLastingLeftToNetHTTP(t *testing.T) {
	stream := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.WriteHeader(http.StatusOK)
		http.NewResponseController(w).Flush()
		<-req.Context().Done()
	})
	try := func(name string, c *http.Client, url string, own bool, proto int) {
		t.Helper()
		resp, err := lastingTo(t, c, url)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		t.Cleanup(func() { resp.Body.Close() })
		if owns(resp) != own || resp.ProtoMajor != proto {
			t.Errorf("%s: got HTTP/%d on a connection of its own: %t, want HTTP/%d, %t", name, resp.ProtoMajor, owns(resp), proto, own)
		}
	}
	plain := httptest.NewServer(stream)
	t.Cleanup(plain.Close)
	few := newClient(t, &Options{MaxConns: 1})
	try("plain", few, plain.URL, true, 1)
	try("beyond MaxConns", few, plain.URL, false, 1)

	at, _ := url.Parse(plain.URL)
	try("a proxy", newClient(t, &Options{Proxy: http.ProxyURL(at)}), "http://server.test/", false, 1)

	for _, two := range []bool{false, true} {
		s := httptest.NewUnstartedServer(stream)
		s.EnableHTTP2 = two
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		t.Cleanup(s.Close)
		var dials atomic.Int32
		c := newClient(t, &Options{TLS: trust(s), Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.Add(1)
			return new(net.Dialer).DialContext(ctx, network, addr)
		}})
		proto, conns := 1, int32(2)
		if two {
			proto = 2 // one connection to find out, and one for all
		}
		for range 2 {
			try(fmt.Sprintf("HTTP/2 %t", two), c, s.URL, !two, proto)
		}
		if n := dials.Load(); n != conns {
			t.Errorf("HTTP/2 %t: got %d connections, want %d", two, n, conns)
		}
		if _, err := lastingTo(t, newClient(t, nil), s.URL); !errors.Is(err, ErrUnsent) {
			t.Errorf("a certificate that is not trusted: got %v, want ErrUnsent", err)
		}
	}
}

// A stream returns ErrIdle as often as nothing comes, also over TLS, and loses nothing.
func TestLastingIdle(t *testing.T) {
	next := make(chan string)
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for text := range next {
			io.WriteString(w, text)
			http.NewResponseController(w).Flush()
			if text == "" {
				return
			}
		}
	})
	plain, secure := httptest.NewServer(h), httptest.NewTLSServer(h)
	defer plain.Close()
	defer secure.Close()
	for _, s := range []*httptest.Server{plain, secure} {
		o := new(Options)
		if s == secure {
			o.TLS = trust(s)
		}
		go func() { next <- "a" }()
		resp, err := lastingTo(t, newClient(t, o), s.URL)
		if err != nil {
			t.Fatal(err)
		}
		stream := StreamOf(resp)
		stream.Idle(time.Millisecond)
		buf := make([]byte, 10)
		idle := 0
		read := func() (string, error) {
			for {
				n, err := stream.Read(buf)
				if err != ErrIdle {
					return string(buf[:n]), err
				}
				if idle++; stream.in != nil {
					t.Fatal("an idle stream holds a buffer")
				}
			}
		}
		for i, want := range []string{"a", "b", "c"} {
			if i > 0 {
				for before := idle; idle == before; {
					if _, err := stream.Read(buf); err == ErrIdle {
						idle++
					}
				}
				next <- want
			}
			if got, err := read(); got != want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		}
		if file, err := stream.SyscallConn(); err != nil || file == nil {
			t.Errorf("SyscallConn: got %v", err)
		}
		next <- ""
		if _, err := read(); err != io.EOF {
			t.Errorf("at the end: got %v, want EOF", err)
		}
		stream.Close()
	}
}

// The context of a request ends its stream until StreamOf, and Close does at any time.
func TestLastingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, &Options{Dial: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				_, _ = http.ReadRequest(bufio.NewReader(theirs))
				_, _ = io.WriteString(theirs, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
				_, _ = theirs.Read(make([]byte, 1))
			}()
			return ours, nil
		}})
		gone := errors.New("gone")
		for _, detached := range []bool{false, true} {
			ctx, cancel := context.WithCancelCause(Lasting(t.Context()))
			resp, err := Do(c, request(t, http.MethodGet, "http://server.test/").WithContext(ctx), 0)
			if err != nil {
				t.Fatal(err)
			}
			body := io.ReadCloser(resp.Body)
			if detached {
				body = StreamOf(resp)
			}
			got := make(chan error, 1)
			go func() {
				_, err := body.Read(make([]byte, 1))
				got <- err
			}()
			synctest.Wait()
			cancel(gone)
			synctest.Wait()
			if ended := len(got) > 0; ended == detached {
				t.Errorf("detached %t: the context has ended the stream: %t", detached, ended)
			}
			body.Close()
			if err := <-got; !detached && !errors.Is(err, gone) || err == nil {
				t.Errorf("detached %t: got %v", detached, err)
			}
			if n := c.Transport.(*guard).lasting.open.Load(); n != 0 {
				t.Errorf("%d connections count as open, want none", n)
			}
		}
	})
}

// A header that net/http would not send is not sent.
func TestLastingChecksHeaders(t *testing.T) {
	for name, value := range map[string]string{"X": "a\r\nY: b", "X y": "a", "": "a"} {
		r := newRecorder(t, nil)
		req := request(t, http.MethodGet, r.URL)
		req.Header[name] = []string{value}
		resp, err := Do(newClient(t, nil), req.WithContext(Lasting(t.Context())), 0)
		if err == nil {
			resp.Body.Close()
		}
		if !errors.Is(err, ErrUnsent) || len(r.requests()) > 0 {
			t.Errorf("%q: %q: got %v and %d requests, want ErrUnsent and none", name, value, err, len(r.requests()))
		}
	}
}
