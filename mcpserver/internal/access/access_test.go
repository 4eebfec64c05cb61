package access

import (
	"slices"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"", "a", false}, {"*", "", true}, {"*", "a", true},
		{"a*", "ab", true}, {"a*", "ba", false}, {"*a", "ba", true}, {"*a", "ab", false},
		{"a*b*c", "abc", true}, {"a*b*c", "axxbyyc", true}, {"a*b*c", "acb", false}, {"ab*ba", "aba", false},
		{"file:///*", "file:///x/y", true}, {"a**b", "ab", true}, {"a**b", "axb", true}, {"a*b", "axbx", false},
	} {
		if got := Match(tt.pattern, tt.name); got != tt.want {
			t.Errorf("Match(%q, %q): got %v, want %v", tt.pattern, tt.name, got, tt.want)
		}
	}
}

// The scopes of all rules that fit are needed together, so that one step-up is enough
// (AUTH-60), and those of the entry are not changed.
func TestNeeds(t *testing.T) {
	rules := Rules{{Scopes: []string{"base"}}, {Method: "tools/call", Name: "files__*", Scopes: []string{"files", "own"}}, {Method: "tools/list", Scopes: []string{"list"}}}
	own := append(make([]string, 0, 8), "own")
	for _, tt := range []struct {
		method, name string
		want         []string
	}{
		{"tools/call", "files__read", []string{"own", "base", "files"}},
		{"tools/call", "mail__read", []string{"own", "base"}},
		{"tools/list", "", []string{"own", "base", "list"}},
	} {
		if got := rules.Needs(tt.method, tt.name, own); !slices.Equal(got, tt.want) {
			t.Errorf("%s %s: got %v, want %v", tt.method, tt.name, got, tt.want)
		}
	}
	if spare := own[:2]; spare[1] != "" {
		t.Errorf("the entry's scopes have become %v", spare)
	}
	if n := testing.AllocsPerRun(10, func() { Rules(nil).Needs("tools/call", "x", own) }); n != 0 {
		t.Errorf("without rules: got %v allocations, want none", n)
	}
}
