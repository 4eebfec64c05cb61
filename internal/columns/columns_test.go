package columns

import "testing"

func TestShorten(t *testing.T) {
	tests := []struct {
		text string
		n    int
		want string
	}{
		{"", 3, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "ab…"},
		{"世界", 4, "世界"},
		{"世界人", 5, "世界…"},
		{"世界人", 4, "世…"},
		{"a世", 2, "a…"},
		{"e\u0301e\u0301", 2, "e\u0301e\u0301"},
		{"e\u0301e\u0301e", 2, "e\u0301…"},
		{"abc", 1, "…"},
	}
	for _, tt := range tests {
		got := Shorten(tt.text, tt.n)
		if got != tt.want || Width(got) > tt.n {
			t.Errorf("Shorten(%q, %d): got %q of %d columns, want %q", tt.text, tt.n, got, Width(got), tt.want)
		}
	}
}
