//go:build unix

package frame

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// newRawRead returns the raw of r, nil if its source is not a pipe or a stream socket that
// the runtime's poller waits for.
func newRawRead(r *Reader) func() (int, error) {
	sc, ok := r.src.(syscall.Conn)
	if !ok {
		return nil
	}
	conn, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	how := unfit
	if conn.Control(func(fd uintptr) { how = inspect(int(fd)) }) != nil || how != polled {
		return nil
	}
	var n int
	attempt := func(fd uintptr) bool { // made once: a closure per read would be an allocation
		r.borrow()
		for {
			if n, err = unix.Read(int(fd), r.buf[r.end:]); err != unix.EINTR {
				break
			}
		}
		if err == unix.EAGAIN {
			r.giveBack()
			return false
		}
		return true
	}
	return func() (int, error) {
		if late := conn.Read(attempt); errors.Is(late, os.ErrDeadlineExceeded) {
			return 0, late
		} else if late != nil {
			r.borrow()
			return r.src.Read(r.buf[r.end:]) // it is closed: the source says it in its own words
		}
		switch {
		case err != nil:
			return 0, fmt.Errorf("read: %w", err)
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}
