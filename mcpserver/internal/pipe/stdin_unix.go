//go:build unix

package pipe

import (
	"io"
	"os"
	"syscall"
)

// StandardInput returns standard input as a file whose reads can be interrupted,
// where it is a pipe or a socket: only the client has the other end, so no
// other process sees that it no longer blocks. A terminal stays as it is.
func StandardInput() io.Reader {
	info, err := os.Stdin.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return os.Stdin
	}
	fd := int(os.Stdin.Fd())
	if err := syscall.SetNonblock(fd, true); err != nil {
		return os.Stdin
	}
	return os.NewFile(uintptr(fd), os.Stdin.Name())
}
