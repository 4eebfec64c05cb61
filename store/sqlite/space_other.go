//go:build !unix

package sqlite

import "syscall"

// noSpace is empty: SQLite itself knows a full disk here.
var noSpace []syscall.Errno
