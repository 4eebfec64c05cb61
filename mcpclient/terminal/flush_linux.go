package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// flush drops what was typed and not yet read. Where that fails nothing is dropped:
// a menu takes no empty line for a yes.
func flush(f *os.File) { _ = unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH) }
