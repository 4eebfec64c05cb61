package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/mcpclient"
)

// dial connects to the server over a folder with a few files, in process.
func dial(t *testing.T) *mcpclient.Client {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"a.go": "package a\n", "sub/b.go": "package b // needle\n", "c.txt": "", "d.bin": "x\x00y", ".hidden/e.go": "needle"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	s, err := newServer(folder{root})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	client, err := mcpclient.Dial(t.Context(), mcpclient.InProcess("files", s), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func TestTools(t *testing.T) {
	tests := []struct {
		tool, args string
		want       string // in the text
		isError    bool
	}{
		{"list_files", `{}`, `"total":4`, false},
		{"list_files", `{"suffix":".go","sort":"size","limit":1}`, `"path":"sub/b.go"`, false},
		{"list_files", `{"limit":-1}`, `"files":[]`, false},
		{"list_files", `{"limit":"many"}`, `limit`, true},
		{"read_file", `{"path":"sub/b.go"}`, "package b", false},
		{"read_file", `{"path":"c.txt"}`, "empty", false},
		{"read_file", `{"path":"d.bin"}`, "not a text file", true},
		{"read_file", `{"path":"../x"}`, "escapes", true},
		{"read_file", `{"path":"out/etc/passwd"}`, "escapes", true},
		{"read_file", `{"path":"none"}`, "no such file", true},
		{"search_text", `{"text":"needle"}`, "sub/b.go:1: package b // needle", false},
		{"search_text", `{"text":""}`, "say what to look for", true},
	}
	client := dial(t)
	for _, tt := range tests {
		res, err := client.CallTool(t.Context(), tt.tool, json.RawMessage(tt.args), nil)
		if err != nil {
			t.Errorf("%s %s: %v", tt.tool, tt.args, err)
			continue
		}
		if got := res.Content.Text(); !strings.Contains(got, tt.want) || res.IsError != tt.isError {
			t.Errorf("%s %s: got %q, error %v, want %q, %v", tt.tool, tt.args, got, res.IsError, tt.want, tt.isError)
		}
	}
}
