package main

import (
	"fmt"
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

// The published servers that the documentation starts, and those that take their place here.
var standIns = strings.NewReplacer(
	`"npx -y @modelcontextprotocol/server-everything"`, `"everything=sampler"`,
	`"npx -y @modelcontextprotocol/server-filesystem ."`, `"filesystem=effects lines.txt"`,
)

// shown runs commands that a page shows, with Ollama there, a configuration file as the
// user's own, and files of Markdown as agents of the project.
func shown(t *testing.T, own string, agents, commands []string) {
	t.Helper()
	s := llmtest.NewServer(llmtest.Say("Red, green, blue.")).Loop()
	s.Models = []string{"qwen3:8b"}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	var script strings.Builder
	script.WriteString("mkdir .home/.config/troupe\ncp own.yaml .home/.config/troupe/troupe.yaml\n")
	for _, command := range commands {
		if set, rest, found := strings.Cut(command, " "); found && strings.Contains(set, "=") {
			script.WriteString("env " + set + "\n")
			command = rest
		}
		// A script quotes as a shell does, but for double quotes.
		script.WriteString("exec " + strings.ReplaceAll(standIns.Replace(command), `"`, `'`) + "\n")
	}
	for i, text := range agents {
		fmt.Fprintf(&script, "exec troupe config show\nstdout '^agents.shown%d'\n-- .agents/agents/shown%[1]d.md --\n%s", i, text)
	}
	script.WriteString("-- own.yaml --\n" + own)
	path := filepath.Join(t.TempDir(), "shown.txtar")
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
}

// Each command of the guides works as it stands, with the guide's configuration file as the
// user's own. Their Go is looked at by internal/archtest.
func TestGuides(t *testing.T) {
	t.Parallel()
	for page, shells := range map[string]int{"models.md": 5, "sampling.md": 1, "configuration.md": 1, "telemetry.md": 1, "production.md": 0} {
		t.Run(page, func(t *testing.T) {
			guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", page))
			if err != nil {
				t.Fatal(err)
			}
			shell, files := blocks(string(guide), "sh"), blocks(string(guide), "yaml")
			if len(shell) != shells || len(files) != 1 {
				t.Fatalf("the guide has %d blocks of shell and %d files, want %d and 1", len(shell), len(files), shells)
			}
			if _, err := config.Parse(config.FileName, []byte(files[0]), false); err != nil {
				t.Errorf("the configuration file: %v", err)
			}
			if len(shell) == 0 { // what it shows is for a machine with systemd
				return
			}
			shown(t, files[0], blocks(string(guide), "markdown"), strings.Split(strings.TrimSpace(strings.Join(shell, "")), "\n"))
		})
	}
}
