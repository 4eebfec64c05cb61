package loop_test

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/actors/loop"
)

// TestLine: a title or summary is one bounded line of valid text.
func TestLine(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"empty", "", ""},
		{"white space alone", " \n\t\u2003 ", ""},
		{"words", "  Hello,\n\n\tAda.\u00a0Bye ", "Hello, Ada. Bye"},
		{"control characters", "a\x00b \x1b[1m \x7fc", "ab [1m c"},
		{"invalid UTF-8", "a\xffb", "a\uFFFDb"},
		{"just fits", strings.Repeat("a", 200) + " ", strings.Repeat("a", 200)},
		{"too long", strings.Repeat("a", 201), strings.Repeat("a", 200) + "…"},
		{"runes stay whole", strings.Repeat("a", 199) + "é", strings.Repeat("a", 199) + "…"},
		{"no space before the cut", strings.Repeat("a", 199) + " b", strings.Repeat("a", 199) + "…"},
		{"cut in a word", strings.Repeat("abcd ", 39) + "abcdefgh", strings.Repeat("abcd ", 39) + "abcde…"},
		{"words beside others", strings.Repeat("ab é ", 40) + "!", strings.TrimSpace(strings.Repeat("ab é ", 33)) + " ab…"},
		{"after many blanks", strings.Repeat(" ", 1000) + "a", "a"},
	}
	for _, tt := range tests {
		if got := loop.Line(tt.in); got != tt.want {
			t.Errorf("%s: line(%.40q): got %q, want %q", tt.name, tt.in, got, tt.want)
		}
	}
}
