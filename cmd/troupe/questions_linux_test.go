package main

import (
	"os"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm/llmtest"
)

// A question on a terminal goes away, and says so, once it is answered elsewhere; its run goes on.
func TestQuestionIsAnsweredElsewhere(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.plays("openai", llmtest.NewServer(llmtest.Call("effects__append", `{"text":"one"}`), llmtest.Say("Written.")))
	cmd := h.command("run", "--mcp", "effects lines.txt", "Write it down.")
	term := openTerminal(t, cmd)
	waitFor(t, "the question", func() bool { return strings.Contains(term.text(), "[n]o: ") })
	if out, err := h.command("inbox", "answer", "-1", "--accept", "--by", "ada").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the run ended with %v", err)
	}
	<-term.closed
	if shown := term.text(); !strings.Contains(shown, "(The question is withdrawn: it is accepted by inbox:ada.)") || !strings.Contains(shown, "Written.") {
		t.Errorf("it does not say that the question is answered, or has no answer: %q", shown)
	}
}

// Ctrl-C at a question ends the turn, and what is typed for the question is no line of the conversation.
func TestInterruptAtAQuestion(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	server := llmtest.NewServer(llmtest.Call("effects__append", `{"text":"one"}`))
	h.plays("openai", server)
	cmd := h.command("chat", "--mcp", "effects lines.txt")
	term := openTerminal(t, cmd)
	term.types("> ", 1, "Write it down.\n")
	waitFor(t, "the question", func() bool { return strings.Contains(term.text(), "[n]o: ") })
	interrupt(t, cmd)
	term.types("(The question is withdrawn: you have ended this turn.)", 1, "")
	term.types("Press Enter", 1, "y\n")
	term.types("> ", 2, "/quit\n")
	if err := cmd.Wait(); err != nil {
		t.Errorf("the conversation ended with %v", err)
	}
	<-term.closed
	if _, err := os.Stat(h.path("lines.txt")); err == nil || len(server.Chats()) != 1 {
		t.Errorf("the call was made, or the model was asked %d times, and not once", len(server.Chats()))
	}
}

// An answer for the whole run is one for the calls that are asked about already.
func TestAllowedForTheRunAtOnce(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.plays("openai", llmtest.NewServer(llmtest.Calls(llmtest.Call("effects__append", `{"text":"one"}`), llmtest.Call("effects__append", `{"text":"two"}`),
		llmtest.Call("effects__append", `{"text":"three"}`)), llmtest.Say("Written.")))
	cmd := h.command("run", "--mcp", "effects lines.txt", "Write it down.")
	term := openTerminal(t, cmd)
	term.answer(1, "r\n")
	if err := cmd.Wait(); err != nil {
		t.Errorf("the run ended with %v", err)
	}
	<-term.closed
	if text, err := os.ReadFile(h.path("lines.txt")); err != nil || strings.Count(string(text), "\n") != 3 {
		t.Errorf("got %q, %v, want three lines: %q", text, err, term.text())
	}
	if n := strings.Count(term.text(), "[n]o: "); n != 1 {
		t.Errorf("it asked %d times, want once: %q", n, term.text())
	}
}
