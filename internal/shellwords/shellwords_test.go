package shellwords

import (
	"slices"
	"testing"
)

func TestSplit(t *testing.T) {
	tests := []struct {
		line string
		want []string // nil: an error
	}{
		{`npx -y server .`, []string{"npx", "-y", "server", "."}},
		{"  a\t b ", []string{"a", "b"}},
		{`'a b' "c d" e\ f`, []string{"a b", "c d", "e f"}},
		{`a'b'"c"`, []string{"abc"}},
		{`"" ''`, []string{"", ""}},
		{`"a\"b\\c\d" 'x\y'`, []string{`a"b\c\d`, `x\y`}},
		{`$HOME ~ * ; | $(x)`, []string{"$HOME", "~", "*", ";", "|", "$(x)"}},
		{`"open`, nil},
		{`end\`, nil},
		{` `, nil},
	}
	for _, tt := range tests {
		got, err := Split(tt.line)
		if (err != nil) != (tt.want == nil) || !slices.Equal(got, tt.want) {
			t.Errorf("Split(%q): got %q, %v, want %q", tt.line, got, err, tt.want)
		}
	}
}
