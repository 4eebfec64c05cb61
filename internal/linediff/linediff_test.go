package linediff_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/linediff"
)

func TestLines(t *testing.T) {
	tests := []struct{ a, b, want string }{
		{"", "", ""},
		{"abc", "abc", " a b c"},
		{"abc", "axc", " a-b+x c"},
		{"abc", "abxc", " a b+x c"},
		{"abcd", "ad", " a-b-c d"},
		{"", "ab", "+a+b"},
		{"abcabba", "cbabac", "*"}, // several are as short
	}
	for _, tt := range tests {
		var got, a, b strings.Builder
		for _, l := range linediff.Lines(strings.Split(tt.a, ""), strings.Split(tt.b, "")) {
			got.WriteString(string(l.Mark) + l.Text)
			if l.Mark != '+' {
				a.WriteString(l.Text)
			}
			if l.Mark != '-' {
				b.WriteString(l.Text)
			}
		}
		if tt.want != "*" && got.String() != tt.want {
			t.Errorf("Lines(%q, %q): got %q, want %q", tt.a, tt.b, got.String(), tt.want)
		}
		if a.String() != tt.a || b.String() != tt.b {
			t.Errorf("Lines(%q, %q): got %q, which is of %q and %q", tt.a, tt.b, got.String(), a.String(), b.String())
		}
	}
	big := make([]string, 3000)
	for i := range big {
		big[i] = fmt.Sprint(i)
	}
	other := make([]string, 3000)
	for i := range other {
		other[i] = fmt.Sprint(-i - 1)
	}
	if got := linediff.Lines(big, other); len(got) != 6000 || got[0].Mark != '-' || got[5999].Mark != '+' {
		t.Errorf("Lines of long texts: got %d lines", len(got))
	}
}
