package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The program in the README is the one that is compiled.
func TestReadmeProgram(t *testing.T) {
	root := filepath.Join("..", "..")
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	hello, err := os.ReadFile(filepath.Join(root, "examples", "hello", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(readme), "```go\n")
	block, _, closed := strings.Cut(block, "```")
	if !found || !closed {
		t.Fatal("README.md has no block of Go")
	}
	program := string(hello)
	program = program[strings.Index(program, "package main"):]
	if block != program {
		t.Errorf("the program in README.md is not examples/hello/main.go:\n%s", block)
	}
}

// Everything the README links to is there.
func TestReadmeLinks(t *testing.T) {
	root := filepath.Join("..", "..")
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var prose strings.Builder
	for i, part := range strings.Split(string(readme), "```") {
		if i%2 == 0 { // code between them has brackets of its own
			prose.WriteString(part)
		}
	}
	for _, part := range strings.Split(prose.String(), "](")[1:] {
		link, _, _ := strings.Cut(part, ")")
		if strings.Contains(link, "://") {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(link))); err != nil {
			t.Errorf("README.md links to %s: %v", link, err)
		}
	}
}
