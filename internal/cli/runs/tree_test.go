package runs

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/admin"
)

// Many quiet siblings are one line, and one that has failed is not among them.
func TestTreeText(t *testing.T) {
	tree := admin.Tree{Process: admin.Process{PID: 7, Command: "worker"}, Kinds: []admin.Kind{{Kind: "call", Live: 3, Inline: 3}}, Dropped: 1,
		Actors: []admin.Actor{{Path: "runtime", Kind: "runtime", State: "live"}, {Path: "runtime/agents", Kind: "agents", State: "live", AgeMS: 3_600_000}}}
	for i := range 1000 {
		a := admin.Actor{Path: "runtime/agents/run-" + string(rune('a'+i%26)) + strings.Repeat("x", i/26), Kind: "run", State: "live"}
		if i == 500 {
			a.LastError, a.Restarts, a.Title = "no\x1b[2J good", 2, "Count."
		}
		tree.Actors = append(tree.Actors, a)
	}
	text := treesText([]admin.Tree{tree})
	for _, want := range []string{"worker, process 7", "└─ agents  live, 1h", "run × 999", "restarted 2 times  Count.  failed with: no", "call × 3", "1 message to actors"} {
		if !strings.Contains(text, want) {
			t.Errorf("the tree has no %q:\n%s", want, text)
		}
	}
	if n := strings.Count(text, "\n"); n > 8 || strings.Contains(text, "\x1b") {
		t.Errorf("the tree has %d lines: %q", n, text)
	}
}
