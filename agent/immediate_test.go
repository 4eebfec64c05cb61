package agent

import (
	"context"
	"testing"
)

// TestLooksNothingUp: only policies that are known to look nothing up are called without a task.
func TestLooksNothingUp(t *testing.T) {
	for name, tt := range map[string]struct {
		policy ApprovePolicy
		want   bool
	}{
		"AskBeforeWrites": {AskBeforeWrites, true},
		"AskAlways":       {AskAlways, true},
		"NeverAsk":        {NeverAsk, true},
		"AskOnTaint":      {AskOnTaint(NeverAsk), false}, // what is in it may look something up
		"a program's":     {func(context.Context, *ToolCall) Verdict { return VerdictAllow }, false},
	} {
		if got := looksNothingUp(tt.policy); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
