package env

import "testing"

// What is shown is what is sent: numbers in their digits, and hidden characters to be seen, in names, too.
func TestIndentJSON(t *testing.T) {
	for _, sent := range []string{"9007199254740993", "1234567890123456789", "1.10", "0.1000000000000000055", "1e400", "-0.0"} {
		if got := IndentJSON([]byte(sent)); got != "  "+sent {
			t.Errorf("shown %s, sent %s", got, sent)
		}
	}
	const hidden = "{\"am\u200bount\":\"1\u202e2\"}"
	if got, want := IndentJSON([]byte(hidden)), "  {\n    \"am<U+200B>ount\": \"1<U+202E>2\"\n  }"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := IndentJSON([]byte("no JSON")); got != "no JSON" {
		t.Errorf("got %q", got)
	}
}
