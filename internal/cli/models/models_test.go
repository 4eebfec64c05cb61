package models

import (
	"errors"
	"testing"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/llm"
)

// What came of the first question is the exit code.
func TestExit(t *testing.T) {
	works, bad := trialResult{Works: true}, trialResult{Detail: "no text"}
	tests := []struct {
		trials []trialResult
		want   int
	}{
		{[]trialResult{works, bad}, env.ExitOK},
		{[]trialResult{bad, works}, env.ExitFailed},
		{[]trialResult{{err: llm.ErrUnreachable}}, env.ExitUnreachable},
		{[]trialResult{{err: errors.New("for the test")}}, env.ExitFailed},
	}
	for _, tt := range tests {
		if got := env.ExitCode((&modelTest{Model: "a/b", Trials: tt.trials}).exit()); got != tt.want {
			t.Errorf("exit of %+v: got %d, want %d", tt.trials, got, tt.want)
		}
	}
}
