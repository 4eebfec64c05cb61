//go:build unix

package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"
)

// hijacked is a connection of a stream that has been taken from net/http, so that it
// needs no goroutine while the stream is quiet: a standing stream of HTTP/1.1 costs two
// there, and their stacks.
//
// Whoever has something to say writes it, as far as the socket takes it at once; for
// the rest a task waits. Nobody reads: that the client is gone is seen when something
// is written, a keep-alive at the latest.
type hijacked struct {
	stream *stream
	w      http.ResponseWriter // nil once run has taken it over
	tcp    net.Conn            // nil until then
	raw    syscall.RawConn     // of tcp; nil if it has none

	// Guarded by the stream's lock.
	busy  bool // somebody writes; it alone uses the connection
	cause error
}

// newStanding returns a connection for a stream that stays open for long.
func newStanding(s *stream, w http.ResponseWriter, r *http.Request) standing {
	if !canHijack(w, r) {
		return newHandlerConn(s, w)
	}
	return &hijacked{stream: s, w: w, busy: true}
}

// canHijack reports whether a response goes to a socket, and nowhere else: one that is
// wrapped may be compressed or counted on the way, and TLS keeps buffers anyway.
func canHijack(w http.ResponseWriter, r *http.Request) bool {
	if r.TLS != nil || r.ProtoMajor != 1 || r.ProtoMinor < 1 || r.Method != http.MethodGet {
		return false
	}
	if fmt.Sprintf("%T", w) != plainResponse {
		return false
	}
	switch addr := r.Context().Value(http.LocalAddrContextKey).(type) {
	case *net.TCPAddr, *net.UnixAddr:
		return addr != nil
	}
	return false
}

// sendBuffer is how much the kernel keeps for a slow reader, in bytes. It takes
// megabytes if it is not told.
const sendBuffer = 128 << 10

// plainResponse is the type of net/http's own response in HTTP/1, which has no name
// outside.
const plainResponse = "*http.response"

// silence is how long a client may leave what was written without acknowledgement: one
// that has vanished would else be written to for a quarter of an hour.
const silence = time.Minute

// run sends the header, takes the connection over and returns. From then on the stream
// is written by those who have something to say.
func (c *hijacked) run(context.Context) error {
	out := http.NewResponseController(c.w)
	streamHeader(c.w.Header())
	c.w.WriteHeader(http.StatusOK)
	c.w = nil // it holds much
	_ = out.SetWriteDeadline(c.stream.hub.deadline())
	if err := out.Flush(); err != nil {
		c.stream.detach(c, errGone)
		return errGone
	}
	tcp, buffered, err := out.Hijack() // the header has promised chunks
	if err != nil {
		c.stream.detach(c, err)
		return err
	}
	var raw syscall.RawConn
	if s, ok := tcp.(syscall.Conn); ok {
		if raw, err = s.SyscallConn(); err != nil {
			raw = nil
		}
	}
	if b, ok := tcp.(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = b.SetWriteBuffer(sendBuffer)
	}
	if raw != nil {
		boundSilence(raw)
	}
	c.stream.mu.Lock()
	c.tcp, c.raw = tcp, raw
	c.stream.mu.Unlock()
	if buffered.Reader.Buffered() > 0 { // a request that does not wait for the answer to the one before
		c.leave(errGone)
		return errGone
	}
	c.write()
	return nil
}

func (c *hijacked) cut(cause error) { c.cause = cause }

func (c *hijacked) hurry() {
	if c.tcp != nil {
		_ = c.tcp.SetWriteDeadline(time.Now().Add(hurryTime))
	}
}

// kick writes what there is, unless somebody does already and will see it.
func (c *hijacked) kick() {
	c.stream.mu.Lock()
	busy := c.busy
	c.busy = true
	c.stream.mu.Unlock()
	if !busy {
		c.write()
	}
}

// write writes until there is nothing left, or the socket takes no more: then a task
// goes on. The caller has made the connection busy.
func (c *hijacked) write() {
	for !c.rest() {
		out := buffers.Get().(*[]byte)
		chunk, last, err := c.next((*out)[:0])
		n := 0
		if err == nil {
			n, err = c.try(chunk)
		}
		switch {
		case err != nil:
			c.leave(err)
			return
		case n < len(chunk):
			c.stream.hub.task(func() { c.insist(chunk[n:], last) })
			return
		case last:
			c.leave(nil)
			return
		}
		recycle(out, chunk)
	}
}

// rest ends the writing, if nothing is left to write.
func (c *hijacked) rest() bool {
	s := c.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	c.busy = s.conn != c || len(s.queue) > 0 || s.ended || s.paused
	return !c.busy
}

// next appends what waits as a chunk (RFC 9112, 7.1), and the last one where nothing
// follows.
func (c *hijacked) next(dst []byte) (chunk []byte, last bool, err error) {
	events, last, ours := c.stream.take(c, nil)
	if !ours {
		return dst, true, c.why()
	}
	size := 0
	for _, event := range events {
		size += len(event)
	}
	if size > 0 {
		dst = strconv.AppendInt(dst, int64(size), 16)
		dst = append(dst, "\r\n"...)
		for _, event := range events {
			dst = append(dst, event...)
		}
		dst = append(dst, "\r\n"...)
	}
	if last {
		dst = append(dst, "0\r\n\r\n"...)
	}
	return dst, last, nil
}

func (c *hijacked) why() error {
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	return c.cause
}

// try writes what the socket takes without a wait. Before that it looks whether the
// client has closed its end: what is written then would be lost.
func (c *hijacked) try(chunk []byte) (n int, err error) {
	if c.raw == nil {
		return 0, nil
	}
	var failed error
	if err := c.raw.Read(func(fd uintptr) bool {
		failed = heard(fd)
		return true
	}); err != nil || failed != nil {
		return 0, errGone
	}
	if err := c.raw.Write(func(fd uintptr) bool {
		n, failed = syscall.Write(int(fd), chunk)
		return true
	}); err != nil {
		return 0, errGone
	}
	switch {
	case failed == nil:
		return n, nil
	case errors.Is(failed, syscall.EAGAIN), errors.Is(failed, syscall.EINTR):
		return max(n, 0), nil
	}
	return 0, errGone
}

// heard reads from a socket that a client should be silent on.
func heard(fd uintptr) error {
	var one [1]byte
	_, err := syscall.Read(int(fd), one[:])
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
		return nil
	}
	return errGone // the end, an error, or a client that does not keep to HTTP
}

// insist is the task that waits for a slow reader, until it is too slow.
func (c *hijacked) insist(rest []byte, last bool) {
	_ = c.tcp.SetWriteDeadline(c.stream.hub.deadline())
	if _, err := c.tcp.Write(rest); err != nil {
		c.leave(lostBy(err))
		return
	}
	if last {
		c.leave(nil)
		return
	}
	_ = c.tcp.SetWriteDeadline(time.Time{})
	c.write()
}

// leave closes the connection. Whoever is busy calls it, and stays so for ever.
func (c *hijacked) leave(err error) {
	_ = c.tcp.Close()
	c.stream.detach(c, err)
}
