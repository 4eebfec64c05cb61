package clients

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/mcptest"
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
	mcptest.Run(m, 8) // the tests wait more than they work
}

// answerBound is how soon the next good message is answered (ROB-2).
const answerBound = mcptest.Patience

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
	sys := mcptest.NewSystem(t)
	o := mcpserver.Options{}
	if opts != nil {
		o = *opts
	}
	o.System, o.Logger = sys, mcptest.Quiet()
	p, err := newProgram(&o)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(p.handler())
	web.Config.ErrorLog = slog.NewLogLogger(mcptest.Quiet().Handler(), slog.LevelError)
	web.Start()
	t.Cleanup(func() {
		if err := p.server.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		web.CloseClientConnections()
		web.Close()
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
