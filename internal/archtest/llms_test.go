package archtest

import (
	"flag"
	"fmt"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write llms.txt")

// llms.txt (llmstxt.org) names every page, example and package, each with its own words.
// After a page is added: go test ./internal/archtest -run TestLLMs -update
func TestLLMs(t *testing.T) {
	root := filepath.Join("..", "..")
	want := llms(t, root)
	path := filepath.Join(root, "llms.txt")
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := strings.Split(read(t, path), "\n")
	for _, line := range strings.Split(want, "\n") {
		if !slices.Contains(got, line) {
			t.Errorf("llms.txt lacks the line\n%s", line)
		}
	}
	if len(got) != len(strings.Split(want, "\n")) {
		t.Error("llms.txt has lines that no page, example or package stands for")
	}
	if t.Failed() {
		t.Log("go test ./internal/archtest -run TestLLMs -update writes it")
	}
}

// llms is the text that llms.txt has to have.
func llms(t *testing.T, root string) string {
	title, first := page(t, filepath.Join(root, "README.md"))
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n> %s\n\nThe command line says of itself what it does: troupe help, troupe COMMAND --help with examples, troupe help exit-codes.\n"+
		"Lists are there as JSON: --json. The configuration is checked by troupe config check, everything by troupe doctor.\n", title, first)
	section := func(name string, lines []string) {
		fmt.Fprintf(&b, "\n## %s\n\n%s", name, strings.Join(lines, ""))
	}
	section("Docs", append(pages(t, root, "README.md"), pages(t, root, "docs/*.md")...))
	section("Guides", pages(t, root, "docs/guides/*.md"))
	section("Examples", examples(t, root))
	section("Packages", packages(t, root))
	section("Optional", pages(t, root, "C*.md"))
	return b.String()
}

func link(name, path, about string) string {
	return fmt.Sprintf("- [%s](%s): %s\n", name, filepath.ToSlash(path), about)
}

func pages(t *testing.T, root, pattern string) (lines []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: got %d pages and error %v", pattern, len(found), err)
	}
	for _, path := range found {
		title, first := page(t, path)
		lines = append(lines, link(title, relative(t, root, path), first))
	}
	return lines
}

var markdownLink = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// page returns the title of a page and its first sentence.
func page(t *testing.T, path string) (title, first string) {
	t.Helper()
	var paragraph []string
	code := false
	for line := range strings.Lines(read(t, path)) {
		line = strings.TrimRight(line, "\n")
		fence := strings.HasPrefix(line, "```")
		code = code != fence
		switch {
		case code, fence, strings.HasPrefix(line, "    "):
		case title == "":
			title = strings.TrimPrefix(line, "# ")
		case strings.HasPrefix(line, "#"):
		case line == "" && paragraph != nil:
			return title, sentence(paragraph)
		case line != "":
			paragraph = append(paragraph, line)
		}
	}
	if title == "" || paragraph == nil {
		t.Fatalf("%s has no title or no text", path)
	}
	return title, sentence(paragraph)
}

func sentence(paragraph []string) string {
	text := markdownLink.ReplaceAllString(strings.Join(paragraph, " "), "$1")
	return strings.TrimSuffix(new(doc.Package).Synopsis(strings.ReplaceAll(text, "`", "")), ":")
}

// examples are the programs below examples.
func examples(t *testing.T, root string) (lines []string) {
	t.Helper()
	found, err := os.ReadDir(filepath.Join(root, "examples"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range found {
		if !d.IsDir() {
			continue
		}
		if about := synopsis(t, filepath.Join(root, "examples", d.Name())); about != "" {
			lines = append(lines, link(d.Name(), "examples/"+d.Name(), about))
		}
	}
	return lines
}

// packages are those that other programs can import.
func packages(t *testing.T, root string) (lines []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		case path != root && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"internal", "examples", "benchmarks", "cmd", "testdata", "docs", "node_modules"}, d.Name())):
			return fs.SkipDir
		}
		if about := synopsis(t, path); about != "" {
			name := relative(t, root, path)
			lines = append(lines, link(name, name, about))
		}
		return nil
	})
	if err != nil || len(lines) < 10 {
		t.Fatalf("got %d packages and error %v", len(lines), err)
	}
	return lines
}

// synopsis is the first sentence of a package's documentation; empty for a folder without
// one.
func synopsis(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if f.Doc != nil {
			return strings.TrimSuffix(new(doc.Package).Synopsis(f.Doc.Text()), ":")
		}
	}
	return ""
}

func relative(t *testing.T, root, path string) string {
	t.Helper()
	rel, err := filepath.Rel(root, path)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.ToSlash(rel)
}
