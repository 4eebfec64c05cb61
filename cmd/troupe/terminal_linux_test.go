package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// tty is one end of a terminal, whose other end a program has.
type tty struct {
	t      *testing.T
	file   *os.File
	closed chan struct{} // nothing more is shown

	mu    sync.Mutex
	shown strings.Builder
}

// openTerminal gives cmd a terminal for stderr, and for stdin and stdout where they go
// nowhere, and starts it.
func openTerminal(t *testing.T, cmd *exec.Cmd) *tty {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		mcptest.Lacks(t, "terminals", err)
	}
	n, err := unix.IoctlGetInt(int(control.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(control.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(control.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 120})
	}
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		mcptest.Lacks(t, "terminals", err)
	}
	defer theirs.Close()
	cmd.Stderr = theirs
	if cmd.Stdin == nil {
		cmd.Stdin = theirs
	}
	if cmd.Stdout == nil {
		cmd.Stdout = theirs
	}
	cmd.Env = append(cmd.Env, "TERM=xterm")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	term := &tty{t: t, file: control, closed: make(chan struct{})}
	t.Cleanup(func() { control.Close() })
	go func() {
		defer close(term.closed)
		_, _ = io.Copy(term, control) // ends with an error once the other end is closed
	}()
	return term
}

// Write takes what is shown.
func (x *tty) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.shown.Write(p)
}

func (x *tty) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.shown.String()
}

// answer waits until so many questions are shown, and types.
func (x *tty) answer(questions int, keys string) {
	x.t.Helper()
	x.types("[n]o: ", questions, keys)
}

// types waits until a prompt is shown so many times, and types.
func (x *tty) types(prompt string, times int, keys string) {
	x.t.Helper()
	waitFor(x.t, prompt, func() bool { return strings.Count(x.text(), prompt) >= times })
	if _, err := io.WriteString(x.file, keys); err != nil {
		x.t.Fatal(err)
	}
}

// TestTerminal: where there is a terminal the program asks there, shows exactly what
// would be called, and does as it is told (SECA-41).
func TestTerminal(t *testing.T) {
	t.Parallel()
	one := llmtest.Call("effects__append", `{"text":"one \u001b[2J\u202e"}`)
	two := llmtest.Call("effects__append", `{"text":"two"}`)
	tests := []struct {
		name  string
		turns []llmtest.Turn
		keys  []string // to one question after the other
		lines int      // in the file
		says  string   // in the answer
	}{
		{"yes", []llmtest.Turn{one}, []string{"y\n"}, 1, "appended one"},
		{"no", []llmtest.Turn{one}, []string{"no\n"}, 0, "the user declined it"},
		{"neither, then yes", []llmtest.Turn{one}, []string{"perhaps\n", "YES\n"}, 1, "appended one"},
		{"end of input", []llmtest.Turn{one}, []string{"\x04"}, 0, "the question was not answered"},
		{"each call", []llmtest.Turn{one, two}, []string{"y\n", "n\n"}, 1, "the user declined it"},
		{"the whole run", []llmtest.Turn{one, two}, []string{"r\n"}, 2, "appended two"},
		// The first call sees text of the server's, which the second might carry out (SECA-44).
		{"tainted", []llmtest.Turn{one, two}, []string{"y\n"}, 2, "appended two"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			h.plays("openai", llmtest.NewServer(append(tt.turns, resultsOf())...))
			approve := "writes" // the default
			if tt.name == "tainted" {
				approve = tt.name
			}
			cmd := h.command("run", "--approve", approve, "--mcp", "effects lines.txt", "Append.")
			var stdout strings.Builder
			cmd.Stdout = &stdout
			term := openTerminal(t, cmd)
			for i, keys := range tt.keys {
				term.answer(i+1, keys)
			}
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v: %s", err, term.text())
			}
			<-term.closed
			shown := term.text()
			if n := strings.Count(shown, "[n]o: "); n != len(tt.keys) {
				t.Errorf("got %d questions, want %d:\n%s", n, len(tt.keys), shown)
			}
			if !strings.Contains(shown, "May the agent call effects__append of the server effects (effects, untrusted)?") {
				t.Errorf("the terminal shows\n%s", shown)
			}
			if strings.Contains(shown, "\x1b[2J") || strings.Contains(shown, "\u202e") {
				t.Errorf("the model reaches the terminal: %q", shown)
			}
			if !strings.Contains(stdout.String(), tt.says) || strings.Contains(stdout.String(), "[K") {
				t.Errorf("stdout: got %q, want %q in it", stdout.String(), tt.says)
			}
			data, _ := os.ReadFile(h.path("lines.txt")) // none if nothing was appended
			if got := strings.Count(string(data), "\n"); got != tt.lines {
				t.Errorf("got %d lines, want %d: %q", got, tt.lines, data)
			}
		})
	}
}

// TestTerminalAnswer: what a model says does nothing to the terminal but be seen
// (SECA-42). The line with the current tool is taken away before it.
func TestTerminalAnswer(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.plays("openai", llmtest.NewServer(
		llmtest.Call("effects__append", `{"text":"one"}`),
		llmtest.Say("Done.\x1b]0;owned\x07 \x1b[2J\nSecond line.")))
	cmd := h.command("run", "--yes", "--mcp", "effects lines.txt", "Append.")
	term := openTerminal(t, cmd)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, term.text())
	}
	<-term.closed
	shown := term.text()
	if !strings.Contains(shown, "Done.") || !strings.Contains(shown, "\r\nSecond line.\r\n") || !strings.Contains(shown, "\r\x1b[K  effects__append (0s)") {
		t.Errorf("the terminal shows %q", shown)
	}
	if strings.Contains(shown, "\x1b]") || strings.Contains(shown, "\x1b[2J") || strings.Contains(shown, "\x07") {
		t.Errorf("the model reaches the terminal: %q", shown)
	}
	if _, answer, _ := strings.Cut(shown, "\x1b[KDone."); !strings.HasSuffix(answer, "Second line.\r\n") {
		t.Errorf("the answer does not stand alone: %q", shown)
	}
}

// TestTerminalForm: a server asks during a call, and the user answers: alone and in
// a run (ELIC-12, SECA-34).
func TestTerminalForm(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		args  []string
		keys  []string // for the field, then for the whole
		wants string
	}{
		{"call", []string{"mcp", "call", "--mcp", "asker", "ask"}, []string{"Ada\n", "accept\n"}, `{"action":"accept","content":{"name":"Ada"}}`},
		{"call, default", []string{"mcp", "call", "--mcp", "asker", "ask"}, []string{"\n", "a\n"}, `{"action":"accept","content":{"name":"Bob"}}`},
		{"call, declined", []string{"mcp", "call", "--mcp", "asker", "ask"}, []string{":decline\n"}, `{"action":"decline"}`},
		{"call, end of input", []string{"mcp", "call", "--mcp", "asker", "ask"}, []string{"\x04"}, `{"action":"cancel"}`},
		{"run", []string{"run", "--yes", "--mcp", "asker", "Ask."}, []string{"Ada\n", "accept\n"}, `{"action":"accept","content":{"name":"Ada"}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			h.plays("openai", llmtest.NewServer(llmtest.Call("asker__ask", `{}`), resultsOf()))
			cmd := h.command(tt.args...)
			var stdout strings.Builder
			cmd.Stdout = &stdout
			term := openTerminal(t, cmd)
			for i, keys := range tt.keys {
				term.types([]string{"[Bob] > ", "decide nothing\r\n> "}[i], 1, keys)
			}
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v: %s", err, term.text())
			}
			<-term.closed
			if !strings.Contains(stdout.String(), tt.wants) {
				t.Errorf("stdout: got %q, want %q in it; the terminal shows\n%s", stdout.String(), tt.wants, term.text())
			}
			if shown := term.text(); !strings.Contains(shown, "The server asker asks for information.") || !strings.Contains(shown, "For:    tools/call ask") {
				t.Errorf("the terminal shows\n%s", shown)
			}
		})
	}
}

// TestTerminalSampling: what a server wants of the model is shown on the terminal before
// it is asked, and the answer before the server has it, with who asks and what for, and
// both can be changed (SAMP-40, SECA-34, SECA-41).
func TestTerminalSampling(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		keys []string
		says string
		asks int // of the model
	}{
		{"accepted", []string{"a\n", "a\n"}, "The model says Paris", 3},
		{"changed", []string{"tokens 7\n", "a\n", "edit 1\nNo idea.\n.\n", "a\n"}, "The model says No idea.", 3},
		{"declined", []string{"d\n"}, "declined", 2},
		{"the answer is declined", []string{"a\n", "d\n"}, "declined", 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			turns := []llmtest.Turn{llmtest.Call("sampler__ask", "{}"), llmtest.Say("Paris"), resultsOf()}
			if tt.asks == 2 {
				turns = []llmtest.Turn{turns[0], turns[2]}
			}
			model := llmtest.NewServer(turns...)
			h.plays("openai", model)
			cmd := h.command("run", "--yes", "--protocol", "2025-11-25", "--mcp", "sampler", "Ask.")
			var stdout strings.Builder
			cmd.Stdout = &stdout
			term := openTerminal(t, cmd)
			for i, keys := range tt.keys {
				term.types("decide nothing", i+1, keys)
			}
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v: %s", err, term.text())
			}
			<-term.closed
			shown := term.text()
			for _, want := range []string{"The server sampler asks your model a question, at your cost.", "sampler, sampler", "tools/call ask", "At most 50 tokens.", "│ Be brief.", "│ Capital of France?"} {
				if !strings.Contains(shown, want) {
					t.Errorf("%q is not on the terminal:\n%s", want, shown)
				}
			}
			if strings.Contains(shown, "Your Bank") { // what it calls itself
				t.Errorf("the terminal shows the server's own name:\n%s", shown)
			}
			if !strings.Contains(stdout.String(), tt.says) || len(model.Chats()) != tt.asks {
				t.Errorf("stdout: got %q and %d turns of the model, want %q and %d", stdout.String(), len(model.Chats()), tt.says, tt.asks)
			}
		})
	}
}

// A page that a call waits for is on the screen of run and chat until it is over, with keys
// for it; without a browser accept stays accept, and the address is shown again (URL-03,
// URL-17).
func TestPageOnATerminal(t *testing.T) {
	t.Parallel()
	const keys, consent = "c (give up): ", "decide nothing\r\n> "
	for _, command := range []string{"run", "chat", "mcp"} {
		for key, want := range map[string]string{"r": "signed in", "c": "the page was given up"} {
			t.Run(command+" "+key, func(t *testing.T) {
				t.Parallel()
				h := newHome(t)
				h.plays("openai", llmtest.NewServer(llmtest.Call("asker__ask", `{}`), resultsOf()))
				args := map[string][]string{
					"run":  {"run", "--yes", "--mcp", "asker page", "Sign in."},
					"chat": {"chat", "--yes", "--mcp", "asker page"},
					"mcp":  {"mcp", "call", "asker", "ask", "--mcp-config", h.config(map[string]any{"asker": map[string]any{"command": "asker", "args": []string{"page"}}})},
				}[command]
				cmd := h.command(args...)
				cmd.Env = append(cmd.Env, "BROWSER=", "PATH="+h.dir+"/nothing:"+os.Getenv("PATH"))
				term := openTerminal(t, cmd)
				if command == "chat" {
					term.types("> ", 1, "Sign in.\n")
				}
				consents, opened := "o\n", "You open the page yourself."
				if key == "c" {
					consents, opened = "a\n", "No browser could be started here: open the page yourself."
				}
				term.types(consent, 1, consents)
				term.types(keys, 1, "o\n")
				term.types(keys, 2, key+"\n")
				waitFor(t, want, func() bool { return strings.Contains(term.text(), want) })
				if command == "chat" {
					term.types("\n> ", 3, "\x04")
				}
				err := cmd.Wait()
				if failed := command == "mcp" && key == "c"; failed != (err != nil) {
					t.Errorf("the program ended with %v", err)
				}
				<-term.closed
				shown := term.text()
				for _, want := range []string{opened, "Waiting for this page of the server asker:", "  │ https://bank.example/sign-in"} {
					if !strings.Contains(shown, want) {
						t.Errorf("%q is not in\n%s", want, shown)
					}
				}
			})
		}
	}
}
