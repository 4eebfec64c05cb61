package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// blocks returns the blocks of a language in a text of Markdown.
func blocks(text, language string) []string {
	var found []string
	for _, part := range strings.Split(text, "\n```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "\n```")
		found = append(found, block)
	}
	return found
}

// flat is code without its layout.
func flat(code string) string { return strings.Join(strings.Fields(code), " ") }

// Each block of Go in the documentation is a part of a file that is compiled: of an
// example, or of docs_pieces_test.go.
func TestDocsGo(t *testing.T) {
	root := filepath.Join("..", "..")
	compiled := []string{
		"docs_pieces_test.go",
		filepath.Join(root, "examples", "hello", "main.go"),
		filepath.Join(root, "examples", "sampling", "main.go"),
		filepath.Join(root, "llm", "router", "example_test.go"),
	}
	for i, file := range compiled {
		compiled[i] = flat(read(t, file))
	}
	guides, err := filepath.Glob(filepath.Join(root, "docs", "guides", "*.md"))
	if err != nil || len(guides) == 0 {
		t.Fatalf("docs/guides: got %q, %v, want guides", guides, err)
	}
	for _, page := range append(guides, filepath.Join(root, "README.md")) {
		found := blocks(read(t, page), "go")
		if len(found) == 0 {
			t.Errorf("%s has no block of Go", page)
		}
	next:
		for _, block := range found {
			for _, file := range compiled {
				if strings.Contains(file, flat(block)) {
					continue next
				}
			}
			t.Errorf("%s: this is in no file that is compiled:\n%s", page, block)
		}
	}
}

// The targets of make that the documentation names are there.
func TestDocsTargets(t *testing.T) {
	root := filepath.Join("..", "..")
	makefile := read(t, filepath.Join(root, "Makefile"))
	for _, page := range []string{"README.md", "CONTRIBUTING.md"} {
		for line := range strings.Lines(read(t, filepath.Join(root, page))) {
			target, found := strings.CutPrefix(line, "    make ")
			if !found {
				continue
			}
			if target = strings.Fields(target)[0]; !strings.Contains(makefile, "\n"+target+":") {
				t.Errorf("%s names make %s, which is not in the Makefile", page, target)
			}
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
