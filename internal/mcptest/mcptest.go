// Package kit is what the tests of hostile peers share, those with hostile servers
// (package hostile) and those with hostile clients (package clients).
package mcptest

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// Patience is how long a test waits before it calls something hung. How quick things
// are is not for tests that share a machine.
const Patience = 30 * time.Second

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
