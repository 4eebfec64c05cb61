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

// Values that differ never have one text, those that are written differently do; without a number that RFC 8785 writes
// otherwise the text is the canonical one.
func TestExact(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{`{"b":1,"a":[true,"x"]}`, ` { "a" : [ true , "\u0078" ], "b": 1 }`, true},
		{`9007199254740993`, `9007199254740992`, false},
		{`{"n":1234567890123456789}`, `{"n":1234567890123456788}`, false},
		{`0.1000000000000000055`, `0.1`, false},
		{`1e400`, `1e500`, false},
		{`-9007199254740993`, `-9007199254740994`, false},
	} {
		a, errA := Exact([]byte(tt.a))
		b, errB := Exact([]byte(tt.b))
		if errA != nil || errB != nil || (string(a) == string(b)) != tt.same {
			t.Errorf("%s and %s: got %s and %s, %v, %v; want the same: %v", tt.a, tt.b, a, b, errA, errB, tt.same)
		}
	}
	const plain = `{"z":9007199254740991,"a":[-5,0,"é"],"m":null}`
	exact, err := Exact([]byte(plain))
	canonical, errC := Canonical([]byte(plain))
	if err != nil || errC != nil || string(exact) != string(canonical) {
		t.Errorf("got %s, %v; want %s as RFC 8785 has it", exact, err, canonical)
	}
}
