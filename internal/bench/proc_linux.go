package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ownResident returns what of this process is in memory, and the most that ever was.
func ownResident() (now, peak int64) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0
	}
	return kibOf(status, "VmRSS:"), kibOf(status, "VmHWM:")
}

// kibOf reads a field of /proc/PID/status, in bytes.
func kibOf(status []byte, field string) int64 {
	_, rest, _ := bytes.Cut(status, []byte(field))
	words := bytes.Fields(rest[:min(len(rest), 64)])
	if len(words) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(string(words[0]), 10, 64) // zero: unknown
	return n << 10
}

// ownCPU returns the CPU time of this process, user and system.
func ownCPU() time.Duration { return cpuOf(os.Getpid()) }

// cpuOf returns the CPU time that a process has used; 0 where it has gone.
func cpuOf(pid int) time.Duration {
	// CLOCK_SCHED of another process, as clock_getcpuclockid(3) makes it.
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|2, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// ProcessUse returns the CPU time that a process has used, and what of it is in memory, in
// bytes; zero where it has gone.
func ProcessUse(pid int) (cpu time.Duration, resident int64) {
	u := usageOf([]int{pid})
	return u.cpu, u.Resident
}

// usageOf adds up what processes use now; those that have gone count nothing.
func usageOf(pids []int) (u Usage) {
	for _, pid := range pids {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue
		}
		u.Processes++
		u.cpu += cpuOf(pid)
		u.Resident += kibOf(status, "VmRSS:")
		u.Threads += int(kibOf(status, "Threads:") >> 10)
		if files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)); err == nil {
			u.Files += len(files)
		}
	}
	return u
}

// family returns a process and all that it has started, and so on.
func family(pid int) []int {
	children := make(map[int][]int)
	dirs, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	for _, path := range dirs {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has gone
		}
		// pid (name, with any characters) state ppid
		words := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || len(words) < 2 || words[0] == "Z" {
			continue
		}
		if parent, err := strconv.Atoi(words[1]); err == nil {
			children[parent] = append(children[parent], child)
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		for _, child := range children[all[i]] {
			if !slices.Contains(all, child) {
				all = append(all, child)
			}
		}
	}
	return all
}

// descendants returns what this process has started, and they have.
func descendants() []int { return family(os.Getpid())[1:] }

// listener returns the process of this user that listens on a TCP port of this
// machine; 0 if none can be found.
func listener(port int) int {
	inodes := make(map[string]bool)
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		data, _ := os.ReadFile(table) // missing: no such protocol
		for line := range strings.Lines(string(data)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != "0A" { // LISTEN
				continue
			}
			_, hex, _ := strings.Cut(f[1], ":")
			if n, err := strconv.ParseUint(hex, 16, 16); err == nil && int(n) == port {
				inodes["socket:["+f[9]+"]"] = true
			}
		}
	}
	if len(inodes) == 0 {
		return 0
	}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is right
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && inodes[to] {
			if pid, err := strconv.Atoi(strings.Split(link, "/")[2]); err == nil {
				return pid
			}
		}
	}
	return 0
}
