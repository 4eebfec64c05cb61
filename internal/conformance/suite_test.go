package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/peers"
)

func TestVerdict(t *testing.T) {
	tests := []struct {
		name   string
		checks string // S, F, W, I and K for the statuses
		broken string
		want   string
	}{
		{"all right", "SSI", "", "pass"},
		{"warned", "SW", "", "warn"},
		{"one failure", "SSF", "", "FAIL"},
		{"nothing was right", "WI", "", "FAIL"},
		{"nothing at all", "", "", "FAIL"},
		{"all skipped", "KK", "", "FAIL"},
		{"the client failed", "SS", "CLIENT EXITED WITH ERROR 1", "FAIL"},
	}
	statuses := map[rune]string{'S': "SUCCESS", 'F': "FAILURE", 'W': "WARNING", 'I': "INFO", 'K': "SKIPPED"}
	for _, tt := range tests {
		v := &verdict{Scenario: scenario{Revision: "2025-11-25", Name: "x", Required: true}, Broken: tt.broken}
		for _, c := range tt.checks {
			v.Checks = append(v.Checks, check{ID: "a", Status: statuses[c]})
		}
		v.count()
		if got := v.line(); !strings.HasPrefix(got, tt.want+"  2025-11-25/x  ") {
			t.Errorf("%s: got %q, want %s", tt.name, got, tt.want)
		}
	}
}

// TestStrict: what the suite lets pass fails here. A client that does nothing is in
// order by the suite's own count.
func TestStrict(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the conformance suite")
	}
	s, err := openSuite(t.Context())
	if errors.Is(err, peers.ErrNoNode) && os.Getenv("REQUIRE_PEERS") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"true", "false"} {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Skip(err)
		}
		if v := s.play(t.Context(), scenario{Revision: "2025-11-25", Name: "initialize"}, path, t.TempDir()); v.passed() {
			t.Errorf("%s: got %s, want a failure", program, v.line())
		}
	}
}
