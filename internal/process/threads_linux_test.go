package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Programs that run cost no thread each: the runtime's poller waits for their end.
func TestThreads(t *testing.T) {
	const programs = 50
	before := threads(t)
	var waiting sync.WaitGroup
	defer waiting.Wait() // after all of their inputs are closed
	for range programs {
		p, in := start(t, "read line")
		waiting.Go(func() { p.Wait() })
		defer in.Close()
	}
	for waitingIn(t) < programs {
		runtime.Gosched()
	}
	if more := threads(t) - before; more > programs/4 {
		t.Errorf("%d programs need %d threads", programs, more)
	}
}

// The end of a program can be waited for by a file, until Wait closes it.
func TestExit(t *testing.T) {
	p, in := start(t, "read line; exit 3")
	file, ok := p.Exit().(*os.File)
	if !ok {
		t.Skip("this kernel has no pidfd")
	}
	if err := file.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	raw, err := file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	ended := func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 || err != nil
	}
	if err := raw.Read(ended); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("while it runs: got %v, want that it is not readable", err)
	}
	if err := file.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	in.Close()
	if err := raw.Read(ended); err != nil {
		t.Error(err)
	}
	if got := p.Wait().String(); got != "exit status 3" {
		t.Errorf("Wait: got %q", got)
	}
	if file.SetReadDeadline(time.Time{}) == nil {
		t.Error("after Wait: the file is still open")
	}
}

func threads(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^Threads:\s+(\d+)$`).FindSubmatch(status)
	if m == nil {
		t.Fatalf("no number of threads in %s", status)
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

var parked = regexp.MustCompile(`^goroutine \d+ .*\[(IO wait|syscall)`)

// waitingIn counts the goroutines that are parked or in a system call in Wait.
func waitingIn(t *testing.T) (n int) {
	t.Helper()
	if t.Context().Err() != nil {
		t.Fatal(fmt.Errorf("not all wait: %w", t.Context().Err()))
	}
	buf := make([]byte, 1<<20)
	for g := range bytes.SplitSeq(buf[:runtime.Stack(buf, true)], []byte("\n\n")) {
		if parked.Match(g) && bytes.Contains(g, []byte("process.(*Process).Wait(")) {
			n++
		}
	}
	return n
}
