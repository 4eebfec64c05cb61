//go:build unix && !linux

package frame

import "golang.org/x/sys/unix"

// writeNoWait is for Linux only.
func writeNoWait(int, []byte) (int, error) { return 0, unix.ENOSYS }
