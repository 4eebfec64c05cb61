package benchmarks

import (
	"time"

	"golang.org/x/sys/unix"
)

// processCPU returns the CPU time that process pid has used, user and system.
func processCPU(pid int) (time.Duration, error) {
	// CLOCK_SCHED of another process, as clock_getcpuclockid(3) makes it.
	id := int32(^pid)<<3 | 2
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0, err
	}
	return time.Duration(ts.Nano()), nil
}
