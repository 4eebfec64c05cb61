package mcpclient

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
