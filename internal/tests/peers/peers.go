// Package peers brings the MCP servers and clients of others that the end-to-end tests
// and the demo talk to: published Node programs, and small ones of our own on the SDKs
// for TypeScript, pinned by a lock file and installed once into the user's cache.
package peers

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The servers. All speak over stdio; [Everything] and [Modern] over HTTP too, see
// [Listen].
const (
	Everything = "everything" // one of each feature, to test hosts with; up to 2025-11-25
	Filesystem = "filesystem" // files below the folders named as arguments
	Memory     = "memory"     // a knowledge graph in the file of MEMORY_FILE_PATH
	Thinking   = "sequential-thinking"
	Modern     = "modern" // ours, on version 2 of the TypeScript SDK: what is new in 2026-07-28
	// Secured is ours, on the same, and demands tokens: it listens, and [Listen] gives it its
	// configuration in the place of a transport; see secured.mjs.
	Secured = "secured"
)

// Client is a client on either SDK for TypeScript, for the fixture: its arguments are v1
// or v2, a revision, and what to connect to; see client.mjs.
const Client = "client"

// AgentClient is a client on either SDK for TypeScript, for agents behind "troupe serve":
// its arguments are v1 or v2, a revision, old or new for the servers that the agents have,
// and what to connect to; see agent.mjs.
const AgentClient = "agent"

// PairClient is a client on either SDK for TypeScript that is asked at the same time as
// others; see pair.mjs.
const PairClient = "pair"

// ConnectClient is a client on either SDK for TypeScript that needs an account of its user; see
// connect.mjs.
const ConnectClient = "connect"

// LoginClient is a client on either SDK for TypeScript that logs in at a server with the tests
// for its person: its arguments are v1 or v2, a revision, the server, and where browsers are sent
// at the end; see login.mjs.
const LoginClient = "login"

var (
	//go:embed package.json
	manifest []byte
	//go:embed package-lock.json
	lock []byte
	//go:embed modern.mjs
	modern []byte
	//go:embed secured.mjs
	secured []byte
	//go:embed client.mjs
	client []byte
	//go:embed agent.mjs
	agentClient []byte
	//go:embed pair.mjs
	pairClient []byte
	//go:embed connect.mjs
	connectClient []byte
	//go:embed login.mjs
	loginClient []byte
	//go:embed sdks.mjs
	sdks []byte
)

// bundle is what is installed.
func bundle() Bundle {
	return Bundle{Name: "peers", Manifest: manifest, Lock: lock, Scripts: map[string][]byte{
		"modern.mjs": modern, "secured.mjs": secured, "client.mjs": client, "agent.mjs": agentClient, "pair.mjs": pairClient, "connect.mjs": connectClient,
		"login.mjs": loginClient, "sdks.mjs": sdks,
	}}
}

// Command returns the command line that starts the server, or the [Client], installing
// it first where that was not done yet.
func Command(ctx context.Context, server string, args ...string) ([]string, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, ErrNoNode
	}
	dir, err := Install(ctx, bundle())
	if err != nil {
		return nil, err
	}
	script := filepath.Join(dir, "node_modules", "@modelcontextprotocol", "server-"+server, "dist", "index.js")
	switch server {
	case Modern, Secured, Client, AgentClient, PairClient, ConnectClient, LoginClient:
		script = filepath.Join(dir, server+".mjs")
	}
	if _, err := os.Stat(script); err != nil {
		return nil, fmt.Errorf("finding %s: %w", server, err)
	}
	return append([]string{node, script}, args...), nil
}

// Require is [Command] for tests: without Node the test is skipped, or fails
// where REQUIRE_PEERS is set, as it is in CI.
func Require(t testing.TB, server string, args ...string) []string {
	t.Helper()
	cmd, err := Command(t.Context(), server, args...)
	switch {
	case err == nil:
		return cmd
	case errors.Is(err, ErrNoNode) && os.Getenv("REQUIRE_PEERS") == "":
		t.Skipf("%s is not here: %v", server, err)
	default:
		t.Fatalf("%s: %v", server, err)
	}
	return nil
}
