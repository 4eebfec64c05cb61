package hostile

import (
	"context"
	"errors"
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
	"github.com/troupe-dev/troupe/mcpclient"
)

// peerVariable makes the test binary a server on stdin and stdout: its value is the
// name of a script, a revision and, if it is to listen, how.
const peerVariable = "TROUPE_HOSTILE_PEER"

func TestMain(m *testing.M) {
	if peer := os.Getenv(peerVariable); peer != "" {
		servePeer(strings.Split(peer, " "))
		os.Exit(0)
	}
	if file := os.Getenv(hostVariable); file != "" {
		runHost(file)
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f != nil && f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = f.Value.Set("16") // the tests wait more than they work
	}
	os.Exit(m.Run())
}

// patience is how long a test waits before it calls something hung. How quick things are
// is not for tests that share a machine.
const patience = 30 * time.Second

// quiet drops logs: hostile servers cause many.
func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// newSystem returns a system that must be empty when the test ends.
func newSystem(t testing.TB) *actors.System {
	t.Helper()
	sys, err := actors.NewSystem(&actors.Options{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
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

// dial connects to a server for the length of the test.
func dial(t testing.TB, s mcpclient.Server, opts *mcpclient.Options) *mcpclient.Client {
	t.Helper()
	var o mcpclient.Options
	if opts != nil {
		o = *opts
	}
	if o.System == nil {
		o.System = newSystem(t)
	}
	o.Logger = quiet()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := mcpclient.Dial(ctx, s, &o)
	if err != nil {
		t.Fatalf("Dial(%s): %v", s.Name, err)
	}
	t.Cleanup(func() { closeSoon(t, c.Close) })
	return c
}

// newHost starts a host for the length of the test.
func newHost(t testing.TB, servers []mcpclient.Server, opts *mcpclient.HostOptions) *mcpclient.Host {
	t.Helper()
	var o mcpclient.HostOptions
	if opts != nil {
		o = *opts
	}
	o.Logger = quiet()
	h, err := mcpclient.NewHost(newSystem(t), servers, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeSoon(t, h.Close) })
	return h
}

// closeBound is what a Close may take at most: it has bounds of its own, far below.
const closeBound = patience

// closeSoon closes, within the bound (ROB-7).
func closeSoon(t testing.TB, end func() error) {
	t.Helper()
	begin := time.Now()
	if err := end(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v", err)
	}
	if took := time.Since(begin); took > closeBound {
		t.Errorf("Close took %v, want %v at most", took, closeBound)
	}
}

// text calls a tool within d and returns its text.
func text(t testing.TB, c *mcpclient.Client, tool string, d time.Duration) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	res, err := c.CallTool(ctx, tool, nil, nil)
	if err != nil {
		return "", err
	}
	return res.Content.Text(), nil
}

// eventually waits for something that need not be quick.
func eventually(t testing.TB, d time.Duration, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("after %v: still not %s", d, what)
			return
		}
	}
}

// goroutinesBack fails unless the goroutines are as few as before, give or take what
// the libraries keep.
func goroutinesBack(t testing.TB, before int) {
	t.Helper()
	const spare = 8
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		n, stacks := goroutines()
		if n <= before+spare {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before:\n%.20000s", n, before, stacks)
		}
	}
}

// goroutines counts them without the idle workers of the actors, which end by
// themselves; what a worker does is in the census.
func goroutines() (n int, stacks string) {
	buf := make([]byte, 16<<20)
	all := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	all = slices.DeleteFunc(all, func(g string) bool {
		return strings.Contains(g, "created by github.com/troupe-dev/troupe/actors.(*workers)")
	})
	return len(all), strings.Join(all, "\n\n")
}
