package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// On a terminal the first Ctrl-C ends a turn and the conversation goes on; questions are
// asked there; the next Ctrl-C, with no turn under way, ends the program.
func TestChatOnATerminal(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	server := llmtest.NewServer(
		llmtest.Join(llmtest.Say("Let me think"), llmtest.Slow(time.Hour)),
		llmtest.Call("effects__append", `{"text":"one"}`),
		llmtest.Say("Written\u001b[2J."),
	)
	h.plays("openai", server)
	cmd := h.command("chat", "--mcp", "effects lines.txt")
	term := openTerminal(t, cmd)
	term.types("> ", 1, "How are you?\n")
	waitFor(t, "the turn", func() bool { return len(server.Chats()) == 1 })
	interrupt(t, cmd)
	term.types("you have ended this turn", 1, "")
	term.types("> ", 2, "Write it down.\n")
	term.answer(1, "y\n")
	term.types("> ", 3, "/cost\n")
	waitFor(t, "the cost", func() bool { return strings.Contains(term.text(), "2 turns, 3 model calls") })
	term.types("> ", 4, "")
	interrupt(t, cmd)
	err := cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != env.ExitInterrupt {
		t.Errorf("got error %v, want the exit code %d", err, env.ExitInterrupt)
	}
	<-term.closed
	shown := term.text()
	if !strings.Contains(shown, "Written") || strings.Contains(shown, "\x1b[2J") {
		t.Errorf("the answer is missing, or clears the screen (SECA-42): %q", shown)
	}
	if text, err := os.ReadFile(h.path("lines.txt")); err != nil || strings.Count(string(text), "\n") != 1 {
		t.Errorf("got %q and error %v, want one line written", text, err)
	}
	if got := len(server.Chats()); got != 3 {
		t.Fatalf("the model was asked %d times, want 3", got)
	}
}

func interrupt(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
}
