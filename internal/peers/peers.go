// Package peers brings the real MCP servers that the end-to-end tests and the
// demo talk to: published Node programs, and a small server of our own on the
// TypeScript SDK, pinned by a lock file and installed once into the user's cache.
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
)

var (
	//go:embed package.json
	manifest []byte
	//go:embed package-lock.json
	lock []byte
	//go:embed modern.mjs
	modern []byte
)

// bundle is what is installed for the servers.
func bundle() Bundle {
	return Bundle{Name: "peers", Manifest: manifest, Lock: lock, Scripts: map[string][]byte{"modern.mjs": modern}}
}

// Command returns the command line that starts the server, installing it first
// where that was not done yet.
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
	if server == Modern {
		script = filepath.Join(dir, "modern.mjs")
	}
	if _, err := os.Stat(script); err != nil {
		return nil, fmt.Errorf("finding the server %s: %w", server, err)
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
		t.Skipf("the real server %s is not here: %v", server, err)
	default:
		t.Fatalf("the real server %s: %v", server, err)
	}
	return nil
}
