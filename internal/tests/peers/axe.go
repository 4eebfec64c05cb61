package peers

import (
	"context"
	_ "embed"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

var (
	//go:embed axe/package.json
	axeManifest []byte
	//go:embed axe/package-lock.json
	axeLock []byte
)

// RequireAxe returns the script of axe-core, which looks at a page for what keeps people out, installing it first
// where that was not done yet. Without npm the test is skipped, or fails where REQUIRE_PEERS is set.
func RequireAxe(t testing.TB) string {
	t.Helper()
	dir, err := Install(context.WithoutCancel(t.Context()), Bundle{Name: "axe", Manifest: axeManifest, Lock: axeLock})
	switch {
	case errors.Is(err, ErrNoNode) && os.Getenv("REQUIRE_PEERS") == "":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(script)
}
