//go:build unix

package main

import (
	"os"
	"runtime"
	"syscall"
)

// peakMemory is the most that an ended process had resident, in bytes.
func peakMemory(s *os.ProcessState) int64 {
	usage, ok := s.SysUsage().(*syscall.Rusage)
	switch {
	case !ok:
		return 0
	case runtime.GOOS == "darwin" || runtime.GOOS == "ios":
		return usage.Maxrss
	}
	return usage.Maxrss << 10
}
