package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheck: a fault in a file or a test of one system only is found there, once, and nowhere else.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":               "module github.com/troupe-dev/troupe/example\n\ngo 1.26\n",
		"some.go":              "package example\n\nimport \"net/http\"\n\nvar Client = &http.Client{}\n",
		"some_windows.go":      "package example\n\nvar number int = \"text\"\n",
		"some_test.go":         "package example\n\nimport \"testing\"\n\nfunc Test(t *testing.T) { _ = Client }\n",
		"outer_darwin_test.go": "package example_test\n\nfunc f() { missing() }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for system, want := range map[string]string{
		"linux/amd64":   "",
		"windows/amd64": "some_windows.go:3:18: cannot use",
		"darwin/arm64":  "outer_darwin_test.go:3:12: undefined: missing",
		"windows":       "not one like",
		"linux/none":    "not one like",
	} {
		err := check(t.Context(), dir, system, []string{"./..."})
		switch {
		case want == "":
			if err != nil {
				t.Errorf("%s: %v", system, err)
			}
		case err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n"):
			t.Errorf("%s: got %v, want %q", system, err, want)
		}
	}
}
