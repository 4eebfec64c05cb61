package main

import (
	"io"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// TestRepository holds docs/protocol.md and all tests of the repository together.
func TestRepository(t *testing.T) {
	if err := run(os.DirFS("../../.."), testWriter{t}, false); err != nil {
		t.Error(err)
	}
}

const good = head + "\n" + underHead + `
| CANC-03 | M/S | 03..11 | both | Nothing more for that id. | [TestIt](../a/a_test.go), [y.txtar](../cmd/testdata/y.txtar) |
| CANC-04 | S | all | client | Not the handshake. | |
| PING-02 | – | legacy | – | A definition. | [y.txtar](../cmd/testdata/y.txtar) |

` + withoutHead + "\n" + underWithoutHead + `
| CANC-04 | client | Nobody has thought of one. |
`

// testWriter prints what is found out about the repository.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

func TestParseListRefuses(t *testing.T) {
	for _, tt := range []struct{ name, list, want string }{
		{"nothing", "# Rules\n", "no rows"},
		{"an id twice", good + "| CANC-03 | M | all | both | Again. | |", "line 10: CANC-03 is there twice"},
		{"a short id", "| CANC-3 | M | all | both | x | |", "line 1 is no row"},
		{"an unknown mark", "| CANC-03 | X | all | both | x | |", "no row"},
		{"an unknown revision", "| CANC-03 | M | 25 | both | x | |", "no row"},
		{"an unknown party", "| CANC-03 | M | all | host | x | |", "no row"},
		{"no text", "| CANC-03 | M | all | both |  | |", "no row"},
		{"a long text", "| CANC-03 | M | all | both | " + strings.Repeat("ä", 111) + " | |", "no row"},
	} {
		if _, _, err := parseList(tt.list); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("parseList of a list with %s: got error %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestRun(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	root := fstest.MapFS{
		listFile:                       file(good),
		"a/a_test.go":                  file("package a\n\n// TestIt says CANC-03 in UTF-8.\nfunc TestIt(t *testing.T) {\n\t// CANC-03\n}\n"),
		"a/a.go":                       file("// PING-99: only tests are looked at"),
		"a/node_modules/x_test.go":     file("// PING-98"),
		"a/testdata/transcripts/x.txt": file("PING-97"),
		"cmd/testdata/y.txtar":         file("fine: PING-02, CANC-03"),
	}
	var out strings.Builder
	if err := run(root, &out, false); err != nil {
		t.Fatalf("run: got error %v, want none", err)
	}
	want := "CANC  M 1/1\nCANC  S 0/1  uncited: CANC-04\nall   M 1/1\nall   S 0/1\n" +
		"rules that bind the client: 1 with a test, 1 with a written reason instead\n" +
		"rules that bind the server: 1 with a test, 0 with a written reason instead\n"
	if out.String() != want {
		t.Errorf("run: got\n%s\nwant\n%s", &out, want)
	}

	root["cmd/testdata/z.txtar"] = file("CANC-09 CANC-03/04")
	root["a/a_test.go"] = file("// TestIt: CANC-04")
	root["mcpserver/s_test.go"] = file("// TestOther: CANC-03")
	delete(root, "cmd/testdata/y.txtar")
	err := run(root, io.Discard, false)
	for _, want := range []string{
		"cmd/testdata/z.txtar:1 cites CANC-09,", "cmd/testdata/z.txtar:1 cites CANC-03/04,",
		"CANC-03 binds the client and has neither", // the server's test does not count
		"CANC-04 has a test of the client, and a reason",
		"does not name the tests as they are",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("run: got error %v, want %q in it", err, want)
		}
	}
}
