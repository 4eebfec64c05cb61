package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// rig is one connection to server-everything, for the features one after the other.
type rig struct {
	ctx    context.Context
	client *mcpclient.Client
	info   *mcpclient.Info
	person *Person
	root   mcp.Root

	logs      chan mcp.LogParams
	resources chan struct{} // the list has changed
}

// is reports whether the revision is v or later.
func (r *rig) is(v mcp.Version) bool { return r.info.Version >= v }

// call calls a tool that must not fail.
func (r *rig) call(t *testing.T, tool, args string, opts *mcpclient.CallOptions) *mcp.CallToolResult {
	t.Helper()
	res, err := r.client.CallTool(r.ctx, tool, json.RawMessage(args), opts)
	if err != nil {
		t.Fatalf("CallTool(%s, %s): %v", tool, args, err)
	}
	if res.IsError {
		t.Fatalf("CallTool(%s, %s): it failed: %s", tool, args, res.Content.Text())
	}
	return res
}

// lacks checks that a tool is not offered in a revision that has no word for what it
// asks of us.
func (r *rig) lacks(t *testing.T, tool string) {
	t.Helper()
	tools, err := r.client.ListTools(r.ctx)
	if err != nil {
		t.Fatalf("ListTools: %v", err)
	}
	for _, have := range tools {
		if have.Name == tool {
			t.Errorf("%s is offered in %s", tool, r.info.Version)
		}
	}
}

// everywhere are the transports of server-everything.
var everywhere = []struct {
	name string
	dial func(t *testing.T) mcpclient.Server
}{
	{"stdio", func(t *testing.T) mcpclient.Server {
		line := peers.Require(t, peers.Everything)
		return mcpclient.Command(line[0], line[1:]...)
	}},
	{"http", func(t *testing.T) mcpclient.Server {
		return mcpclient.Server{URL: peers.Listen(t, peers.Everything, peers.StreamableHTTP).URL, Transport: mcpclient.TransportHTTP}
	}},
	{"sse", func(t *testing.T) mcpclient.Server {
		return mcpclient.Server{URL: peers.Listen(t, peers.Everything, peers.SSE).URL, Transport: mcpclient.TransportSSE}
	}},
}

// features are what server-everything has, each with its test. Those that a revision
// lacks are tested for their absence there.
var features = []struct {
	name string
	run  func(t *testing.T, r *rig)
}{
	{"handshake", handshake},
	{"tools", tools},
	{"contents", contents},
	{"structured output", structured},
	{"resource links", resourceLinks},
	{"resources", resources},
	{"changed list", changedList},
	{"prompts", prompts},
	{"completions", completions},
	{"progress", progress},
	{"logging", logging},
	{"subscriptions", subscriptions},
	{"roots", roots},
	{"sampling", sampling},
	{"form", formElicitation},
	{"page", urlElicitation},
	{"page required", urlRequired},
	{"no tasks", noTasks},
	{"cancel", cancel}, // last: the server may still ask on behalf of what was given up
}

// TestMain lets more tests run at once than there are processors: they wait for the
// servers, which take seconds for some things by design.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// TestEverything: server-everything over each transport, in each revision, and over
// each transport what takes the server longer.
func TestEverything(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real MCP servers")
	}
	t.Parallel()
	for _, w := range everywhere {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			server := w.dial(t)
			server.Name = "everything"
			for _, v := range mcp.LegacyVersions() {
				server.Protocol = string(v)
				run(t, string(v), server, func(t *testing.T, r *rig) {
					for _, f := range features {
						t.Run(f.name, func(t *testing.T) { f.run(t, r) })
					}
				})
			}
			server.Protocol = string(mcp.V2025_11_25)
			t.Run("found out", func(t *testing.T) {
				t.Parallel()
				foundOut(t, server)
			})
			run(t, "tasks", server, tasks)
			run(t, "two persons", server, twoPersons)
		})
	}
}

// foundOut: with nothing pinned, the transport and the newest common revision are
// found out (ERA-03, SSE-10).
func foundOut(t *testing.T, server mcpclient.Server) {
	server.Protocol, server.Transport = mcpclient.ProtocolAuto, mcpclient.TransportAuto
	ctx, client := Connect(t, server, nil)
	info, err := client.Info(ctx)
	if err != nil || info.Version != mcp.V2025_11_25 || info.Era != mcp.EraLegacy {
		t.Fatalf("Info: got %+v, %v, want 2025-11-25", info, err)
	}
	if res, err := client.CallTool(ctx, "echo", json.RawMessage(`{"message":"hello"}`), nil); err != nil || res.Content.Text() != "Echo: hello" {
		t.Errorf("echo: got %+v, %v", res, err)
	}
}

// run runs f at the same time as others, with a connection of its own.
func run(t *testing.T, name string, server mcpclient.Server, f func(t *testing.T, r *rig)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		f(t, newRig(t, server))
	})
}

func newRig(t *testing.T, server mcpclient.Server) *rig {
	t.Helper()
	r := &rig{
		root: Root(t), logs: make(chan mcp.LogParams, 100), resources: make(chan struct{}, 10),
		person: &Person{Says: "Paris", Fills: map[string]json.RawMessage{"name": Quote("Ada"), "check": json.RawMessage("true"), "interpretation": Quote("historical")}},
	}
	opts := Offering(r.person, r.root)
	opts.OnLog = func(_ string, p mcp.LogParams) { r.logs <- p }
	opts.OnResourcesChanged = func() {
		select {
		case r.resources <- struct{}{}:
		default:
		}
	}
	r.ctx, r.client = Connect(t, server, opts)
	info, err := r.client.Info(r.ctx)
	if err != nil {
		t.Fatalf("Info: %v", err)
	}
	r.info = info
	return r
}
