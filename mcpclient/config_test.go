package mcpclient

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

func TestLoadConfig(t *testing.T) {
	t.Setenv("TROUPE_TEST_TOKEN", "s3cret")
	file := filepath.Join(t.TempDir(), ".mcp.json")
	config := `{
		// comments are fine
		"mcpServers": {
			"files": {"command": "npx", "args": ["-y", "files"], "env": {"TOKEN": "${TROUPE_TEST_TOKEN}", "HOME": null}, "timeout": 5000, "instances": 2, "noAsk": true,
				"excludeTools": ["rm"], "trust": true},
			"unset": {"command": "x", "env": {"A": "${TROUPE_TEST_NOT_SET}"}},
			"web": {"url": "https://example.com/mcp", "headers": {"X": "y"}},
			"caged": {"command": "x", "sandbox": true},
			"off": {"command": "x", "disabled": true},
		}
	}`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	servers, err := LoadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]Server{}
	for _, s := range servers {
		byName[s.Name] = s
	}
	files := byName["files"]
	if files.Command != "npx" || *files.Env["TOKEN"] != "s3cret" || files.Env["HOME"] != nil || files.CallTimeout != 5*time.Second || files.Instances != 2 || !files.NoAsk ||
		files.allows("rm") || files.Trusted || files.File != file || files.Hash == "" || files.Dir != filepath.Dir(file) || files.Err != nil {
		t.Errorf("files: got %+v", files)
	}
	if err := byName["unset"].Err; err == nil || !strings.Contains(err.Error(), "TROUPE_TEST_NOT_SET") || !strings.Contains(err.Error(), "unset") {
		t.Errorf("unset: got %v, want an error that names server and variable", err)
	}
	if byName["web"].URL == "" || !errors.Is(byName["caged"].Err, errors.ErrUnsupported) || !byName["off"].Disabled {
		t.Errorf("got %+v", byName)
	}
	if _, err := LoadConfig(file + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: got %v", err)
	}
}

// A host says once what of its configuration is ignored.
func TestHostLogsWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log syncBuilder
		srv := InProcess("s", newWire(mcp.V2025_11_25, nil))
		srv.Warnings = []string{"a.json:1: oauth is not supported"}
		h, err := NewHost(newSystem(t), []Server{srv}, &HostOptions{Options: Options{Logger: logTo(&log)}})
		if err != nil {
			t.Fatal(err)
		}
		defer closeHost(t, h)
		if n := strings.Count(log.String(), "oauth is not supported"); n != 1 || len(h.Servers()[0].Warnings) != 1 {
			t.Errorf("%d log entries, warnings %q", n, h.Servers()[0].Warnings)
		}
	})
}
