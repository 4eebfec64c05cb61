package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// checkFiles refuses what needs more open files than a process may have.
func checkFiles(n int) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if need := uint64(n) + 100; limit.Max < need {
		return fmt.Errorf("%w: it needs %d open files in each of two processes, and the hard limit is %d (ulimit -Hn)", errSkip, need, limit.Max)
	}
	return nil
}
