package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// TestSignals: SIGINT and SIGTERM end a run in the middle of a call, and all that it
// has started (ROB-7). The exit codes say which it was.
func TestSignals(t *testing.T) {
	needProc(t)
	t.Parallel()
	tests := []struct {
		signal syscall.Signal
		code   int
	}{
		{syscall.SIGINT, env.ExitInterrupt},
		{syscall.SIGTERM, env.ExitTerminated},
	}
	for _, tt := range tests {
		t.Run(tt.signal.String(), func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			h.plays("openai", llmtest.NewServer(llmtest.Call("effects__hang", `{}`)))
			s := h.start("run", "--yes", "--mcp", "effects lines.txt", "--output-format", "stream-json", "--run-id", "stopped", "Wait.")
			s.until("progress", func(ev *streamed) bool { return ev.Type == "tool_progress" })
			if err := s.Process.Signal(tt.signal); err != nil {
				t.Fatal(err)
			}
			if code := s.end(); code != tt.code {
				t.Errorf("exited with %d, want %d:\n%s", code, tt.code, s.stderr.String())
			}
			h.noProcessLeft(0)
			if last := s.events[len(s.events)-1]; last.Type != "run_finished" || last.State != "cancelled" {
				t.Errorf("the last event: got %+v", last)
			}
			if shown := h.must("runs", "show", "stopped"); !strings.Contains(shown, "run stopped: cancelled") {
				t.Errorf("runs show: got\n%s", shown)
			}
		})
		t.Run("mcp call, "+tt.signal.String(), func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			s := h.start("mcp", "call", "--mcp", "fakeserver mute", "--protocol", "legacy", "echo")
			waitFor(t, "the server", func() bool { return len(h.processes()) == 2 })
			if err := s.Process.Signal(tt.signal); err != nil {
				t.Fatal(err)
			}
			if code := s.end(); code != tt.code {
				t.Errorf("exited with %d, want %d:\n%s", code, tt.code, s.stderr.String())
			}
			h.noProcessLeft(0)
		})
	}
}
