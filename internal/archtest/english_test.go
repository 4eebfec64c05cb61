package archtest

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// vague are words that hide the subject of a sentence, see CONTRIBUTING.md.
var vague = regexp.MustCompile(`(?i)\b(nobody|somebody|anybody|whoever|can not|let go|no such thing)\b`)

// TestEnglish: comments, texts and documents of the product name their subjects.
func TestEnglish(t *testing.T) {
	top := root(t)
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if strings.HasPrefix(rel, ".") && rel != "." {
				return filepath.SkipDir
			}
			return nil
		}
		switch ext := filepath.Ext(rel); {
		case ext != ".go" && ext != ".md", strings.HasSuffix(rel, "_test.go"), rel == "CONTRIBUTING.md", rel == "CHANGELOG.md", rel == "docs/protocol.md":
			return nil
		}
		for i, line := range strings.Split(read(t, path), "\n") {
			if word := vague.FindString(line); word != "" {
				t.Errorf("%s:%d: %q hides who acts; name the subject (CONTRIBUTING.md)", rel, i+1, word)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
