package doctor

import (
	"testing"

	"github.com/troupe-dev/troupe/internal/cli/env"
)

// What is wrong on this computer counts more than what cannot be reached.
func TestVerdict(t *testing.T) {
	ok, warning := check{Status: checkOK}, check{Status: checkWarning}
	usage, away := check{Status: checkFailed, code: env.ExitUsage}, check{Status: checkFailed, code: env.ExitUnreachable}
	tests := []struct {
		checks []check
		want   int
	}{
		{nil, env.ExitOK},
		{[]check{ok, warning}, env.ExitOK},
		{[]check{ok, away}, env.ExitUnreachable},
		{[]check{away, usage, away}, env.ExitUsage},
	}
	for _, tt := range tests {
		if got := env.ExitCode(verdict(tt.checks)); got != tt.want {
			t.Errorf("verdict(%+v): got the exit code %d, want %d", tt.checks, got, tt.want)
		}
	}
}
