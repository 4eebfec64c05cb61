package process

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"testing"
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
