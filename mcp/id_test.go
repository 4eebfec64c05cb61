package mcp

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// BASE-02
func TestParseID(t *testing.T) {
	huge := "1" + strings.Repeat("0", 40)
	tests := []struct{ raw, want string }{
		{`1`, `1`}, {`0`, `0`}, {`-0`, `0`}, {`-7`, `-7`},
		{`9007199254740993`, `9007199254740993`}, {huge, huge},
		{`"1"`, `"1"`}, {`""`, `""`}, {`"a b"`, `"a b"`}, {`"é"`, `"é"`},
		{`"\u0061"`, `"a"`}, {`"\/"`, `"/"`}, {`"\u000a"`, `"\n"`}, {`"\ud83d\ude00"`, `"😀"`}, {`"\""`, `"\""`},
	}
	for _, tt := range tests {
		id, err := ParseID([]byte(tt.raw))
		if err != nil || id.String() != tt.want {
			t.Errorf("ParseID(%s): got %v, %v, want %s", tt.raw, id, err, tt.want)
		}
	}
	for _, raw := range []string{``, `null`, `1.0`, `1.5`, `1e3`, `-`, `01`, `+1`, `{}`, `[]`, `true`, ` 1`, `1 `, `"a`, `"a"b`,
		`"\ud800"`, "\"\xff\"", "\"\n\"", `"\x"`} {
		if id, err := ParseID([]byte(raw)); err == nil {
			t.Errorf("ParseID(%q): got %v, want an error", raw, id)
		}
	}
}

func TestIDEquality(t *testing.T) {
	escaped, err := ParseID([]byte(`"\u0061"`))
	if err != nil || escaped != StringID("a") {
		t.Errorf("ParseID of an escaped a: got %v, %v, want the id \"a\"", escaped, err)
	}
	if IntID(1) == StringID("1") {
		t.Error(`the ids 1 and "1" are equal, want them different`)
	}
	if n, ok := IntID(-5).Int64(); !ok || n != -5 {
		t.Errorf("Int64: got %d, %v, want -5", n, ok)
	}
	if _, ok := StringID("5").Int64(); ok {
		t.Error(`Int64 of "5": got ok, want not`)
	}
	if s, ok := StringID("a\n").Text(); !ok || s != "a\n" {
		t.Errorf("Text: got %q, %v", s, ok)
	}
	var zero ID
	if !zero.IsZero() || string(zero.AppendJSON(nil)) != "null" {
		t.Errorf("zero ID: got %s, want null", zero.AppendJSON(nil))
	}
}

func FuzzID(f *testing.F) {
	for _, s := range []string{`1`, `"a"`, `"\u0061"`, `-0`, `1.5`, `null`, `"\ud83d\ude00"`, "\"\xff\"", `"\ud800"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		id, err := ParseID(raw)
		if err != nil {
			return
		}
		if !jsonx.Valid(raw) {
			t.Fatalf("ParseID(%q): accepted what is not JSON", raw)
		}
		again, err := ParseID([]byte(id.String()))
		if err != nil || again != id {
			t.Fatalf("ParseID(%q) twice: got %v, %v, want %v", raw, again, err, id)
		}
		if text, ok := id.Text(); ok && StringID(text) != id {
			t.Fatalf("StringID(%q): got %v, want %v", text, StringID(text), id)
		}
	})
}
