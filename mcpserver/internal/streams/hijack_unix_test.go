//go:build unix

package streams

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/sse"
	"github.com/troupe-dev/troupe/mcp"
)

// newSocketKit is a kit on a real socket, whose clock stands still.
func newSocketKit(t *testing.T, v mcp.Version, change func(*Options)) (*streamKit, *httptest.Server) {
	t.Helper()
	k := newStreamKit(t, v, func(o *Options) {
		o.KeepAlive = 24 * time.Hour
		if change != nil {
			change(o)
		}
	})
	server := httptest.NewServer(k)
	t.Cleanup(func() {
		k.set.Close()
		server.Close()
	})
	return k, server
}

// listen opens a stream without a goroutine of the client's.
func (k *streamKit) listen(server *httptest.Server, header string) (net.Conn, *sseClient) {
	k.t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n%s\r\n", header)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		k.t.Fatal(err)
	}
	return conn, k.read(resp)
}

// first is the oldest stream of a GET, and connection what it has.
func (k *streamKit) first() *Stream {
	k.streams.mu.Lock()
	defer k.streams.mu.Unlock()
	return k.streams.gets[0]
}

func (k *streamKit) connection() conn {
	s := k.first()
	s.mutex().Lock()
	defer s.mutex().Unlock()
	return s.conn
}

// untilTrue waits for what another goroutine does.
func untilTrue(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: it does not happen", what)
		}
	}
}

// P11: a standing stream over HTTP/1.1 has no goroutine, and carries events, keep-alives
// and its end all the same.
func TestHijackedStreams(t *testing.T) {
	k, server := newSocketKit(t, mcp.V2025_11_25, nil)
	const sessions = 50
	goroutines := runtime.NumGoroutine()
	all := make([]*Session, sessions)
	reads := make([]*sseClient, sessions)
	for i := range all {
		all[i] = k.set.NewSession()
		k.streams = all[i]
		_, reads[i] = k.listen(server, "")
		reads[i].prime()
	}
	untilTrue(t, "the goroutines end", func() bool { return runtime.NumGoroutine() <= goroutines })
	for i, session := range all {
		if err := session.push([]byte(nthMessage(i))); err != nil {
			t.Fatal(err)
		}
		reads[i].want(nthMessage(i))
	}
	for range slots { // all of them get a keep-alive
		k.set.tick()
	}
	for i, session := range all {
		if err := session.push([]byte(nthMessage(i + 100))); err != nil {
			t.Fatal(err)
		}
		reads[i].want(nthMessage(i + 100))
	}
	if more := runtime.NumGoroutine() - goroutines; more > 0 {
		t.Errorf("%d goroutines more than before", more)
	}
	if err := all[0].Close(t.Context()); err != nil { // ROB-7
		t.Fatal(err)
	}
	k.set.Close()
	for _, r := range reads {
		r.wantEnd()
	}
	untilTrue(t, "the connections are gone", func() bool {
		k.set.mu.Lock()
		defer k.set.mu.Unlock()
		return k.set.conns == 0
	})
}

// A client learns at the beginning that the connection is not for another request.
func TestHijackedConnectionEnds(t *testing.T) {
	_, server := newSocketKit(t, mcp.V2025_11_25, nil)
	resp, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if !resp.Close || !slices.Equal(resp.TransferEncoding, []string{"chunked"}) {
		t.Errorf("got Close %v and %q, want a chunked response whose connection ends with it", resp.Close, resp.TransferEncoding)
	}
}

// SHL-41: that the client is gone is seen before the next message is written, which
// therefore is not lost.
func TestHijackedClientGone(t *testing.T) {
	k, server := newSocketKit(t, mcp.V2025_11_25, nil)
	conn, r := k.listen(server, "")
	first := r.prime()
	conn.Close()
	stream := k.first()
	untilTrue(t, "the server sees it", func() bool {
		stream.ping()
		return !stream.connected()
	})
	if err := k.streams.push([]byte(nthMessage(1))); err != nil {
		t.Fatal(err)
	}
	if got := k.streams.Connections(); got != 0 {
		t.Errorf("got %d connections, want none", got)
	}
	_, r = k.listen(server, "Last-Event-ID: "+first+"\r\n")
	r.want(nthMessage(1))
}

// A client that has closed only its end for sending, or says something, is not served
// further: nobody reads what it says.
func TestHijackedClientSpeaks(t *testing.T) {
	for _, says := range []string{"", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"} {
		k, server := newSocketKit(t, mcp.V2025_11_25, nil)
		conn, r := k.listen(server, "")
		r.prime()
		if says == "" {
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
		} else if _, err := io.WriteString(conn, says); err != nil {
			t.Fatal(err)
		}
		untilTrue(t, "the server sees it", func() bool {
			k.first().ping()
			return k.streams.Connections() == 0
		})
	}
}

// SECA-9: whoever sends does not wait for a slow reader; one that reads in the end gets
// everything, in order.
func TestHijackedSlowReader(t *testing.T) {
	k, server := newSocketKit(t, mcp.V2025_11_25, nil)
	_, r := k.listen(server, "")
	r.prime()
	text := strings.Repeat("x", 64<<10)
	for n := range 60 { // more than the kernel takes, less than the queue
		if err := k.streams.push(fmt.Appendf(nil, "%d %s", n, text)); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 60 {
		r.want(fmt.Sprintf("%d %s", n, text))
	}
	if got := k.streams.Connections(); got != 1 {
		t.Errorf("got %d connections, want 1", got)
	}
	if err := k.streams.push([]byte(nthMessage(1))); err != nil {
		t.Fatal(err)
	}
	r.want(nthMessage(1))
}

// SECA-9: one that never reads loses its connection, and what it holds.
func TestHijackedDeafReader(t *testing.T) {
	k, server := newSocketKit(t, mcp.V2025_11_25, nil)
	k.listen(server, "")
	text := []byte(strings.Repeat("x", 64<<10))
	stream := k.first()
	for n := 0; stream.connected(); n++ {
		stream.Send(text)
		if n > 2*maxQueuedBytes/len(text)+1000 {
			t.Fatal("the queue has no bound")
		}
	}
	if len(stream.queue) > 0 || k.set.conns != 0 {
		t.Errorf("%d events wait for nobody", len(stream.queue))
	}
	if got := k.set.logged.Load(); got > int64(k.set.MaxBytes) {
		t.Errorf("%d bytes are kept", got)
	}
}

// What net/http can not let go of is served the ordinary way.
func TestStreamsNotHijacked(t *testing.T) {
	wrap := func(k *streamKit) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			k.ServeHTTP(struct {
				http.ResponseWriter
				http.Flusher
			}{w, w.(http.Flusher)}, r)
		})
	}
	tests := []struct {
		name   string
		handle func(k *streamKit) http.Handler
		tls    bool
		http2  bool
	}{
		{"wrapped", wrap, false, false},
		{"TLS", func(k *streamKit) http.Handler { return k }, true, false},
		{"HTTP/2", func(k *streamKit) http.Handler { return k }, true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := newStreamKit(t, mcp.V2025_11_25, func(o *Options) { o.KeepAlive = time.Hour })
			server := httptest.NewUnstartedServer(tt.handle(k))
			server.EnableHTTP2 = tt.http2
			if tt.tls {
				server.StartTLS()
			} else {
				server.Start()
			}
			t.Cleanup(func() {
				k.set.Close()
				server.Close()
			})
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := server.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if (resp.ProtoMajor == 2) != tt.http2 {
				t.Errorf("got %s", resp.Proto)
			}
			r := &sseClient{t, resp, sse.NewReader(resp.Body, 0)}
			r.prime()
			if c, ok := k.connection().(*handlerConn); !ok {
				t.Errorf("got a connection %T, want a *handlerConn", c)
			}
			if err := k.streams.push([]byte(nthMessage(1))); err != nil {
				t.Fatal(err)
			}
			r.want(nthMessage(1))
			k.set.Close()
			r.wantEnd()
		})
	}
}

// A listener may wrap its connections; they have no descriptor to write to, and a task
// writes instead.
func TestHijackedWrappedConn(t *testing.T) {
	k := newStreamKit(t, mcp.V2025_11_25, func(o *Options) { o.KeepAlive = time.Hour })
	server := httptest.NewUnstartedServer(k)
	server.Listener = wrappingListener{server.Listener}
	server.Start()
	t.Cleanup(func() {
		k.set.Close()
		server.Close()
	})
	conn, r := k.listen(server, "")
	r.prime()
	for n := range 10 {
		if err := k.streams.push([]byte(nthMessage(n))); err != nil {
			t.Fatal(err)
		}
	}
	r.want(nthMessages(0, 9)...)
	conn.Close()
	untilTrue(t, "a write fails", func() bool {
		k.first().ping()
		return k.streams.Connections() == 0
	})
}

type wrappingListener struct{ net.Listener }

func (l wrappingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return struct{ net.Conn }{c}, err
}

// HTTP/1.0 has no chunks: the stream ends with the connection.
func TestStreamHTTP10(t *testing.T) {
	k, server := newSocketKit(t, mcp.V2025_11_25, nil)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := k.read(resp)
	r.prime()
	k.set.Close()
	if _, err := r.in.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("the end: got %v, want io.EOF", err)
	}
}

// A client that has vanished is given up by the kernel, which alone can know.
func TestHijackedSilence(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the option is Linux's")
	}
	k, server := newSocketKit(t, mcp.V2025_11_25, nil)
	_, r := k.listen(server, "")
	r.prime()
	c := k.connection().(*hijacked)
	c.stream.mutex().Lock()
	raw := c.raw
	c.stream.mutex().Unlock()
	if err := raw.Control(func(fd uintptr) {
		got, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, 18)
		if err != nil || got != int(silence.Milliseconds()) {
			t.Errorf("TCP_USER_TIMEOUT: got %d ms, %v, want %v", got, err, silence)
		}
	}); err != nil {
		t.Fatal(err)
	}
}
