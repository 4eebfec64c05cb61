package main

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// TestTerminalAtALimit: a run that has reached a limit asks for more on the terminal,
// and goes on only with a yes or an amount.
func TestTerminalAtALimit(t *testing.T) {
	t.Parallel()
	turns := []llmtest.Turn{
		llmtest.Call("effects__append", `{"text":"one"}`), llmtest.Call("effects__append", `{"text":"two"}`),
		llmtest.Call("effects__append", `{"text":"three"}`), llmtest.Say("done"),
	}
	tests := []struct {
		name string
		keys []string
		code int
		says string
	}{
		{"yes", []string{"y\n", "yes\n", "y\n"}, 0, ""},
		{"an amount", []string{"3\n"}, 0, ""},
		{"no amount, then one", []string{"1.5\n", "all\n", "0\n", "3\n"}, 0, ""},
		{"no", []string{"n\n"}, env.ExitLimit, "the user declined it"},
		{"end of input", []string{"\x04"}, env.ExitLimit, "the question was not answered"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			h.plays("openai", llmtest.NewServer(turns...))
			cmd := h.command("run", "--yes", "--mcp", "effects lines.txt", "--max-steps", "1", "--on-limit", "ask", "Append.")
			var stdout strings.Builder
			cmd.Stdout = &stdout
			term := openTerminal(t, cmd)
			for i, keys := range tt.keys {
				term.answer(i+1, keys)
			}
			_ = cmd.Wait() // the code says it
			<-term.closed
			shown := term.text()
			if code := cmd.ProcessState.ExitCode(); code != tt.code || tt.code == 0 && stdout.String() != "done\n" {
				t.Errorf("exited with %d, want %d; stdout %q:\n%s", code, tt.code, stdout.String(), shown)
			}
			if !strings.Contains(shown, "The run has reached its limit of steps: 1, and has spent 1. May it have 1 more?") || !strings.Contains(shown, tt.says) {
				t.Errorf("the terminal shows\n%s", shown)
			}
		})
	}
}
