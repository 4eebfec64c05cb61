//go:build !windows

package env

import (
	"os"
)

// openTTY opens the terminal of the process, whatever stdin is.
func openTTY() (*os.File, error) { return os.OpenFile("/dev/tty", os.O_RDWR, 0) }
