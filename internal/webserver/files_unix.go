//go:build unix

package webserver

import "syscall"

// openFiles is how many files the process may have open; 0 if that is not known.
func openFiles() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), 1<<30))
}
