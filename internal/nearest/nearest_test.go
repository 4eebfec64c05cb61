package nearest_test

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/nearest"
)

func TestName(t *testing.T) {
	tests := []struct {
		name, want string
		known      []string
	}{
		{"rnu", "run", []string{"runs", "run", "chat"}},
		{"aprove", "approve", []string{"approvals", "approve"}},
		{"Max_Steps", "max-steps", []string{"max-cost", "max-steps"}},
		{"fielsystem", "filesystem", []string{"filesystem", "fetch"}},
		{"x", "", []string{"run", "chat"}},
		{"zzzzzz", "", []string{"run", "chat"}},
		{"run", "", nil},
		{strings.Repeat("x", 100), "", []string{strings.Repeat("x", 99)}},
	}
	for _, tt := range tests {
		if got := nearest.Name(tt.name, tt.known); got != tt.want {
			t.Errorf("Name(%q, %q): got %q, want %q", tt.name, tt.known, got, tt.want)
		}
	}
}
