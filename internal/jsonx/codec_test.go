package jsonx

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// What is recognised without the decoder is what the decoder takes.
func TestValid(t *testing.T) {
	for _, data := range []string{
		"", "t", "true", "false", "null", "truefalse", " true", `"`, `""`, `"Ada"`, `"A" "b"`, `"A"b"`, `"A\"`, `"A\"b"`, `"\x"`, "\"\x01\"", "\"\x7f\"", "\"\xff\"",
		`"é"`, `"a"x`, `x"a"`, `{"a":1}`, `{"a":1,"a":2}`, `[`, "12", `"~ !"`,
	} {
		if got, want := Valid([]byte(data)), jsontext.Value(data).IsValid(); got != want {
			t.Errorf("Valid(%q): got %v, want %v", data, got, want)
		}
	}
}
