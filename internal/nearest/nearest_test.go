package nearest_test

import (
	"fmt"
	"slices"
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

// TestNames: the names that share words with the one that was meant come first, then those with like letters.
func TestNames(t *testing.T) {
	many := make([]string, 600)
	for i := range many {
		many[i] = fmt.Sprintf("server%d__get_list_of_%d", i%20, i)
	}
	many = append(many, "files__read_file", "files__read_directory", "github__search_issues", "github__list_issues", "weather__current", "runTests")
	tests := []struct{ name, first string }{
		{"read_file", "files__read_file"},
		{"readFile", "files__read_file"},
		{"read_flie", "files__read_file"},
		{"search", "github__search_issues"},
		{"search_issue", "github__search_issues"},
		{"github.list-issues", "github__list_issues"},
		{"get_weather", "weather__current"},
		{"run_tests", "runTests"},
		{"runtest", "runTests"},
		{strings.Repeat("read_file", 10_000), "files__read_file"},
		{"", "runTests"},
	}
	for _, tt := range tests {
		got := nearest.Names(tt.name, many, 5)
		if len(got) != 5 || got[0] != tt.first {
			t.Errorf("Names(%.40q): got %q, want %q first", tt.name, got, tt.first)
		}
	}
	few := []string{"b", "a"}
	if got := nearest.Names("a", few, 5); !slices.Equal(got, []string{"a", "b"}) || few[0] != "b" {
		t.Errorf("of two: got %q, and %q is left", got, few)
	}
	if got := nearest.Names("a", nil, 5); len(got) != 0 {
		t.Errorf("of none: got %q", got)
	}
}
