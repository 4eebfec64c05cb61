package jsonx

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// AppendQuote writes what the codec writes.
func FuzzAppendQuote(f *testing.F) {
	for _, s := range []string{"", "plain text that is long enough", "a\"b\\c\n\t\x00\x7f", "é\u2028😀", "\xff\xc0\xafx", "1234567\"", "12345678\x1f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got := AppendQuote(nil, s); string(got) != string(codecQuote(s)) {
			t.Errorf("AppendQuote(%q): got %s, want %s", s, got, codecQuote(s))
		}
	})
}

func codecQuote(s string) []byte {
	quoted, err := jsontext.AppendQuote(nil, s)
	_ = err // invalid UTF-8 has been replaced
	return quoted
}
