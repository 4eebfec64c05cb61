package httpguard

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrIdle is returned by [Stream.Read] when nothing has come for a while. It is not final.
var ErrIdle = errors.New("nothing has come")

var errChunk = errors.New("the answer is not chunked as it should be")

const (
	noLimit     = math.MaxInt64
	maxOverhead = 16 << 10 // bytes of a chunked body beside its data, beyond 16 a chunk and twice the data
)

// Stream is the body of the answer to a request marked by [Lasting], on a connection of its
// own. One goroutine may read it at a time; Close may be called from any.
type Stream struct {
	conn net.Conn      // nil before there is one
	in   *bufio.Reader // nil while it has nothing
	idle time.Duration // without a byte before Read returns ErrIdle; zero is never
	head int64         // bytes that the header may still have
	open *atomic.Int64 // connections of the client
	stop func() bool   // lets go of the request's context; nil if there is none

	left    int64 // bytes of the body, or of its chunk; negative is to the end of the connection
	excess  int64 // of the overhead of chunks
	err     error // final
	closed  atomic.Bool
	chunked bool
	behind  bool // the line that ends a chunk is to come
}

// readers are the buffers of streams, as small as the events are.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, streamBuffer) }}

// StreamOf returns the stream that the answer to a request of [Do] is, freed of the request's
// context: from then on only Close ends it. It is nil for an answer that is compressed, and for
// one that net/http has carried.
func StreamOf(resp *http.Response) *Stream {
	body, _ := resp.Body.(*cancelBody)
	if body == nil {
		return nil
	}
	s, _ := body.ReadCloser.(*Stream)
	if e := contentEncoding(resp.Header); s == nil || e != "" && e != "identity" || !s.stop() {
		return nil
	}
	s.stop = nil // with what it holds
	return s
}

// Idle makes Read return [ErrIdle] whenever nothing has come for d, instead of waiting for
// longer; zero takes that back. What is read next is there only when the connection is
// readable, see SyscallConn: then neither the stream nor TLS has anything of it.
func (s *Stream) Idle(d time.Duration) { s.idle = d }

// SyscallConn implements [syscall.Conn].
func (s *Stream) SyscallConn() (syscall.RawConn, error) {
	conn := s.conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if raw, ok := conn.(syscall.Conn); ok {
		return raw.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// Close ends the connection.
func (s *Stream) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.open.Add(-1)
	if s.stop != nil {
		s.stop()
	}
	if s.conn != nil {
		s.conn.Close()
	}
	return nil
}

// Read implements [io.Reader].
func (s *Stream) Read(p []byte) (n int, err error) {
	if s.err == nil && len(p) > 0 {
		n, err = s.read(p)
	} else {
		return 0, s.err
	}
	switch {
	case err == nil:
	case err == ErrIdle:
		s.release()
	default:
		s.err = err
		s.release()
	}
	return n, err
}

func (s *Stream) read(p []byte) (int, error) {
	for s.chunked && s.left == 0 {
		if err := s.await(); err != nil {
			return 0, err
		}
		if err := s.line(); err != nil {
			return 0, err
		}
	}
	switch {
	case s.left == 0:
		return 0, io.EOF
	case s.left > 0:
		p = p[:min(int64(len(p)), s.left)]
	}
	if err := s.await(); err != nil {
		return 0, err
	}
	n, err := s.in.Read(p)
	if s.left < 0 {
		return n, err
	}
	s.left -= int64(n)
	if err == io.EOF && (s.left > 0 || s.chunked) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// await waits for a byte.
func (s *Stream) await() error {
	if s.in == nil {
		s.in = readers.Get().(*bufio.Reader)
		s.in.Reset((*wire)(s))
	}
	if s.idle == 0 || s.in.Buffered() > 0 {
		return nil
	}
	if err := s.conn.SetReadDeadline(time.Now().Add(s.idle)); err != nil {
		return err
	}
	_, err := s.in.Peek(1)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = ErrIdle
	}
	if failed := s.conn.SetReadDeadline(time.Time{}); err == nil {
		err = failed
	}
	if err == io.EOF && s.left >= 0 {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// line reads a line that ends a chunk, or begins one.
func (s *Stream) line() error {
	line, err := s.in.ReadSlice('\n')
	switch {
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	case err == bufio.ErrBufferFull:
		return errChunk
	case err != nil:
		return err
	}
	text, ok := strings.CutSuffix(string(line), "\r\n")
	if !ok || s.behind && text != "" {
		return errChunk
	}
	if s.behind {
		s.behind = false
		return nil
	}
	size, _, _ := strings.Cut(text, ";")
	n, err := strconv.ParseUint(strings.TrimRight(size, " \t"), 16, 63)
	if err != nil || strings.Contains(text, "\r") {
		return errChunk
	}
	if n == 0 {
		return io.EOF
	}
	s.excess = max(0, s.excess+int64(len(line))+2-16-2*int64(min(n, maxOverhead)))
	if s.excess > maxOverhead {
		return errChunk
	}
	s.left, s.behind = int64(n), true
	return nil
}

// release gives the buffer back, in which there is nothing.
func (s *Stream) release() {
	if s.in == nil {
		return
	}
	s.in.Reset(nil)
	readers.Put(s.in)
	s.in = nil
}

// wire is a stream as its buffer reads it.
type wire Stream

func (w *wire) Read(p []byte) (int, error) {
	if w.head == noLimit {
		return w.conn.Read(p)
	}
	if w.head <= 0 {
		return 0, errHeaderSize
	}
	n, err := w.conn.Read(p[:min(int64(len(p)), w.head)])
	w.head -= int64(n)
	return n, err
}
