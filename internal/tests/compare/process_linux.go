package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the CPU time that process pid has used, user and system.
func cpuTime(pid int) (time.Duration, error) {
	// CLOCK_SCHED of another process, as clock_getcpuclockid(3) makes it.
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|2, &ts); err != nil {
		return 0, fmt.Errorf("reading the CPU time of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// residentBytes returns what of process pid is in memory.
func residentBytes(pid int) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(data, []byte("VmRSS:"))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0, fmt.Errorf("process %d has no VmRSS", pid)
	}
	kib, err := strconv.ParseFloat(string(fields[0]), 64)
	return kib * 1024, err
}

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
