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
// example in examples or of a package, or of docs_pieces_test.go and docs_auth_test.go.
func TestDocsGo(t *testing.T) {
	root := filepath.Join("..", "..")
	compiled := []string{"docs_pieces_test.go", "docs_auth_test.go"}
	for _, pattern := range []string{"examples/*/*.go", "examples/*/*/*.go", "*/example*_test.go", "*/*/example*_test.go"} {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: got %q, %v, want files", pattern, files, err)
		}
		compiled = append(compiled, files...)
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
