package sanitize

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	tests := []struct {
		name, in, want string
		hidden         int
	}{
		{"nothing", "", "", 0},
		{"plain", "Which city?\nAny will do.", "Which city?\nAny will do.", 0},
		{"languages", "Größe, 東京, Привет, naïve, हिन्दी", "Größe, 東京, Привет, naïve, हिन्दी", 0},
		{"tab", "a\tb", "a    b", 0},
		{"line ends", "a\r\nb\rc\vd\fe\u0085f\u2028g\u2029h", "a\nb\nc\nd\ne\nf\ng\nh", 0},
		{"spaces", "a\u00a0b\u3000c\u2003d", "a b c d", 0},
		{"colour", "\x1b[1;31mred\x1b[0m", "red", 11},
		{"clear screen", "a\x1b[2J\x1b[Hb", "ab", 7},
		{"hidden link", "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\", "click", 34},
		{"title", "\x1b]0;owned\x07x", "x", 10},
		{"device string", "\x1bP1$r0m\x1b\\x", "x", 9},
		{"two bytes", "\x1bcx\x1b(Bx", "xx", 5},
		{"C1", "\u009b31mred\u009d0;t\u009cx", "redx", 9},
		{"sequence without an end", "\x1b]0;what follows stays", "0;what follows stays", 2},
		{"sequence cut by a line end", "\x1b]0;a\nb\x07", "0;a\nb", 3},
		{"sequence broken off", "\x1b[3\nkept", "\nkept", 3},
		{"escape at the end", "x\x1b", "x", 1},
		{"controls", "a\x00b\x08c\x7fd", "abcd", 3},
		{"bidi", "user\u202etxt.exe\u202c \u2066x\u2069", "usertxt.exe x", 4},
		{"zero width", "pass\u200bwo\u200drd\ufeff\u2060\u00ad", "password", 5},
		{"tags", "ok\U000e0041\U000e0042\U000e007f", "ok", 3},
		{"selectors that carry data", "ok\U000e0100\U000e0155\ufe00", "ok", 3},
		{"emoji's selector", "☎\ufe0f", "☎", 0},
		{"fillers", "a\u3164\u115f\uffa0\u2800\u034fb", "ab", 5},
		{"private", "a\ue000b", "ab", 1},
		{"pile of marks", "a" + strings.Repeat("\u0301", 9) + "b", "a" + strings.Repeat("\u0301", 4) + "b", 5},
		{"pile of marks with hidden ones between", "a" + strings.Repeat("\u0301\u200b", 9), "a" + strings.Repeat("\u0301", 4), 14},
		{"invalid UTF-8", "a\xffb\xc2", "a\ufffdb\ufffd", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { // SECA-37
			got, hidden := Text(tt.in, Limits{})
			if got != tt.want || hidden != tt.hidden {
				t.Errorf("Text(%q): got %q, %d hidden, want %q, %d", tt.in, got, hidden, tt.want, tt.hidden)
			}
		})
	}
}

func TestTextLimits(t *testing.T) {
	tests := []struct {
		in   string
		max  Limits
		want string
	}{
		{"abcdef", Limits{Bytes: 6}, "abcdef"},
		{"abcdefg", Limits{Bytes: 6}, "abc…"},
		{"äöüäöü", Limits{Bytes: 8}, "äö…"},
		{"abcdefg", Limits{Bytes: 2}, ""},
		{"a\nb\nc", Limits{Lines: 3}, "a\nb\nc"},
		{"a\nb\nc", Limits{Lines: 2}, "a\nb…"},
		{"a\n", Limits{Lines: 1}, "a…"},
		{"a\nb\nccccccccc", Limits{Lines: 3, Bytes: 8}, "a\nb\nc…"},
	}
	for _, tt := range tests {
		if got, _ := Text(tt.in, tt.max); got != tt.want {
			t.Errorf("Text(%q, %+v): got %q, want %q", tt.in, tt.max, got, tt.want)
		}
	}
}

// A name cannot begin a line of its own and pretend to be the program (SECA-41).
func TestLine(t *testing.T) {
	tests := []struct {
		in   string
		n    int
		want string
	}{
		{"files", 0, "files"},
		{"files\nServer: bank\r\n\x1b[2Ktrusted", 0, "files Server: bank trusted"},
		{"  abc  ", 3, "abc"},
		{"abcdef", 4, "abc…"},
		{"ab cdef", 4, "ab…"},
		{"東京都庁舎", 3, "東京…"},
	}
	for _, tt := range tests {
		if got := Line(tt.in, tt.n); got != tt.want {
			t.Errorf("Line(%q, %d): got %q, want %q", tt.in, tt.n, got, tt.want)
		}
	}
}

func TestReveal(t *testing.T) {
	tests := []struct{ in, want string }{
		{"plain\nlines", "plain\nlines"},
		{"a\u200bb\u202e", "a<U+200B>b<U+202E>"},
		{"\x1b[31m", "<U+001B>[31m"},
		{"a\rb\r\nc\u00a0d", "a<U+000D>b\nc<U+00A0>d"},
		{"a" + strings.Repeat("\u0301", 5), "a" + strings.Repeat("\u0301", 4) + "<U+0301>"},
		{"tag\U000e0041", "tag<U+E0041>"},
	}
	for _, tt := range tests {
		if got := Reveal(tt.in); got != tt.want {
			t.Errorf("Reveal(%q): got %q, want %q", tt.in, got, tt.want)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "a\x1b[31mb", "\x1b]8;;x\x07y", "a\u202eb\r\n", "\u009d\x1b\x1b[", "e\u0301\u0301\u0301\u0301\u0301", "\xff\xc2"} {
		f.Add(s, 10, 2)
	}
	f.Fuzz(func(t *testing.T, s string, bytes, lines int) {
		for _, max := range []Limits{{}, {Bytes: bytes}, {Lines: lines}, {bytes, lines}} {
			once, _ := Text(s, max)
			twice, hidden := Text(once, max)
			if once != twice || hidden != 0 {
				t.Errorf("Text(%q, %+v): got %q, and from that %q, %d hidden", s, max, once, twice, hidden)
			}
			if !utf8.ValidString(once) || (max.Bytes > 0 && len(once) > max.Bytes) ||
				(max.Lines > 0 && strings.Count(once, "\n") >= max.Lines) {
				t.Errorf("Text(%q, %+v): got %q", s, max, once)
			}
		}
		for _, shown := range []string{Reveal(s), Line(s, bytes)} {
			if Hidden(shown) != 0 {
				t.Errorf("hidden characters of %q are in %q", s, shown)
			}
		}
		if strings.Contains(Line(s, 0), "\n") {
			t.Errorf("Line(%q) has several", s)
		}
	})
}
