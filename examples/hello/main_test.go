package main

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// TestMain lets the test's own program be main, and the npx that it starts.
func TestMain(m *testing.M) {
	switch {
	case filepath.Base(os.Args[0]) == "npx":
		serve()
	case os.Getenv("BE_MAIN") != "":
		main()
	default:
		os.Exit(m.Run())
	}
}

// serve is what takes the place of the published server.
func serve() {
	s, err := mcpserver.New(mcp.Implementation{Name: "files", Version: "1.0.0"}, nil)
	if err == nil {
		err = mcpserver.AddFunc(s, &mcp.Tool{Name: "list_directory"}, func(context.Context, struct{}) (string, error) { return "main.go", nil })
	}
	if err == nil {
		err = s.ServeStdio(context.Background())
	}
	if err != nil {
		os.Exit(1)
	}
}

// The program of the README, as it is, with Ollama and npx played by this test.
func TestMainProgram(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it starts a link to itself as npx, which is a script on Windows")
	}
	script := llmtest.NewServer(llmtest.Say("main.go is the largest."))
	ollama := httptest.NewServer(script)
	defer ollama.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "npx")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), "BE_MAIN=1", "OLLAMA_HOST="+ollama.URL, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "main.go is the largest.\n" {
		t.Errorf("got %q and %v", out, err)
	}
	var tools []string
	for _, chat := range script.Chats() {
		for _, tool := range chat.Request.Tools {
			tools = append(tools, tool.Name)
		}
	}
	if got := strings.Join(tools, " "); !strings.HasSuffix(got, "__list_directory") {
		t.Errorf("the model was offered %q, want the server's tool", got)
	}
}
