package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// haiku is what the model of the README's transcript writes.
const haiku = "Messages arrive\none after the other, calm\nno lock in the world\n"

// The commands of the README work as they stand, one after the other, and its transcript is
// what they print, but for ids, times and ages. Servers and workers run in the background.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	readme := string(text)
	shell, shown := blocks(readme, "sh"), blocks(readme, "text")
	if len(shell) != 6 || len(shown) != 1 {
		t.Fatalf("the README has %d blocks of shell and %d transcripts, want 6 and 1", len(shell), len(shown))
	}
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "serve.md"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(readme) { // the guide's test runs what is behind the --
		if strings.HasPrefix(line, "    claude mcp add ") && !strings.Contains(string(guide), line) {
			t.Errorf("the guide to serving does not have%s", line)
		}
	}
	address := freeAddress(t)
	path := filepath.Join(t.TempDir(), "readme.txtar")
	if err := os.WriteFile(path, []byte(readmeScript(shell, shown[0], address)), 0o600); err != nil {
		t.Fatal(err)
	}
	model := llmtest.NewServer(
		llmtest.Say("Red, green, blue."), llmtest.Say("Red, green, blue."), llmtest.Say("Red, green, blue."), // run, mcp call, the first job
		llmtest.Call("filesystem__write_file", map[string]any{"path": "haiku.txt", "content": haiku}), llmtest.Say("It is written."),
	)
	model.Models = []string{"qwen3:8b"}
	srv := httptest.NewServer(model)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	testscript.Run(t, testscript.Params{
		Files: []string{path},
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, ".home")
			for name, value := range map[string]string{"HOME": home, "XDG_STATE_HOME": filepath.Join(home, "state"), "OLLAMA_HOST": srv.URL,
				"GORACE": "atexit_sleep_ms=0"} {
				e.Setenv(name, value)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"until": until, "listens": listens, "shows": shows, "written": written},
	})
}

// freeAddress returns a loopback address at which a program of the test can listen. Its port is
// below those that a system picks by itself, so that no other process is given it in between.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))
		if l, err := net.Listen("tcp", address); err == nil {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			return address
		}
	}
	t.Fatal("no port from 20000 to 29999 is free")
	return ""
}

// readmeWants are what commands of the README print, as a script says it.
var readmeWants = []struct{ command, want string }{
	{"troupe run ", "stdout '^Red, green, blue.$'\nstderr '^  filesystem: [0-9]+ tools, MCP 20'\n"},
	{"troupe mcp tools ", "stdout ' everything__ask '\nstdout ' main '\n"},
	{"troupe mcp call ", "stdout '^Red, green, blue.$'\n"},
	{"troupe jobs add --wait ", "stdout '^Red, green, blue.$'\n"},
	{"troupe jobs ls", "stdout ' done '\n"},
	{"troupe bench --mcp ", "stdout '^calls +[0-9]+ in '\n"},
	{"troupe bench agents ", "stdout '^sessions +100 at once'\nstdout '^passed .* 0 failed$'\n"},
}

// readmeScript makes a script of blocks of commands, and of a transcript.
func readmeScript(shell []string, transcript, address string) string {
	var script, files strings.Builder
	background := ""
	end := func() {
		if background != "" {
			fmt.Fprintf(&script, "kill -INT %s\nwait %[1]s\n", background)
			background = ""
		}
	}
	add := func(command, output string, i int) {
		fmt.Fprintf(&files, "-- line%d.sh --\nexec %s\n-- want%d --\n%s", i, command, i, output)
		if strings.HasPrefix(command, "troupe serve") || strings.HasPrefix(command, "troupe worker") {
			end()
			background = fmt.Sprintf("program%d", i)
			fmt.Fprintf(&script, "exec sh line%d.sh &%s&\n", i, background)
			if strings.Contains(command, "--http") {
				fmt.Fprintf(&script, "listens %s\n", address)
			}
			return
		}
		if command == "troupe inbox" {
			script.WriteString("until pending troupe inbox\n")
		}
		if file, found := strings.CutPrefix(command, "cat "); found { // what has just been allowed
			fmt.Fprintf(&script, "written %s\n", file)
		}
		fmt.Fprintf(&script, "exec sh line%d.sh\n", i)
		for _, w := range readmeWants {
			if strings.HasPrefix(command, w.command) {
				script.WriteString(w.want)
			}
		}
		if output != "" {
			fmt.Fprintf(&script, "shows want%d\n", i)
		}
	}
	i := 0
	for _, command := range strings.Split(strings.TrimSpace(strings.Join(shell, "")), "\n") {
		switch command = strings.ReplaceAll(command, "127.0.0.1:8080", address); {
		case strings.HasPrefix(command, "go install "): // this program is it
			continue
		case strings.HasPrefix(command, "troupe bench"):
			command = strings.NewReplacer("npx -y @modelcontextprotocol/server-everything", "troupe bench echo", "20s", "200ms", "3s", "200ms").Replace(command)
		}
		add(standIns.Replace(command), "", i)
		i++
	}
	for _, part := range strings.Split("\n"+transcript, "\n$ ")[1:] {
		command, output, _ := strings.Cut(part+"\n", "\n")
		command, _, _ = strings.Cut(command, " # ")
		command = strings.TrimSuffix(strings.TrimSpace(command), " &")
		command = strings.ReplaceAll(command, "npx -y @modelcontextprotocol/server-filesystem .", "filesystem=scribe")
		add(command, strings.TrimRight(output, "\n")+"\n", i)
		i++
	}
	end()
	return script.String() + files.String()
}

// differs is what differs from one run of a program to the next, and what stands for it.
var differs = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`job-[a-z0-9]+`), "job-X"},
	{regexp.MustCompile(`worker \S+-\d+-\S+`), "worker W"},
	{regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})?(-\d+)*\b`), "ID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?`), "DATE"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`process \d+`), "process N"},
	{regexp.MustCompile(`, \d+[smhd]\b`), ", AGE"},
	{regexp.MustCompile(`\d+ tasks?`), "N tasks"},
	{regexp.MustCompile(` × \d+`), " × N"},
	{regexp.MustCompile(` +`), " "},
}

// shows is "shows FILE": the last command has printed what the file has.
func shows(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: shows FILE")
	}
	got, want := ts.ReadFile("stdout"), ts.ReadFile(args[0])
	for _, d := range differs {
		got, want = d.what.ReplaceAllString(got, d.as), d.what.ReplaceAllString(want, d.as)
	}
	if strings.TrimSpace(got) != strings.TrimSpace(want) {
		ts.Fatalf("the README shows\n%s\nand printed is\n%s", want, got)
	}
}

// written is "written FILE": it waits until the file is there and has a whole line.
func written(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: written FILE")
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); ; <-tick.C {
		if text, err := os.ReadFile(ts.MkAbs(args[0])); err == nil && strings.HasSuffix(string(text), "\n") {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s was not written", args[0])
		}
	}
}

// scribe is a server that writes files, of the revision of the published one.
func scribe() {
	s, err := mcpserver.New(mcp.Implementation{Name: "scribe", Version: "1.0.0"}, &mcpserver.Options{Versions: []mcp.Version{mcp.V2025_11_25}})
	if err == nil {
		err = mcpserver.AddFunc(s, &mcp.Tool{Name: "write_file"}, func(_ context.Context, in struct {
			Path    string `json:"path"`
			Content string `json:"content"`
		}) (string, error) {
			return "written", os.WriteFile(in.Path, []byte(in.Content), 0o600)
		})
	}
	if err == nil {
		err = s.ServeStdio(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
