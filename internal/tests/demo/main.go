// Command demo is "make demo": it builds troupe and two example servers, lets an agent
// do a small job on the files of this repository with their tools, and prints the
// run's journal. A script plays the model. With -m a real one does the job: it may cost
// money, and a person is asked before its calls.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/tests"
	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

func main() {
	model := flag.String("m", "", "use the real `MODEL` in place of the script, such as ollama/qwen3:8b")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := demo(ctx, *model); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

const prompt = "Find the largest Go files of this repository and what go.mod says the module is called. " +
	"Keep a note of it in the notebook, then tell me in one sentence."

func demo(ctx context.Context, real string) error {
	root, err := tests.Root(ctx)
	if err != nil {
		return err
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "troupe-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	say("Building troupe and the example servers")
	if err := show(ctx, nil, "go", "build", "-o", dir+string(filepath.Separator), "./cmd/troupe", "./examples/files", "./examples/notebook"); err != nil {
		return err
	}
	env, args, err := choose(real)
	if err != nil {
		return err
	}
	db, err := freshStore()
	if err != nil {
		return err
	}
	args = append([]string{"run", "--store", db, "--timeout", "10m"}, args...)
	args = append(args, "--mcp", quote(filepath.Join(dir, "files"), "."), "--mcp", quote(filepath.Join(dir, "notebook"), filepath.Join(dir, "notes.db")))
	third, err := peers.Command(ctx, peers.Filesystem, ".")
	switch {
	case err == nil:
		args = append(args, "--mcp", "filesystem="+quote(third...))
	case errors.Is(err, peers.ErrNoNode):
		say("Without @modelcontextprotocol/server-filesystem: " + err.Error())
	default:
		return err
	}

	say("An agent with the tools of real MCP servers")
	troupe := filepath.Join(dir, "troupe")
	if err := show(ctx, env, troupe, append(args, prompt)...); err != nil {
		return err
	}
	say("What the journal kept of it")
	if err := show(ctx, env, troupe, "runs", "show", "last", "--store", db); err != nil {
		return err
	}
	say("To look at it in a browser:\n   " + quote("go", "run", "./cmd/troupe", "console", "--open", "--store", db))
	return nil
}

// freshStore returns where the runs are kept, also after the demo: a file of the user's, without the runs of the
// last demo.
func freshStore() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w", err)
	}
	dir := filepath.Join(cache, "troupe", "demo")
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("removing the runs of the last demo: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making the folder of the demo: %w", err)
	}
	return filepath.Join(dir, "runs.db"), nil
}

// choose returns what troupe needs for a real model, or for a script in the place of one. The script is known, and
// so it is the only one whose calls are allowed beforehand.
func choose(real string) (env, flags []string, err error) {
	if real != "" {
		return nil, []string{"-m", real}, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	server := &http.Server{Handler: llmtest.NewServer(script()...), ReadHeaderTimeout: 10 * time.Second}
	go server.Serve(listener) // ends with the program
	say("A SCRIPT PLAYS THE MODEL. It knows beforehand which tools it will call, so they are allowed (--yes);\n" +
		"   everything else is real. With a real model, which asks before its calls: make demo MODEL=ollama/qwen3:8b")
	return []string{"OPENAI_BASE_URL=http://" + listener.Addr().String(), "OPENAI_API_KEY="}, []string{"-m", "openai/scripted", "--yes"}, nil
}

func say(text string) { fmt.Printf("\n== %s\n", text) }

// show prints a command line and runs it on the demo's own output.
func show(ctx context.Context, env []string, name string, args ...string) error {
	fmt.Printf("$ %s\n", quote(append([]string{filepath.Base(name)}, args...)...))
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if in, err := os.Stdin.Stat(); err == nil && in.Mode()&os.ModeCharDevice != 0 { // a terminal, where questions are answered; of another input troupe would wait for the end
		cmd.Stdin = os.Stdin
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(name), err)
	}
	return nil
}

// quote writes words as a shell, and --mcp, would read them.
func quote(words ...string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w
		if w == "" || strings.ContainsAny(w, " \t\n\"'\\$&|;<>()*?[]{}~`#") {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}
