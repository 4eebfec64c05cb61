package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// The commands of the guide to workers work as they stand, one after the other: workers
// that do not end by themselves run in the background.
func TestWorkerGuide(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "worker.md"))
	if err != nil {
		t.Fatal(err)
	}
	guide := string(text)
	shell, files, lines := blocks(guide, "sh"), blocks(guide, "yaml"), blocks(guide, "json")
	if len(shell) != 8 || len(files) != 2 || len(lines) != 2 {
		t.Fatalf("the guide has %d blocks of shell, %d of YAML and %d of JSON, want 8, 2 and 2", len(shell), len(files), len(lines))
	}
	if !json.Valid([]byte(lines[1])) {
		t.Errorf("the webhook of a question: %s", lines[1])
	}
	own := files[1] + files[0] // the rules of what is kept are a section of it
	if _, err := config.Parse(config.FileName, []byte(own), false); err != nil {
		t.Errorf("the configuration file: %v", err)
	}
	address := freeAddress(t)
	_, err = exec.LookPath("curl")
	script := workerScript(strings.ReplaceAll(strings.Join(shell, ""), "127.0.0.1:8090", address), address, err == nil)
	script += "-- own.yaml --\n" + own + "-- jobs.ndjson --\n" + lines[0]
	path := filepath.Join(t.TempDir(), "guide.txtar")
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	turns := []llmtest.Turn{llmtest.Say("Red, green, blue.")} // the first job
	turns = append(turns, llmtest.Call("filesystem__append", `{"text":"red"}`))
	for range 8 {
		turns = append(turns, llmtest.Say("Red, green, blue."))
	}
	srv := httptest.NewServer(llmtest.NewServer(turns...))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	testscript.Run(t, testscript.Params{
		Files: []string{path},
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, ".home")
			for name, value := range map[string]string{"HOME": home, "XDG_STATE_HOME": filepath.Join(home, "state"), "OLLAMA_HOST": nowhere,
				"OPENAI_BASE_URL": srv.URL, "TROUPE_MODEL": "openai/scripted", "TROUPE_HOOK_SECRET": "a secret of enough bytes", "GORACE": "atexit_sleep_ms=0"} {
				e.Setenv(name, value)
			}
			// The guide has people notified by a program of desktops.
			programs := filepath.Join(e.WorkDir, ".programs")
			e.Setenv("PATH", programs+string(filepath.ListSeparator)+e.Getenv("PATH"))
			if err := os.Mkdir(programs, 0o700); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(programs, "notify-send"), []byte("#!/bin/sh\n"), 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"until": until, "ready": ready},
	})
}

// workerScript makes a script of the guide's commands. The queue of the first worker is
// left alone while the job is added that asks: else another could answer in its place.
func workerScript(commands, address string, curl bool) string {
	var script, files strings.Builder
	script.WriteString("mkdir .home/.config/troupe\ncp own.yaml .home/.config/troupe/troupe.yaml\n")
	background := ""
	for i, command := range strings.Split(strings.TrimSpace(commands), "\n") {
		command = standIns.Replace(command)
		name := fmt.Sprintf("line%d.sh", i)
		fmt.Fprintf(&files, "-- %s --\n%s\n", name, "exec "+command)
		switch {
		case strings.HasPrefix(command, "export "):
			fmt.Fprintf(&script, "env %s\n", strings.TrimPrefix(command, "export "))
		case strings.HasPrefix(command, "curl ") && !curl:
		case strings.HasPrefix(command, "curl "):
			fmt.Fprintf(&files, "-- curl%d.sh --\n%s\n", i, command)
			fmt.Fprintf(&script, "exec sh curl%d.sh\n", i)
		case strings.HasPrefix(command, "troupe worker") && !strings.Contains(command, "--stdin"):
			if background != "" {
				fmt.Fprintf(&script, "kill -INT %s\nwait %[1]s\n", background)
			}
			background = fmt.Sprintf("worker%d", i)
			fmt.Fprintf(&script, "exec sh %s &%s&\n", name, background)
			if strings.Contains(command, "--http") {
				fmt.Fprintf(&script, "ready %s\n", address)
			}
		case command == "troupe inbox":
			fmt.Fprintf(&script, "until pending troupe inbox\nexec sh %s\n", name)
		default:
			fmt.Fprintf(&script, "exec sh %s\n", name)
		}
		switch {
		case strings.Contains(command, "--wait"):
			script.WriteString("stdout '^Red, green, blue.$'\n")
		case strings.Contains(command, "inbox show"):
			script.WriteString("stdout 'filesystem__append'\n")
		case strings.Contains(command, "runs tail"):
			script.WriteString("stdout 'run.finished'\nexists lines.txt\n")
		case strings.Contains(command, "--stdin"):
			script.WriteString("grep '\"line\":1,.*\"state\":\"done\"' results.ndjson\ngrep '\"line\":2,.*\"state\":\"done\"' results.ndjson\n")
		case strings.Contains(command, "wait=30s") && curl:
			script.WriteString("stdout '\"state\":\"done\"'\n")
		case strings.Contains(command, "troupe tree"):
			script.WriteString("stdout '^worker, process '\n")
		}
	}
	fmt.Fprintf(&script, "kill -INT %s\nwait %[1]s\n", background)
	return script.String() + files.String()
}

// until is "until TEXT COMMAND...": it runs a command until its stdout has the text.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until TEXT COMMAND...")
	}
	for end := time.Now().Add(30 * time.Second); ; {
		ts.Check(ts.Exec(args[1], args[2:]...))
		if strings.Contains(ts.ReadFile("stdout"), args[0]) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%q did not say %q", args[1:], args[0])
		}
	}
}

// ready is "ready ADDRESS": it waits until the worker there takes jobs.
func ready(ts *testscript.TestScript, neg bool, args []string) {
	awaitAddress(ts, neg, args, "takes jobs", func(address string) bool {
		res, err := http.Get("http://" + address + "/readyz")
		if err == nil {
			_ = res.Body.Close()
		}
		return err == nil && res.StatusCode == http.StatusOK
	})
}

// listens is "listens ADDRESS": it waits until a program does.
func listens(ts *testscript.TestScript, neg bool, args []string) {
	awaitAddress(ts, neg, args, "listens", func(address string) bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

// awaitAddress waits until a program at the one address that a command has is so.
func awaitAddress(ts *testscript.TestScript, neg bool, args []string, what string, is func(address string) bool) {
	if neg || len(args) != 1 {
		ts.Fatalf("want one ADDRESS")
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); !is(args[0]); <-tick.C {
		if time.Now().After(end) {
			ts.Fatalf("no program %s at %s", what, args[0])
		}
	}
}
