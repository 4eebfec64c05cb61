//go:build unix

package streams

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/mcpserver/internal/buffer"
)

// hijacked is a connection taken over from net/http, so that a quiet stream needs no
// goroutine: with net/http a standing stream of HTTP/1.1 costs two goroutines and their
// stacks.
//
// The sender of a message writes as much as the socket takes at once; a task waits to write the
// rest. The server does not read: it notices a disconnect at the next write, a keep-alive at
// the latest.
type hijacked struct {
	stream *Stream
	w      http.ResponseWriter // nil once run has taken it over
	tcp    net.Conn            // nil until then
	raw    syscall.RawConn     // of tcp; nil if it has none

	// Guarded by the stream's lock, as a part of its state.
	busy  bool // a goroutine writes; it alone uses the connection
	cause error
}

// newStanding returns a connection for a stream that stays open for long.
func newStanding(s *Stream, w http.ResponseWriter, r *http.Request) Standing {
	if r.Method != http.MethodGet || !plain(w, r) {
		return newHandlerConn(s, w, r)
	}
	return &hijacked{stream: s, w: w, busy: true}
}

// sendBuffer bounds the kernel's buffer for a slow reader, in bytes. By default the kernel
// keeps megabytes.
const sendBuffer = 128 << 10

// closes is shared by all responses and never changed.
var closes = []string{"close"}

// Run sends the header, takes the connection over and returns. From then on the senders
// write.
func (c *hijacked) Run(context.Context) error {
	out := http.NewResponseController(c.w)
	streamHeader(c.w.Header())
	c.w.Header()["Connection"] = closes // it ends with the stream: a client that used it for another request would lose that
	c.w.WriteHeader(http.StatusOK)
	c.w = nil // it holds much memory
	_ = out.SetWriteDeadline(c.stream.set.deadline())
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
	c.stream.mutex().Lock()
	c.tcp, c.raw = tcp, raw
	c.stream.mutex().Unlock()
	if buffered.Reader.Buffered() > 0 { // a pipelined request
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

// kick writes the queue, unless another goroutine is writing and will find it.
func (c *hijacked) kick() {
	c.stream.mutex().Lock()
	busy := c.busy
	c.busy = true
	c.stream.mutex().Unlock()
	if !busy {
		c.write()
	}
}

// write writes until the queue is empty, or until the socket takes no more: then a task
// goes on. The caller has made the connection busy.
func (c *hijacked) write() {
	for !c.rest() {
		out := buffer.Take()
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
			c.stream.set.Go(func() { c.insist(chunk[n:], last) })
			return
		case last:
			c.leave(nil)
			return
		}
		buffer.Give(out, chunk)
	}
}

// rest ends the writing if the queue is empty.
func (c *hijacked) rest() bool {
	s := c.stream
	s.mutex().Lock()
	defer s.mutex().Unlock()
	c.busy = s.conn != c || len(s.queue) > 0 || s.ended || s.paused
	return !c.busy
}

// next appends the queue as a chunk (RFC 9112, 7.1), and the last chunk if nothing
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
	c.stream.mutex().Lock()
	defer c.stream.mutex().Unlock()
	return c.cause
}

// try writes as much as the socket takes without waiting. First it checks whether the
// client has closed its end: the bytes would be lost.
func (c *hijacked) try(chunk []byte) (n int, err error) {
	if c.raw == nil {
		return 0, nil
	}
	var failed error
	if err := c.raw.Read(func(fd uintptr) bool {
		failed = checkSilent(fd)
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

// checkSilent returns an error unless the client keeps the socket open and sends nothing.
func checkSilent(fd uintptr) error {
	var one [1]byte
	_, err := syscall.Read(int(fd), one[:])
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
		return nil
	}
	return errGone // the end, an error, or bytes against HTTP
}

// insist waits for a slow reader, at most until the deadline. It runs as a task.
func (c *hijacked) insist(rest []byte, last bool) {
	_ = c.tcp.SetWriteDeadline(c.stream.set.deadline())
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

// leave closes the connection. The busy goroutine calls it; the connection stays busy.
func (c *hijacked) leave(err error) {
	_ = c.tcp.Close()
	c.stream.detach(c, err)
}
