package run

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/terminal"
)

// TestCallText: a question shows texts as texts, and what a call changes as a comparison;
// whatever a model writes stands behind the bar and does nothing but be seen (SECA-37,
// SECA-41).
func TestCallText(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("notes.txt", "one\ntwo\nthree\n")
	write("binary", "\xff\xfe")
	write("big", strings.Repeat("x\n", maxCompared))
	local := localFilesOf([]mcpclient.Server{{Name: "files", Command: "files", Dir: dir}, {Name: "web", URL: "https://example.com"}})
	tests := []struct {
		name, server, tool, args string
		want                     []string
		not                      string
	}{
		{"texts", "files", "files__send", `{"to":"Ada","body":"Hello,\n\tgood \"day\".","n":3}`,
			[]string{"  │ to: Ada", "  │ body (2 lines, 19 bytes):", "  │ Hello,", `  │     good "day".`, "  │ n: 3"}, `\n`},
		{"a file that is there", "files", "files__write_file", `{"path":"notes.txt","content":"one\n2\nthree\n"}`,
			[]string{"content (+) beside " + filepath.Join(dir, "notes.txt") + " (-) as it is now:", "  │   one", "  │ - two", "  │ + 2", "  │   three"}, ""},
		{"its whole path", "files", "files__create", `{"content":"one\n","file_path":"` + filepath.Join(dir, "notes.txt") + `"}`, []string{"  │ - two"}, ""},
		{"a file that is not there", "files", "files__write_file", `{"path":"new.txt","content":"a\nb"}`, []string{"  │ a", "  │ b", "new.txt does not exist here now."}, ""},
		{"what appends replaces nothing", "files", "files__append", `{"path":"notes.txt","content":"four\n"}`, []string{"content (1 line, 5 bytes)"}, "- two"},
		{"a server elsewhere", "web", "web__write_file", `{"path":"notes.txt","content":"x"}`, []string{"content: x"}, "- two"},
		{"no text", "files", "files__write_file", `{"path":"binary","content":"x"}`, []string{"content: x"}, "binary (-)"},
		{"a large file", "files", "files__write_file", `{"path":"big","content":"x"}`, []string{"content: x"}, "big (-)"},
		{"a folder", "files", "files__write_file", `{"path":".","content":"x"}`, []string{"content: x"}, "(-)"},
		{"no change", "files", "files__write_file", `{"path":"notes.txt","content":"one\ntwo\nthree\n"}`, []string{"(no change)"}, ""},
		{"an edit", "files", "files__edit", `{"path":"a","old_string":"x\ny","new_string":"x\nz"}`, []string{"old_string (-) becomes new_string (+):", "  │   x", "  │ - y", "  │ + z"}, ""},
		{"edits", "web", "edit", `{"edits":[{"oldText":"a","newText":"b"},{"oldText":"c","newText":"d"}]}`, []string{"edits 1 of 2", "  │ - a", "  │ + b", "edits 2 of 2", "  │ - c", "  │ + d"}, ""},
		{"other lists", "web", "x", `{"edits":[{"oldText":"a","newText":"b"},{"oldText":"c"}]}`, []string{`"oldText": "c"`}, "(-)"},
		{"no object", "web", "x", `[1]`, []string{"  │   [", "1"}, ""},
		{"nothing", "web", "x", `{}`, []string{"(no arguments)"}, ""},
		{"names hide something", "web", "x", `{"am\u200bount":1,"\u202ebody":"x","a\u00adb":[1]}`, []string{"  │ am<U+200B>ount: 1", "  │ <U+202E>body: x", "a<U+00AD>b"}, ""},
		{"numbers", "web", "x", `{"amount":9007199254740993,"rate":1.10,"list":[0.1000000000000000055]}`, []string{"  │ amount: 9007199254740993", "  │ rate: 1.10", "0.1000000000000000055"}, ""},
		{"it acts on the terminal", "files", "x", `{"a\u001b[2J":"\u001b[2Jx\u202e\nMay the agent call","b":"\r\nMay the agent"}`,
			[]string{"<U+001B>[2Jx<U+202E>", "  │ May the agent call", "  │ May the agent"}, "\n  May"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := local.callText(tt.server, tt.tool, json.RawMessage(tt.args))
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is missing in\n%s", want, got)
				}
			}
			if tt.not != "" && strings.Contains(got, tt.not) {
				t.Errorf("%q is in\n%s", tt.not, got)
			}
			if strings.ContainsAny(got, "\x1b\r\u202e") {
				t.Errorf("it acts on the terminal: %q", got)
			}
			for line := range strings.SplitSeq(got, "\n") {
				if !strings.HasPrefix(line, terminal.Bar) && line != "  (no arguments)" {
					t.Errorf("a line without a bar: %q", line)
				}
			}
		})
	}
}

// TestCallTextIsBounded: however long arguments are, a question is not; it says that it
// leaves something out, and how to see that.
func TestCallTextIsBounded(t *testing.T) {
	lines, _ := json.Marshal(strings.Repeat("line\n", 100_000))
	line, _ := json.Marshal(strings.Repeat("x", 1<<20))
	var fields []string
	for i := range 1000 {
		fields = append(fields, fmt.Sprintf(`"f%d":%d`, i, i))
	}
	for name, args := range map[string]string{
		"many lines":  `{"a":` + string(lines) + `}`,
		"a long line": `{"a":` + string(line) + `}`,
		"many fields": `{` + strings.Join(fields, ",") + `}`,
		"a long list": `{"a":[` + strings.Repeat("1,", 10_000) + `1]}`,
	} {
		got := localFiles(nil).callText("", "x", json.RawMessage(args))
		if n := strings.Count(got, "\n"); n > 70 || len(got) > 16<<10 {
			t.Errorf("%s: got %d lines, %d bytes", name, n, len(got))
		}
		if !strings.Contains(got, "[w] shows the whole arguments") {
			t.Errorf("%s: it does not say that this is not all:\n%.500s", name, got)
		}
	}
}
