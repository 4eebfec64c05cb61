package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/mcpclient"
)

func TestNotesLast(t *testing.T) {
	file := filepath.Join(t.TempDir(), "odd #name?.db")
	call := func(tool, args string) string {
		t.Helper()
		book, err := open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer book.db.Close()
		s, err := newServer(book)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		client, err := mcpclient.Dial(t.Context(), mcpclient.InProcess("notebook", s), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		res, err := client.CallTool(t.Context(), tool, json.RawMessage(args), nil)
		if err != nil {
			t.Fatalf("%s %s: %v", tool, args, err)
		}
		return res.Content.Text()
	}
	if got := call("add_note", `{"title":"Oslo","text":"100% rain"}`); got != `{"id":1}` {
		t.Errorf("add_note: got %s", got)
	}
	call("add_note", `{"title":"Rome","text":"sun"}`)
	tests := []struct{ args, want, not string }{
		{`{"words":"RAIN"}`, "Oslo", "Rome"},
		{`{"words":"%"}`, "Oslo", "Rome"}, // a text, not a pattern
		{`{}`, "Rome", "Paris"},
		{`{"words":"'; DROP TABLE notes"}`, `"notes":[]`, "Oslo"},
	}
	for _, tt := range tests {
		if got := call("find_notes", tt.args); !strings.Contains(got, tt.want) || strings.Contains(got, tt.not) {
			t.Errorf("find_notes %s: got %s, want %s and not %s", tt.args, got, tt.want, tt.not)
		}
	}
	if got := call("add_note", `{"title":" ","text":"x"}`); !strings.Contains(got, "empty") {
		t.Errorf("add_note without a title: got %s", got)
	}
}
