// Package peers brings the real MCP servers that the end-to-end tests and the
// demo talk to: published Node programs, pinned by a lock file and installed
// once into the user's cache.
package peers

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

//go:embed package.json
var manifest []byte

//go:embed package-lock.json
var lock []byte

// ErrNoNode says that Node is not here and how to get it.
var ErrNoNode = errors.New("node and npm are missing: install Node 20 or newer (Debian: apt-get install nodejs npm)")

// The servers. All speak over stdio.
const (
	Everything = "everything" // one of each feature, to test hosts with
	Filesystem = "filesystem" // files below the folders named as arguments
	Memory     = "memory"     // a knowledge graph in the file of MEMORY_FILE_PATH
)

// Command returns the command line that starts the server, installing it first
// where that was not done yet.
func Command(ctx context.Context, server string, args ...string) ([]string, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, ErrNoNode
	}
	dir, err := install(ctx)
	if err != nil {
		return nil, err
	}
	script := filepath.Join(dir, "node_modules", "@modelcontextprotocol", "server-"+server, "dist", "index.js")
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

// installTime bounds one installation.
const installTime = 5 * time.Minute

// install returns the folder that holds node_modules. It is made under another
// name and then renamed, so that it is whole or not there.
func install(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w", err)
	}
	sum := sha256.Sum256(lock)
	dir := filepath.Join(cache, "troupe", "peers-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", ErrNoNode
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", fmt.Errorf("making the cache folder: %w", err)
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "installing-")
	if err != nil {
		return "", fmt.Errorf("making the cache folder: %w", err)
	}
	defer os.RemoveAll(work)
	for name, data := range map[string][]byte{"package.json": manifest, "package-lock.json": lock} {
		if err := os.WriteFile(filepath.Join(work, name), data, 0o600); err != nil {
			return "", fmt.Errorf("writing the lock file: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, installTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = work
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("npm ci: %w\n%s", err, out.Bytes())
	}
	if err := os.Rename(work, dir); err != nil {
		if _, there := os.Stat(dir); there == nil {
			return dir, nil // somebody else was quicker
		}
		return "", fmt.Errorf("moving the servers into the cache: %w", err)
	}
	return dir, nil
}
