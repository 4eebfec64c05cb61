package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// hostile is a way to be a bad server, and what becomes of it.
type hostile struct {
	mode  string
	says  string   // in the error
	code  int      // of "mcp tools" if it has no tools, else of "mcp call"
	lists bool     // it answers tools/list
	env   []string // short limits
}

// Limits that a user sets to have a patient program be quick. They hold for the good
// servers, too, which take their time on a busy machine.
const (
	quickConnect = "MCP_TIMEOUT=6000"
	quickCall    = "MCP_TOOL_TIMEOUT=3000"
)

// SECA-8, SECA-9, SECA-13, SECA-14, ROB-2, ROB-3, ROB-4, ROB-8.
var hostiles = []hostile{
	{mode: "dies", code: env.ExitUnreachable, says: "exit status 7; its last words: cannot open the database"},
	{mode: "garbage", code: env.ExitUnreachable, says: "that are no messages"},
	{mode: "silent", code: env.ExitUnreachable, says: "no connection within 6s", env: []string{quickConnect}},
	{mode: "huge", code: env.ExitUnreachable, says: "more than 16777216 bytes"},
	{mode: "list-deep", code: env.ExitUnreachable, says: "tools/list"},
	{mode: "list-duplicate", code: env.ExitUnreachable, says: "tools/list"},
	{mode: "list-mute", code: env.ExitUnreachable, says: "tools/list", env: []string{quickCall}},
	{mode: "list-large", code: env.ExitUnreachable, says: "more than 16777216 bytes"},
	{mode: "list-quits", code: env.ExitUnreachable, says: "exit status 9"},

	{mode: "twice", lists: true},
	{mode: "stubborn", lists: true},
	{mode: "deep", lists: true, code: env.ExitUnreachable, says: "nest"},
	{mode: "duplicate", lists: true, code: env.ExitUnreachable, says: "duplicate"},
	{mode: "idtype", lists: true, code: env.ExitUnreachable, says: "tools/call", env: []string{quickCall}},
	{mode: "idobject", lists: true, code: env.ExitUnreachable, says: "tools/call", env: []string{quickCall}},
	{mode: "mute", lists: true, code: env.ExitUnreachable, says: "tools/call", env: []string{quickCall}},
	{mode: "large", lists: true, code: env.ExitUnreachable, says: "more than 16777216 bytes"},
	{mode: "quits", lists: true, code: env.ExitUnreachable, says: "exit status 9"},
}

// TestHostileServers gives the commands one bad server each: they say which server it
// is and what is wrong with it, soon, and leave nothing behind.
func TestHostileServers(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for limits")
	}
	t.Parallel()
	usual := newHome(t).run("mcp", "call", "--protocol", "legacy", "--mcp", "fakeserver good", "echo")
	if usual.code != env.ExitOK {
		t.Fatalf("a good server: exited with %d: %s", usual.code, usual.stderr)
	}
	for _, tt := range hostiles {
		t.Run(tt.mode, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			h.env = tt.env
			args := []string{"mcp", "tools", "--protocol", "legacy", "--mcp", "evil=fakeserver " + tt.mode}
			if tt.lists {
				h.must(args...)
				args[1] = "call"
				args = append(args, "echo")
			}
			out := h.run(args...)
			h.noProcessLeft(0)
			if out.code != tt.code {
				t.Errorf("%s: exited with %d, want %d: %s", args[1], out.code, tt.code, out.stderr)
			}
			checkBlame(t, args[1], out.stderr, tt)
			// ROB-3. Where the most memory is known it includes that of this test.
			if more := out.memory - usual.memory; more > 64<<20 && !raceDetector {
				t.Errorf("%s: took %d MiB more than with a good server", args[1], more>>20)
			}
		})
	}
}

// checkBlame holds an error to naming the server and what is wrong, in few words.
func checkBlame(t *testing.T, command, text string, tt hostile) {
	t.Helper()
	if tt.says == "" {
		if text != "" {
			t.Errorf("%s: stderr: got %q, want none", command, text)
		}
		return
	}
	if !strings.Contains(text, "evil") || !strings.Contains(text, tt.says) {
		t.Errorf("%s: stderr: got %q, want it to name the server evil and to say %q", command, text, tt.says)
	}
	if len(text) > 4096 || strings.ContainsAny(text, "\x00\x1b") {
		t.Errorf("%s: stderr: got %d bytes, or control characters: %.300q", command, len(text), text)
	}
}

// TestRunWithHostileServer: a run over one bad and one good server goes on. The
// model is told what is wrong, and the good server's calls work.
func TestRunWithHostileServer(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for limits")
	}
	t.Parallel()
	for _, tt := range hostiles {
		t.Run(tt.mode, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			h.env = tt.env
			calls := llmtest.Call("good__append", `{"text":"one"}`)
			if tt.lists {
				calls = llmtest.Calls(llmtest.Call("evil__echo", `{}`), calls)
			}
			script := llmtest.NewServer(calls, llmtest.Call("good__append", `{"text":"two"}`), resultsOf())
			h.plays("openai", script)
			config := h.config(map[string]any{
				"evil": map[string]any{"command": "fakeserver", "args": []string{tt.mode}},
				"good": map[string]any{"command": "effects", "args": []string{h.path("lines.txt")}},
			})
			out := h.run("run", "--yes", "--on-unknown", "tell", "--protocol", "legacy", "--mcp-config", config, "--run-id", "brave", "Try.")
			h.noProcessLeft(0)
			if out.code != env.ExitOK || !strings.Contains(out.stdout, "appended one") || !strings.Contains(out.stdout, "appended two") {
				t.Fatalf("exited with %d, stdout %q, stderr:\n%s", out.code, out.stdout, out.stderr)
			}
			if data, err := os.ReadFile(h.path("lines.txt")); err != nil || strings.Count(string(data), "\n") != 2 {
				t.Errorf("the effects: got %q, %v, want two lines", data, err)
			}
			switch {
			case !tt.lists:
				checkBlame(t, "run", out.stderr, tt)
			case !strings.Contains(out.stdout, tt.says):
				t.Errorf("the model was told %q, want it to know %q", out.stdout, tt.says)
			case tt.says == "" && !strings.Contains(out.stdout, "hello"):
				t.Errorf("the model was told %q, want the result of the call", out.stdout)
			}
		})
	}
}

// TestRunEndsWithHostileServer: a server that the command line asks for is needed.
// Without an answer from it, --timeout ends the wait too.
func TestRunEndsWithHostileServer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		mode, timeout string
		code          int
		says          string
	}{
		{"dies", "1m", env.ExitUnreachable, "cannot open the database"},
		{"silent", "1s", env.ExitTimeout, "--timeout"},
		{"list-mute", "1s", env.ExitTimeout, "--timeout"},
	}
	for _, tt := range tests {
		t.Run(tt.mode, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			h.plays("openai", llmtest.NewServer(llmtest.Say("never")))
			out := h.run("run", "--protocol", "legacy", "--timeout", tt.timeout, "--mcp", "evil=fakeserver "+tt.mode, "Try.")
			h.noProcessLeft(0)
			if out.code != tt.code || out.stdout != "" || !strings.Contains(out.stderr, tt.says) {
				t.Errorf("exited with %d, stdout %q, stderr %q; want %d, nothing, and %q", out.code, out.stdout, out.stderr, tt.code, tt.says)
			}
		})
	}
}

// TestStubbornServer: a server that ignores both the end of stdin and SIGTERM does not
// outlive a run that is interrupted.
func TestStubbornServer(t *testing.T) {
	needProc(t)
	if testing.Short() {
		t.Skip("waits for limits")
	}
	t.Parallel()
	h := newHome(t)
	hold := llmtest.NewGate()
	h.plays("openai", llmtest.NewServer(llmtest.Call("evil__echo", `{}`), llmtest.Hold(hold)))
	t.Cleanup(hold.Open)
	s := h.start("run", "--yes", "--protocol", "legacy", "--mcp", "evil=fakeserver stubborn", "--output-format", "stream-json", "Try.")
	select {
	case <-hold.Reached():
	case <-time.After(longest):
		t.Fatal("the model was not asked again")
	}
	if err := s.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := s.end(); code != env.ExitInterrupt {
		t.Errorf("exited with %d, want %d:\n%s", code, env.ExitInterrupt, s.stderr.String())
	}
	h.noProcessLeft(0)
}
