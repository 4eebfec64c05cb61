//go:build unix

package frame

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// pollFor is how long a wait on a blocking descriptor lasts before it looks
// whether the writer has been closed, in milliseconds.
const pollFor = 100

// pipeChunk is what a pipe takes without blocking once poll calls it writable
// (PIPE_BUF): a page on Linux, 512 bytes by POSIX.
func pipeChunk() int {
	if runtime.GOOS == "linux" {
		return 4096
	}
	return 512
}

// rawWriter is [nonBlocking] by system calls.
type rawWriter struct {
	dst     io.Writer
	conn    syscall.RawConn
	kind    kind
	attempt func(fd uintptr) bool
	wait    func(fd uintptr)

	buf     []byte // what attempt writes
	n       int    // how much of it was written
	err     error
	poll    [1]unix.PollFd
	timeout int // what wait waits, in milliseconds
	ready   bool
}

// kind is how a descriptor is written without waiting. An inherited standard
// output blocks, and must stay so: O_NONBLOCK would be seen by everyone who
// shares it.
type kind int

const (
	unfit          kind = iota // a regular file, a terminal, a datagram socket
	polled                     // O_NONBLOCK is set, the runtime's poller waits
	noWaitPipe                 // ask for it with each call, if the kernel can do that
	blockingPipe               // ask poll, then write no more than a chunk
	blockingSocket             // ask for it with each call
)

// newNonBlocking returns nil if w is not a pipe or a stream socket.
func newNonBlocking(w io.Writer) nonBlocking {
	sc, ok := w.(syscall.Conn)
	if !ok {
		return nil
	}
	conn, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	r := &rawWriter{dst: w, conn: conn}
	err = conn.Control(func(fd uintptr) { r.kind = inspect(int(fd)) })
	if err != nil || r.kind == unfit {
		return nil
	}
	r.attempt = func(fd uintptr) bool { // made once: a closure per write would be an allocation
		r.n, r.err = r.kind.write(int(fd), r.buf)
		return true
	}
	r.wait = func(fd uintptr) {
		r.poll[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLOUT}
		n, err := unix.Poll(r.poll[:], r.timeout)
		if err == unix.EINTR {
			err = nil
		}
		r.ready, r.err = n > 0, err // an error condition shows in the write that follows
	}
	return r
}

// inspect says how a descriptor can be written.
func inspect(fd int) kind {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return unfit
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return unfit
	}
	free := flags&unix.O_NONBLOCK != 0
	switch uint32(st.Mode) & unix.S_IFMT {
	case unix.S_IFIFO:
		if free {
			return polled
		}
		return noWaitPipe
	case unix.S_IFSOCK:
		t, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
		switch {
		case err != nil || t != unix.SOCK_STREAM:
			return unfit
		case free:
			return polled
		}
		return blockingSocket
	}
	return unfit
}

// try writes as much of b as the peer has room for.
func (r *rawWriter) try(b []byte) (int, error) {
	if r.kind == blockingPipe {
		return r.chunks(b, 0)
	}
	return r.write(b)
}

// all writes b and waits for the peer where it must. It ends with an error when dst is closed.
func (r *rawWriter) all(b []byte) error {
	if r.kind == polled {
		n, err := r.dst.Write(b) // waits in the runtime's poller, which closing wakes
		if err == nil && n != len(b) {
			err = io.ErrShortWrite
		}
		return err
	}
	for len(b) > 0 {
		n, err := r.chunks(b, pollFor)
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// chunks writes in pieces that cannot block. It waits at most timeout
// milliseconds for room for each, and may return with part or nothing written.
func (r *rawWriter) chunks(b []byte, timeout int) (n int, err error) {
	for n < len(b) {
		size := len(b)
		if r.kind == blockingPipe {
			size = pipeChunk()
		}
		r.timeout = timeout
		if err := r.conn.Control(r.wait); err != nil {
			return n, err
		}
		if r.err != nil || !r.ready {
			return n, r.err
		}
		m, err := r.write(b[n:min(len(b), n+size)])
		n += m
		if err != nil || m == 0 {
			return n, err
		}
	}
	return n, nil
}

// write calls write(2) once. Having no room is not an error.
func (r *rawWriter) write(b []byte) (int, error) {
	r.buf = b
	err := r.conn.Write(r.attempt)
	r.buf = nil
	if err != nil {
		return 0, err
	}
	if r.kind == noWaitPipe && refused(r.err) {
		r.kind = blockingPipe
		return 0, nil
	}
	return r.n, r.err
}

// refused reports whether a kernel or a sandbox does not let us write to a pipe
// without waiting. No write says any of these otherwise.
func refused(err error) bool {
	for _, no := range []error{unix.EOPNOTSUPP, unix.ENOSYS, unix.EINVAL, unix.EPERM} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

func (k kind) write(fd int, b []byte) (n int, err error) {
	for {
		switch k {
		case noWaitPipe:
			n, err = writeNoWait(fd, b)
		case blockingSocket:
			n, err = unix.SendmsgN(fd, b, nil, nil, unix.MSG_DONTWAIT)
		default:
			n, err = unix.Write(fd, b)
		}
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return 0, nil
		case err != nil:
			return 0, fmt.Errorf("write: %w", err)
		case n <= 0 && len(b) > 0:
			return 0, io.ErrShortWrite
		}
		return n, nil
	}
}
