package env_test

import (
	"testing"

	"github.com/troupe-dev/troupe/internal/cli/env"
)

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 1 << 20: "1.0 MiB", 3 << 39: "1.5 TiB", 1 << 52: "4096.0 TiB"} {
		if got := env.Size(n); got != want {
			t.Errorf("Size(%d): got %q, want %q", n, got, want)
		}
	}
}
