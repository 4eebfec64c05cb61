package clients

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(childVariable); mode != "" {
		os.Exit(runChild(mode))
	}
	if url := os.Getenv(clientVariable); url != "" {
		runClient(url)
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f != nil && f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = f.Value.Set("8") // the tests wait more than they work
	}
	os.Exit(m.Run())
}

const (
	// patience bounds what must come, but need not be quick.
	patience = 30 * time.Second
	// answerBound is how soon the next good message is answered (ROB-2).
	answerBound = patience
)

// fewer is n, or a tenth of it under the race detector.
func fewer(n int) int {
	if raceEnabled {
		return max(1, n/10)
	}
	return n
}

// quiet drops logs: hostile clients cause many.
func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// target is the server that is attacked, in this process.
type target struct {
	*program
	sys *actors.System
	url string // of the server; its endpoints are /mcp and /sse
}

// newTarget starts a server for the length of the test. It must have left nothing when
// the test ends.
func newTarget(t testing.TB, opts *mcpserver.Options) *target {
	t.Helper()
	sys, err := actors.NewSystem(&actors.Options{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	o := mcpserver.Options{}
	if opts != nil {
		o = *opts
	}
	o.System, o.Logger = sys, quiet()
	p, err := newProgram(&o)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(p.handler())
	web.Config.ErrorLog = slog.NewLogLogger(quiet().Handler(), slog.LevelError)
	web.Start()
	t.Cleanup(func() {
		if err := p.server.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		web.CloseClientConnections()
		web.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := sys.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if census := sys.Census(); census.Live() != 0 || len(census.Tasks) != 0 {
			t.Errorf("left: actors %+v, tasks %v", census.Actors, census.Tasks)
		}
	})
	return &target{program: p, sys: sys, url: web.URL}
}

// byHeader takes the header X-User for who it says, as a proxy would that has checked it.
func byHeader(r *http.Request) (*mcpserver.Principal, error) {
	switch user := r.Header.Get("X-User"); user {
	case "":
		return nil, nil
	case "panic":
		panic("who is that?")
	case "nobody":
		return nil, &mcpserver.AuthError{}
	default:
		return &mcpserver.Principal{ID: user}, nil
	}
}

// surface is one way to reach a server.
type surface struct {
	way     string // stdio, web, sse or memory
	version mcp.Version
}

func (s surface) String() string { return s.way + "/" + string(s.version) }

func (s surface) modern() bool { return s.version.Era() == mcp.EraModern }

// surfaces are all there are: each way, and the eras and revisions that differ there.
var surfaces = []surface{
	{"stdio", mcp.V2025_03_26}, {"stdio", mcp.V2025_11_25}, {"stdio", mcp.V2026_07_28},
	{"web", mcp.V2025_03_26}, {"web", mcp.V2025_11_25}, {"web", mcp.V2026_07_28},
	{"sse", mcp.V2024_11_05},
	{"memory", mcp.V2025_11_25}, {"memory", mcp.V2026_07_28},
}

// everywhere runs f on each surface of a server. That of stdio is a process of its own.
func everywhere(t *testing.T, opts *mcpserver.Options, f func(t *testing.T, s surface, to *target)) {
	t.Helper()
	for _, s := range surfaces {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			var to *target
			if s.way != "stdio" {
				to = newTarget(t, opts)
			}
			f(t, s, to)
		})
	}
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
