package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// controlling gives cmd a session of its own, whose terminal is the one at stderr: what
// /dev/tty is then.
func controlling(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 2}
}

// openPiped is [openTerminal] for a program whose stdin is a pipe with this text, and whose
// terminal is its own.
func openPiped(t *testing.T, cmd *exec.Cmd, text string) *tty {
	t.Helper()
	controlling(cmd)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.WriteString(text); err != nil {
		t.Fatal(err)
	}
	out.Close()
	defer in.Close()
	cmd.Stdin = in
	return openTerminal(t, cmd)
}

// A prompt that is piped in does not switch off asking where there is a terminal.
func TestTerminalAsksBesideAPipe(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	server := llmtest.NewServer(llmtest.Call("effects__append", `{"text":"one"}`), resultsOf())
	h.plays("openai", server)
	cmd := h.command("run", "--mcp", "effects lines.txt")
	term := openPiped(t, cmd, "Write it down.\n")
	term.answer(1, "y\n")
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, term.text())
	}
	<-term.closed
	if chats := server.Chats(); len(chats) != 2 || !strings.Contains(term.text(), "appended one") {
		t.Errorf("got %d turns of the model; the terminal shows\n%s", len(chats), term.text())
	}
}

// What is piped into a conversation is all that is said in it: nothing is asked.
func TestChatBesideAPipe(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.plays("openai", llmtest.NewServer(llmtest.Call("effects__append", `{"text":"one"}`)))
	cmd := h.command("chat", "--mcp", "effects lines.txt")
	term := openPiped(t, cmd, "Write it down.\n")
	_ = cmd.Wait() // how it ended is in the state
	<-term.closed
	if cmd.ProcessState.ExitCode() != env.ExitWaiting {
		t.Errorf("exited with %d, want %d:\n%s", cmd.ProcessState.ExitCode(), env.ExitWaiting, term.text())
	}
}

// TestTerminalShowsARun: on a terminal the answer comes as it is said, each call has a line
// with its result, what goes on now is at the bottom, and nothing overwrites anything.
func TestTerminalShowsARun(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	gate := llmtest.NewGate()
	server := llmtest.NewServer(
		llmtest.Join(llmtest.Say("Let me write."), llmtest.Call("effects__append", `{"text":"one\ntwo \u001b[2J"}`)),
		llmtest.Call("effects__fail", `{}`),
		llmtest.Join(llmtest.Say("All is "), llmtest.Hold(gate), llmtest.Say("written.")),
	)
	h.plays("openai", server)
	cmd := h.command("run", "--yes", "--mcp", "effects lines.txt", "Write.")
	term := openTerminal(t, cmd)
	waitFor(t, "the beginning of the answer", func() bool { return strings.Contains(term.text(), "All is ") })
	gate.Open()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, term.text())
	}
	<-term.closed
	shown := term.text()
	for _, want := range []string{
		"starting servers, 0 of 1 are ready; waiting for effects (0s)",
		"waiting for the model (0s)",
		"Let me write.\r\n",
		"  effects__append (0s)",
		"  ✓ effects__append text=one two: appended one (+1 line)\r\n",
		"  ✗ effects__fail: the disk is full\r\n",
		"All is written.\r\n",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not on the terminal:\n%q", want, shown)
		}
	}
	if strings.Count(shown, "written.") != 1 || strings.Contains(shown, "\x1b[2J") {
		t.Errorf("the answer is there twice, or the model clears the screen: %q", shown)
	}
}

// TestTerminalAlways: a tool that is allowed for good is not asked about in the next run of
// this folder; one whose server is another is.
func TestTerminalAlways(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	write := llmtest.Call("effects__append", `{"text":"one"}`)
	h.plays("openai", llmtest.NewServer(write, write, llmtest.Say("first"), write, llmtest.Say("second"), write, llmtest.Say("third")))
	run := func(server, keys string) string {
		t.Helper()
		cmd := h.command("run", "--mcp", "effects="+server, "Write.")
		term := openTerminal(t, cmd)
		if keys != "" {
			term.answer(1, keys)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v: %s", err, term.text())
		}
		<-term.closed
		return term.text()
	}
	if shown := run("effects lines.txt", "a\n"); strings.Count(shown, "[n]o: ") != 1 || !strings.Contains(shown, "[a]lways in this folder") {
		t.Errorf("the first run: want one question:\n%s", shown)
	}
	if shown := run("effects lines.txt", ""); strings.Contains(shown, "[n]o: ") || !strings.Contains(shown, "second") {
		t.Errorf("the second run: want no question:\n%s", shown)
	}
	if shown := run("effects others.txt", "n\n"); !strings.Contains(shown, "[n]o: ") {
		t.Errorf("another server: want a question:\n%s", shown)
	}
}

// TestTerminalWhole: all of the arguments can be seen before anything is decided.
func TestTerminalWhole(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	text := strings.Repeat(`line\n`, 200) + "the end"
	h.plays("openai", llmtest.NewServer(llmtest.Call("effects__append", `{"text":"`+text+`"}`), resultsOf()))
	cmd := h.command("run", "--mcp", "effects lines.txt", "Write.")
	term := openTerminal(t, cmd)
	term.types("-- Enter for more", 1, "\n")
	term.answer(1, "w\n")
	term.answer(2, "n\n")
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, term.text())
	}
	<-term.closed
	before, after, _ := strings.Cut(term.text(), "[n]o: w")
	if strings.Contains(before, "the end") || !strings.Contains(before, "lines more") || !strings.Contains(after, "the end") {
		t.Errorf("the terminal shows\n%s", term.text())
	}
}
