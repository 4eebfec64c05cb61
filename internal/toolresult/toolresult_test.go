package toolresult

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// TestForModel: of whatever a tool returns the model sees a bounded part, valid text,
// and how much is missing.
func TestForModel(t *testing.T) {
	image := func(n int) mcp.Content { return &mcp.ImageContent{MIMEType: "image/png", Data: make([]byte, n)} }
	many := make(mcp.Contents, 10_000)
	for i := range many {
		many[i] = mcp.Text("line\n")
	}
	empty := make(mcp.Contents, 10_000)
	for i := range empty {
		empty[i] = mcp.Text("")
	}
	tests := []struct {
		name    string
		content mcp.Contents
		limit   int
		want    []string // parts of the text, in order
		blocks  int
	}{
		{"fits", mcp.Contents{mcp.Text("abc"), mcp.Text("def")}, 6, []string{"abc", "def"}, 2},
		{"the second is cut", mcp.Contents{mcp.Text("abc"), mcp.Text("defghi")}, 5, []string{"abc", "de\n[cut here: this text has 6 bytes, 2 of them are shown]"}, 2},
		{"letters stay whole", mcp.Contents{mcp.Text("aé€𝄞")}, 4, []string{"aé\n[cut here"}, 1},
		{"the rest is one note", many, 12, []string{"line\n", "line\n", "li\n[cut here", "[left out: 9997 more blocks of 49985 bytes]"}, 4},
		{"empty blocks are bounded", empty, 100, []string{"[left out: 9744 more blocks of 0 bytes]"}, 257},
		{"images behind much text stay", mcp.Contents{mcp.Text("abcdef"), mcp.Text("g"), image(100)}, 3, []string{"abc\n[cut", "[left out: 1 more blocks of 1 bytes]"}, 3},
		{"an image that is too large", mcp.Contents{image(maxMedia + 1), image(10)}, 3, []string{"[left out: image of 5242881 bytes, which is too large]"}, 2},
		{"a resource that is too large", mcp.Contents{&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "x:y"}}}, 3, []string{"[left out: resource of"}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ForModel("id", &mcp.CallToolResult{Content: tt.content, IsError: true}, tt.limit)
			if got.ToolUseID != "id" || !got.IsError || len(got.Content) != tt.blocks {
				t.Errorf("got %d blocks, want %d: %+v", len(got.Content), tt.blocks, got)
			}
			all := ""
			for _, c := range got.Content {
				if text, ok := c.(*mcp.TextContent); ok {
					all += text.Text + "|"
				}
			}
			if !utf8.ValidString(all) {
				t.Errorf("not UTF-8: %q", all)
			}
			rest := all
			for _, part := range tt.want {
				_, after, ok := strings.Cut(rest, part)
				if !ok {
					t.Fatalf("got %.300q, want %q in it", all, part)
				}
				rest = after
			}
		})
	}
}

// FuzzCutText: what is cut is valid text where it was, and never longer than allowed
// but for the note.
func FuzzCutText(f *testing.F) {
	f.Add("aé€𝄞", 4)
	f.Add("", 0)
	f.Add("\x80\x80\x80", 2)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		if limit < 0 {
			return
		}
		left := limit
		got := cutText(s, &left)
		head, _, cut := strings.Cut(got, "\n[cut here: this text has "+fmt.Sprint(len(s)))
		if len(s) > limit && (!cut && !strings.Contains(s, "\n[cut here") || len(head) > limit) || left < 0 {
			t.Errorf("cutText(%q, %d): got %q, left %d", s, limit, got, left)
		}
		if utf8.ValidString(s) && !utf8.ValidString(got) {
			t.Errorf("cutText(%q, %d): got %q, which is not UTF-8", s, limit, got)
		}
	})
}

// TestWritable: a result can be written afterwards, with its text as valid UTF-8, or is an error.
func TestWritable(t *testing.T) {
	low := 0.5
	type result = mcp.CallToolResult
	tests := []struct {
		name  string
		in    *result
		text  string // of the first block
		wrong bool
	}{
		{"nothing", &result{}, "", false},
		{"text", &result{Content: mcp.Contents{mcp.Text("é")}}, "é", false},
		{"a file's bytes", &result{Content: mcp.Contents{mcp.Text("a\xffb")}}, "a\uFFFDb", false},
		{"one of two", &result{Content: mcp.Contents{mcp.Text("a"), mcp.Text("\xff")}}, "a", false},
		{"structured", &result{StructuredContent: []byte(` {"a": [1]}`)}, "", false},
		{"structured, no JSON", &result{StructuredContent: []byte(`{"a":`)}, "", true},
		{"structured, empty", &result{StructuredContent: []byte{}}, "", true},
		{"structured, twice a name", &result{StructuredContent: []byte(`{"a":1,"a":2}`)}, "", true},
		{"an image", &result{Content: mcp.Contents{&mcp.ImageContent{Data: []byte{0xff}, MIMEType: "image/png"}}}, "", false},
		{"an image of a strange type", &result{Content: mcp.Contents{&mcp.ImageContent{MIMEType: "\xff"}}}, "", true},
		{"a sound of a strange type", &result{Content: mcp.Contents{&mcp.AudioContent{MIMEType: "\xff"}}}, "", true},
		{"annotations", &result{Content: mcp.Contents{&mcp.TextContent{Text: "a", Annotations: &mcp.Annotations{Priority: &low}}}}, "a", false},
		{"meta", &result{Content: mcp.Contents{&mcp.TextContent{Text: "a", Meta: mcp.Meta{"x": []byte(`{`)}}}}, "", true},
		{"meta of the result", &result{Meta: mcp.Meta{"x": []byte(`{`)}}, "", true},
		{"more members", &result{Extra: map[string]json.RawMessage{"x": []byte(`]`)}}, "", true},
		{"no block", &result{Content: mcp.Contents{nil}}, "", true},
		{"a link", &result{Content: mcp.Contents{&mcp.ResourceLink{URI: "x:\xff"}}}, "", true},
		{"a result type", &result{ResultType: "\xff"}, "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Writable(tt.in)
			if (err != nil) != tt.wrong {
				t.Fatalf("Writable: got %+v, %v, want an error: %v", got, err, tt.wrong)
			}
			if err != nil {
				return
			}
			if _, err := jsonx.Marshal(got); err != nil {
				t.Errorf("writing it: %v", err)
			}
			if len(got.Content) > 0 && tt.text != "" && got.Content[0].(*mcp.TextContent).Text != tt.text {
				t.Errorf("got the text %q, want %q", got.Content[0].(*mcp.TextContent).Text, tt.text)
			}
		})
	}
	if got, err := Writable(nil); got != nil || err != nil {
		t.Errorf("Writable(nil): got %v, %v", got, err)
	}
}
