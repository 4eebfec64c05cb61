//go:build unix

package sqlite

import "syscall"

// noSpace are the system's error numbers that mean that there is no room.
var noSpace = []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}
