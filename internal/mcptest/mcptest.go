// Package mcptest has what tests of several packages share: waiting, counting what is
// left, measuring memory, and requiring what a machine may lack.
package mcptest

import (
	"context"
	"errors"
	"flag"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// Patience is how long a test waits before it calls something hung. How quick things
// are is not for tests that share a machine.
const Patience = 2 * time.Minute

// Run runs the tests of a package, n at a time unless the command line says otherwise:
// they wait more than they work. It does not return.
func Run(m *testing.M, n int) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f != nil && f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = f.Value.Set(strconv.Itoa(n))
	}
	os.Exit(m.Run())
}

// Fewer is n, or a tenth of it under the race detector.
func Fewer(n int) int {
	if Race {
		return max(1, n/10)
	}
	return n
}

// Quiet drops logs: hostile peers cause many.
func Quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// NewSystem returns a system that must be empty when the test ends.
func NewSystem(t testing.TB) *actors.System {
	t.Helper()
	sys, err := actors.NewSystem(&actors.Options{Logger: Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		if err := sys.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if census := sys.Census(); census.Live() != 0 || len(census.Tasks) != 0 {
			t.Errorf("left: actors %+v, tasks %v", census.Actors, census.Tasks)
		}
	})
	return sys
}

// Eventually waits for something that need not be quick.
func Eventually(t testing.TB, d time.Duration, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("after %v: still not %s", d, what)
			return
		}
	}
}

// GoroutinesBack fails unless the goroutines are as few as before, give or take what
// the libraries keep.
func GoroutinesBack(t testing.TB, before int) {
	t.Helper()
	const spare = 8
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		n, stacks := Goroutines()
		if n <= before+spare {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before:\n%.20000s", n, before, stacks)
		}
	}
}

// Goroutines counts them without the idle workers of the actors, which end by
// themselves; what a worker does is in the census.
func Goroutines() (n int, stacks string) {
	buf := make([]byte, 16<<20)
	all := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	all = slices.DeleteFunc(all, func(g string) bool {
		return strings.Contains(g, "created by github.com/troupe-dev/troupe/actors.(*workers)")
	})
	return len(all), strings.Join(all, "\n\n")
}

// Peak runs f and returns by how many bytes the heap grew meanwhile, garbage included.
// It repeats that twice while the result exceeds bound, and returns the least: on a busy
// machine the collector may be late once, but what f holds shows each time.
func Peak(bound int64, f func()) (grown int64) {
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // keeps the garbage small
	grown = peak(f)
	for repeats := 2; repeats > 0 && grown > bound; repeats-- {
		grown = min(grown, peak(f))
	}
	return grown
}

func peak(f func()) int64 {
	debug.FreeOSMemory()
	before := Heap()
	stop, most := make(chan struct{}), make(chan int64)
	go func() {
		for top := before; ; {
			top = max(top, Heap())
			select {
			case <-stop:
				most <- top
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	f()
	close(stop)
	return <-most - before
}

// Heap returns the bytes of all objects, garbage included.
func Heap() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

// Lacks skips a test because this machine lacks what it needs, and fails it where
// REQUIRE_PEERS is set, as it is in CI: there a skipped test would hide a failure. A right that
// the user of the process does not have, such as that to mount, skips it everywhere.
func Lacks(t testing.TB, what string, err error) {
	t.Helper()
	if os.Getenv("REQUIRE_PEERS") != "" && !errors.Is(err, fs.ErrPermission) {
		t.Fatalf("this machine lacks %s: %v", what, err)
	}
	t.Skipf("this machine lacks %s: %v", what, err)
}
