package archtest

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What the guide says of the weight of package agent is so, but for one part in twenty: a
// package more is nothing, a tree of them is noticed here.
func TestWeight(t *testing.T) {
	guide := read(t, filepath.Join("..", "..", "docs", "guides", "embed.md"))
	said := regexp.MustCompile(`brings (\d+) packages, (\d+) of them the standard\s+library's, and (\d+) modules`).FindStringSubmatch(guide)
	if said == nil {
		t.Fatal("docs/guides/embed.md does not say how many packages agent brings")
	}
	all, standard, modules := 0, 0, make(map[string]bool)
	for _, p := range list(t, "-deps", "./agent") {
		all++
		if p.Standard {
			standard++
		} else if p.Module != nil {
			modules[p.Module.Path] = true
		}
	}
	for i, got := range []int{all, standard, len(modules)} {
		want, err := strconv.Atoi(said[i+1])
		if err != nil {
			t.Fatal(err)
		}
		if got > want+want/20 || got < want-want/20 {
			t.Errorf("%s: agent links %d packages, %d of the standard library, of %d modules", said[0], all, standard, len(modules))
		}
	}
}

// A server links no model and no loop, unless it samples.
func TestServerWeight(t *testing.T) {
	for _, p := range list(t, "-deps", "./mcpserver") {
		for _, heavy := range []string{"/llm", "/actors/loop", "/actors/provider", "/internal/budget"} {
			if path, ok := strings.CutPrefix(p.ImportPath, module); ok && (path == heavy || strings.HasPrefix(path, heavy+"/")) {
				t.Errorf("mcpserver links %s", p.ImportPath)
			}
		}
	}
}

// Of Ollama's module the program links its client: what docs/security.md says of what is known to be wrong with the rest
// is so.
func TestOllamaIsItsClient(t *testing.T) {
	const ollama = "github.com/ollama/ollama/"
	client := []string{"api", "auth", "envconfig", "format", "internal/orderedmap", "types/model", "version"}
	for _, p := range list(t, "-deps", "./cmd/troupe") {
		if part, ok := strings.CutPrefix(p.ImportPath, ollama); ok && !slices.Contains(client, part) {
			t.Errorf("the program links %s", p.ImportPath)
		}
	}
}
