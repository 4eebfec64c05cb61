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

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 1 << 20: "1.0 MiB", 3 << 39: "1.5 TiB", 1 << 52: "4096.0 TiB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d): got %q, want %q", n, got, want)
		}
	}
}
