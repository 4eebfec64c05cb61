package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/linediff"
	"github.com/troupe-dev/troupe/internal/sanitize"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/terminal"
)

// Bounds of what a question shows of the arguments of a call; all of them can be asked for.
const (
	maxShownLines  = 60        // of one value
	maxShownBytes  = 6 << 10   // of one value
	maxShownFields = 30        // of an object
	maxCompared    = 256 << 10 // of a file, in bytes
	aroundChange   = 3         // lines that are shown around a change
)

// localFiles finds the files of this computer that calls of servers here may change: the
// working folders of the servers that are programs, by their names. Without any it finds
// none.
type localFiles map[string]string

func localFilesOf(servers []mcpclient.Server) localFiles {
	l := make(localFiles)
	for i := range servers {
		if s := &servers[i]; s.Command != "" {
			if dir, err := filepath.Abs(s.Dir); err == nil {
				l[s.Name] = dir
			}
		}
	}
	return l
}

// callText shows the arguments of a call for a decision: texts as texts, and what the call
// changes as a comparison where the arguments say it. It is bounded, and says what it
// leaves out; nothing of it acts on a terminal.
func (l localFiles) callText(server, tool string, arguments json.RawMessage) string {
	fields, ok := jsonx.Members(arguments)
	if !ok {
		return behindBar(env.IndentJSON(arguments))
	}
	if len(fields) == 0 {
		return "  (no arguments)"
	}
	var out []string
	left := 0
	add := func(text string, cut int) { out, left = append(out, text), left+cut }
	shown := fields[:min(len(fields), maxShownFields)]
	for i, f := range shown {
		if i > 0 && isReplacement(shown[i-1].Name, f.Name) {
			continue // it was shown beside the text that it replaces
		}
		switch text, isText := jsonx.Text(f.Value); {
		case i+1 < len(shown) && isReplacement(f.Name, shown[i+1].Name):
			add(replacement(f, shown[i+1]))
		case isText && isContent(f.Name):
			add(l.content(server, tool, f.Name, text, fields))
		case isText:
			add(valueText(f.Name, text))
		default:
			add(jsonText(f.Name, f.Value))
		}
	}
	if left += len(fields) - len(shown); left > 0 {
		out = append(out, "  !! This is not all of it: [w] shows the whole arguments.")
	}
	return strings.Join(out, "\n")
}

// shownName is the name of an argument, with hidden characters to be seen.
func shownName(name string) string { return sanitize.Line(sanitize.Reveal(name), 60) }

// valueText shows a text; cut is above zero if that is not all of it.
func valueText(name, text string) (shown string, cut int) {
	name = shownName(name)
	if !strings.Contains(text, "\n") && len(text) <= 200 {
		return behindBar(name + ": " + sanitize.Reveal(text)), 0
	}
	lines := strings.Split(strings.TrimSuffix(sanitize.Reveal(text), "\n"), "\n")
	body, cut := bounded(lines)
	return fmt.Sprintf("%s (%s, %d bytes):\n%s", behindBar(name), env.Count(len(lines), "line"), len(text), body), cut
}

// jsonText shows what is no text; replacements in it as a comparison.
func jsonText(name string, value json.RawMessage) (shown string, cut int) {
	var edits []json.RawMessage
	if json.Unmarshal(value, &edits) == nil && len(edits) > 0 && len(edits) <= maxShownFields {
		var out []string
		for i, e := range edits {
			fields, ok := jsonx.Members(e)
			at := slices.IndexFunc(fields, func(f jsonx.Member) bool { return slices.Contains(oldNames, plainName(f.Name)) })
			if !ok || at < 0 || len(fields) != 2 || !isReplacement(fields[at].Name, fields[1-at].Name) {
				out = nil
				break
			}
			text, c := replacement(fields[at], fields[1-at])
			cut += c
			out = append(out, fmt.Sprintf("%s %d of %d\n%s", behindBar(shownName(name)), i+1, len(edits), text))
		}
		if out != nil {
			return strings.Join(out, "\n"), cut
		}
	}
	lines := strings.Split(strings.TrimSpace(env.IndentJSON(value)), "\n")
	if len(lines) == 1 && len(lines[0]) <= 200 {
		return behindBar(shownName(name) + ": " + lines[0]), 0
	}
	body, cut := bounded(lines)
	return behindBar(shownName(name)) + ":\n" + body, cut
}

// Names that tools for editing use, without case and dashes.
var (
	pathNames    = []string{"path", "file", "filepath", "filename"}
	contentNames = []string{"content", "contents", "filetext", "newcontent", "text", "data"}
	oldNames     = []string{"oldtext", "oldstring", "oldstr", "old", "search", "find"}
	newNames     = []string{"newtext", "newstring", "newstr", "new", "replace", "replace"}
)

func plainName(name string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
}

func isContent(name string) bool { return slices.Contains(contentNames, plainName(name)) }

// isReplacement reports whether two arguments are a text and what takes its place.
func isReplacement(before, after string) bool {
	i := slices.Index(oldNames, plainName(before))
	return i >= 0 && newNames[i] == plainName(after)
}

func replacement(before, after jsonx.Member) (shown string, cut int) {
	a, okA := jsonx.Text(before.Value)
	b, okB := jsonx.Text(after.Value)
	if !okA || !okB {
		one, cutOne := jsonText(before.Name, before.Value)
		two, cutTwo := jsonText(after.Name, after.Value)
		return one + "\n" + two, cutOne + cutTwo
	}
	body, cut := compared(a, b)
	return fmt.Sprintf("%s (-) becomes %s (+):\n%s", behindBar(shownName(before.Name)), shownName(after.Name), body), cut
}

// replaces are words in the names of tools that put a text in the place of a whole file.
var replaces = []string{"write", "create", "save", "put", "overwrite", "replace"}

// content shows what a file is to have: beside what it has now, if the tool replaces a
// file, and it is one that can be read here.
func (l localFiles) content(server, tool, name, text string, fields []jsonx.Member) (shown string, cut int) {
	whole := slices.ContainsFunc(replaces, func(w string) bool { return strings.Contains(strings.ToLower(tool), w) })
	dir, local := l[server]
	at := slices.IndexFunc(fields, func(f jsonx.Member) bool { return slices.Contains(pathNames, plainName(f.Name)) })
	if !whole || !local || at < 0 {
		return valueText(name, text)
	}
	path, ok := jsonx.Text(fields[at].Value)
	if !ok || path == "" {
		return valueText(name, text)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	now, err := readShort(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		shown, cut = valueText(name, text)
		return shown + "\n" + behindBar(sanitize.Line(path, 200)) + " does not exist here now.", cut
	case err != nil:
		return valueText(name, text)
	}
	body, cut := compared(now, text)
	return fmt.Sprintf("%s (+) beside %s (-) as it is now:\n%s", behindBar(shownName(name)), sanitize.Line(path, 200), body), cut
}

var errNoText = errors.New("it is no short text file")

// readShort reads a text file that is not large.
func readShort(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxCompared {
		return "", errNoText
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxCompared+1))
	if err != nil || len(data) > maxCompared || !utf8.Valid(data) {
		return "", errNoText
	}
	return string(data), nil
}

// compared shows how two texts differ, with some lines around each change.
func compared(a, b string) (shown string, cut int) {
	if a == b {
		return terminal.Bar + "(no change)", 0
	}
	split := func(s string) []string { return strings.Split(sanitize.Reveal(s), "\n") }
	all := linediff.Lines(split(a), split(b))
	near := make([]bool, len(all))
	for i, l := range all {
		if l.Mark != ' ' {
			for j := max(0, i-aroundChange); j <= min(len(all)-1, i+aroundChange); j++ {
				near[j] = true
			}
		}
	}
	var lines []string
	equal := 0
	flush := func() {
		if equal > 0 {
			lines = append(lines, fmt.Sprintf("  … %s as before", env.Count(equal, "line")))
			equal = 0
		}
	}
	for i, l := range all {
		if !near[i] {
			equal++
			continue
		}
		flush()
		lines = append(lines, string(l.Mark)+" "+l.Text)
	}
	flush()
	return bounded(lines)
}

// bounded puts lines behind the bar, as many as a question shows. Cut is how many it does
// not show.
func bounded(lines []string) (shown string, cut int) {
	size, n := 0, 0
	for n < len(lines) && n < maxShownLines && size+len(lines[n]) <= maxShownBytes {
		size += len(lines[n]) + 1
		n++
	}
	out := slices.Clone(lines[:n])
	if cut = len(lines) - n; cut == 0 {
		return behindBar(strings.Join(out, "\n")), 0
	}
	if n == 0 { // one long line
		out = append(out, sanitize.Line(lines[0], 1000))
	}
	return behindBar(strings.Join(append(out, fmt.Sprintf("  … %s more", env.Count(len(lines)-len(out), "line"))), "\n")), cut
}

// behindBar puts the bar before lines that others have written.
func behindBar(text string) string {
	return terminal.Bar + strings.ReplaceAll(text, "\n", "\n"+terminal.Bar)
}
