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
	if err := run(os.DirFS("../.."), io.Discard); err != nil {
		t.Error(err)
	}
}

const good = head + "\n" + underHead + `
| CANC-03 | M/S | 03..11 | both | Nothing more for that id. |
| CANC-04 | S | all | client | Not the handshake. |
| PING-02 | – | legacy | – | A definition. |
`

func TestParseListRefuses(t *testing.T) {
	for _, tt := range []struct{ name, list, want string }{
		{"nothing", "# Rules\n", "no rows"},
		{"an id twice", good + "| CANC-03 | M | all | both | Again. |", "line 6: CANC-03 is there twice"},
		{"a short id", "| CANC-3 | M | all | both | x |", "line 1 is no row"},
		{"an unknown mark", "| CANC-03 | X | all | both | x |", "no row"},
		{"an unknown revision", "| CANC-03 | M | 25 | both | x |", "no row"},
		{"an unknown party", "| CANC-03 | M | all | host | x |", "no row"},
		{"no text", "| CANC-03 | M | all | both |  |", "no row"},
		{"a long text", "| CANC-03 | M | all | both | " + strings.Repeat("ä", 111) + " |", "no row"},
	} {
		if _, err := parseList(tt.list); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("parseList of a list with %s: got error %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestRun(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	root := fstest.MapFS{
		listFile:                       file(good),
		"a/a_test.go":                  file("// CANC-03: UTF-8 text.\n"),
		"a/a.go":                       file("// PING-99: only tests are looked at"),
		"a/node_modules/x_test.go":     file("// PING-98"),
		"a/testdata/transcripts/x.txt": file("PING-97"),
	}
	var out strings.Builder
	if err := run(root, &out); err != nil {
		t.Fatalf("run: got error %v, want none", err)
	}
	want := "CANC  M 1/1\nCANC  S 0/1  uncited: CANC-04\nall   M 1/1\nall   S 0/1\n"
	if out.String() != want {
		t.Errorf("run: got\n%s\nwant\n%s", &out, want)
	}

	root["b/testdata/y.txtar"] = file("fine: PING-02\nCANC-09 CANC-03/04")
	err := run(root, io.Discard)
	for _, want := range []string{"b/testdata/y.txtar:2 cites CANC-09,", "b/testdata/y.txtar:2 cites CANC-03/04,"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("run: got error %v, want %q in it", err, want)
		}
	}
}
