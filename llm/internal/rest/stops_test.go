package rest_test

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm/internal/rest"
)

func TestStops(t *testing.T) {
	tests := []struct {
		sequences []string
		pieces    []string
		want      string
		cut       bool
	}{
		{nil, []string{"a", "b"}, "ab", false},
		{[]string{""}, []string{"a", "b"}, "ab", false},
		{[]string{"END"}, []string{"the END is near"}, "the ", true},
		{[]string{"END"}, []string{"the E", "N", "D is near"}, "the ", true},
		{[]string{"END"}, []string{"the E", "N", "E", "ND"}, "the EN", true},
		{[]string{"END"}, []string{"the EN"}, "the EN", false},
		{[]string{"END"}, []string{"END"}, "", true},
		{[]string{"aab"}, []string{"a", "a", "a", "b"}, "a", true},
		{[]string{"bc", "abcd"}, []string{"xabcd"}, "x", true},
		{[]string{"abcd", "bc"}, []string{"xab", "c"}, "xa", true},
		{[]string{"\n\n"}, []string{"a\n", "b\n", "\nc"}, "a\nb", true},
		{[]string{"世界"}, []string{"\xe4\xb8", "\x96界!"}, "", true},
	}
	for _, tt := range tests {
		s := rest.NewStops(tt.sequences)
		var got strings.Builder
		cut := false
		for _, p := range tt.pieces {
			var text string
			text, cut = s.Add(p)
			got.WriteString(text)
			if cut {
				break
			}
		}
		if !cut {
			got.WriteString(s.Rest())
		}
		if got.String() != tt.want || cut != tt.cut {
			t.Errorf("Stops(%q) of %q: got %q, %v, want %q, %v", tt.sequences, tt.pieces, got.String(), cut, tt.want, tt.cut)
		}
	}
}

// However a text is cut into pieces, what is passed on is the same as for the whole,
// unless a sequence that begins earlier is complete only later.
func FuzzStops(f *testing.F) {
	f.Add("the END is near", "END", "near", uint8(3))
	f.Add("aaab", "aab", "b", uint8(1))
	f.Add("xabcd", "bc", "abcd", uint8(2))
	f.Fuzz(func(t *testing.T, text, a, b string, size uint8) {
		s := rest.NewStops([]string{a, b})
		var got strings.Builder
		cut := false
		for left := text; len(left) > 0 && !cut; {
			n := min(len(left), int(size)+1)
			var out string
			out, cut = s.Add(left[:n])
			got.WriteString(out)
			left = left[n:]
		}
		if !cut {
			got.WriteString(s.Rest())
		}
		if !strings.HasPrefix(text, got.String()) {
			t.Fatalf("%q is not the beginning of %q", got.String(), text)
		}
		for _, seq := range []string{a, b} {
			if seq != "" && strings.Contains(got.String(), seq) {
				t.Errorf("%q still holds %q", got.String(), seq)
			}
		}
		if !cut && got.String() != text {
			t.Errorf("got %q of %q although nothing was cut", got.String(), text)
		}
	})
}
