package owner

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// self identifies this process; the place is empty if the system does not say enough.
var self = sync.OnceValue(func() process {
	// With the /proc of another PID namespace a number there is not the process that it is here.
	if shown, err := os.Readlink("/proc/self"); err != nil || shown != strconv.Itoa(os.Getpid()) {
		return process{}
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || len(bytes.TrimSpace(boot)) == 0 {
		return process{}
	}
	pids, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return process{}
	}
	times, _ := os.Readlink("/proc/self/ns/time") // old kernels have none: start times are shown with its offset
	stat, ok := statOf(os.Getpid())
	if !ok {
		return process{}
	}
	sum := sha256.Sum256([]byte(string(bytes.TrimSpace(boot)) + "\n" + pids + "\n" + times))
	return process{place: hex.EncodeToString(sum[:placeLen/2]), pid: os.Getpid(), start: stat.start}
})

// lives reports whether a process of this place may still do something.
func lives(p process) bool {
	// /proc can hide the processes of other users, and kill cannot.
	if errors.Is(syscall.Kill(p.pid, 0), syscall.ESRCH) {
		return false
	}
	stat, ok := statOf(p.pid)
	return !ok || stat.start == p.start && !stat.over
}

// status is what the system says of a process.
type status struct {
	start uint64
	over  bool // it has ended, and its parent has not asked for its exit code yet
}

// statOf reads the status of a process, see proc_pid_stat(5).
func statOf(pid int) (s status, ok bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return s, false
	}
	return parseStat(data)
}

// parseStat reads the fields behind the name, which may have spaces and parentheses: the first is the state, field 3.
func parseStat(data []byte) (s status, ok bool) {
	const state, threads, start = 0, 20 - 3, 22 - 3 // in proc(5) the state is the third field
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) <= start {
		return s, false
	}
	if s.start, ok = number(fields[start]); !ok {
		return s, false
	}
	// The first thread of a process can end before the others.
	left, ok := number(fields[threads])
	s.over = (fields[state][0] == 'Z' || fields[state][0] == 'X') && left <= 1
	return s, ok
}

func number(field []byte) (uint64, bool) {
	n, err := strconv.ParseUint(string(field), 10, 64)
	return n, err == nil
}
