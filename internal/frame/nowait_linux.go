package frame

import "golang.org/x/sys/unix"

// writeNoWait writes what a pipe has room for, also if its descriptor blocks.
// Linux 6.4 and later can do that.
func writeNoWait(fd int, b []byte) (int, error) {
	return unix.Pwritev2(fd, [][]byte{b}, -1, unix.RWF_NOWAIT)
}
