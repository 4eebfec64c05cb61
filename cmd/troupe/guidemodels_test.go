package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// blocks returns the blocks of a language in a text of Markdown.
func blocks(text, language string) []string {
	var found []string
	for _, part := range strings.Split(text, "\n```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "\n```")
		found = append(found, block+"\n")
	}
	return found
}

// TestGuideModels: each shell block of the guide works as it stands, with its configuration
// file as the user's own; and each block of Go is a part of the example it speaks of.
func TestGuideModels(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "models.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(guide)
	shell, files := blocks(text, "sh"), blocks(text, "yaml")
	if len(shell) != 5 || len(files) != 1 {
		t.Fatalf("the guide has %d blocks of shell and %d files, want 5 and 1", len(shell), len(files))
	}
	if _, err := config.Parse(config.FileName, []byte(files[0]), false); err != nil {
		t.Errorf("the configuration file: %v", err)
	}

	s := llmtest.NewServer(llmtest.Say("Red, green, blue.")).Loop()
	s.Models = []string{"qwen3:8b"}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	var script strings.Builder
	script.WriteString("mkdir .home/.config/troupe\ncp own.yaml .home/.config/troupe/troupe.yaml\n")
	for _, block := range shell {
		for line := range strings.Lines(block) {
			script.WriteString("exec " + strings.ReplaceAll(line, `"Name three colours."`, "'Name three colours.'"))
		}
	}
	script.WriteString("-- own.yaml --\n" + files[0])
	path := filepath.Join(t.TempDir(), "guide.txtar")
	if err := os.WriteFile(path, []byte(script.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Files: []string{path},
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, ".home")
			e.Setenv("HOME", home)
			e.Setenv("XDG_STATE_HOME", filepath.Join(home, "state"))
			e.Setenv("OLLAMA_HOST", srv.URL)
			return nil
		},
	})

	example, err := os.ReadFile(filepath.Join("..", "..", "llm", "router", "example_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	flat := func(code string) string { return strings.Join(strings.Fields(code), " ") }
	for _, block := range blocks(text, "go") {
		if !strings.Contains(flat(string(example)), flat(block)) {
			t.Errorf("this is in no example:\n%s", block)
		}
	}
}
