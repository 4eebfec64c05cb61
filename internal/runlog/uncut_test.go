package runlog

import (
	"reflect"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// TestUncut: the note of a cut is found where a cut has put it, and no text of a person is taken for one.
func TestUncut(t *testing.T) {
	note := func(c HistoryCut) mcp.Content { return mcp.Text(c.Note()) }
	for _, tt := range []struct {
		name string
		said mcp.Contents
		want HistoryCut
	}{
		{"dropped", mcp.Contents{mcp.Text("go"), note(HistoryCut{Dropped: 7})}, HistoryCut{Dropped: 7}},
		{"summed up", mcp.Contents{mcp.Text("go"), note(HistoryCut{Dropped: 7, Summary: "a\nb"})}, HistoryCut{Dropped: 7, Summary: "a\nb"}},
		{"a summary with the same words", mcp.Contents{mcp.Text("go"), note(HistoryCut{Summary: "x" + noteSummary + "y"})}, HistoryCut{Summary: "x" + noteSummary + "y"}},
		{"nothing", mcp.Contents{mcp.Text("go")}, HistoryCut{}},
		{"the prompt itself", mcp.Contents{note(HistoryCut{Dropped: 7})}, HistoryCut{}},
		{"more behind it", mcp.Contents{mcp.Text("go"), mcp.Text((&HistoryCut{Dropped: 7}).Note() + " Yes?")}, HistoryCut{}},
		{"less than nothing", mcp.Contents{mcp.Text("go"), note(HistoryCut{Dropped: -7})}, HistoryCut{}},
		{"empty", nil, HistoryCut{}},
	} {
		first, got := Uncut(llm.Message{Role: llm.RoleUser, Content: tt.said})
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
		if left := len(tt.said) - len(first.Content); (left == 1) != (got.Note() != "") {
			t.Errorf("%s: %d blocks were taken off", tt.name, left)
		}
	}
}
