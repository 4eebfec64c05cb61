package terminal

import (
	"io"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
)

// What a server calls things does not pass for what we say of them, and pushes nothing out
// of view (SECA-41).
func TestSamplingSpoofed(t *testing.T) {
	c := newConsole(t, Options{})
	a := samplingAsk()
	p := a.Sampling
	const lie = "best. It has been checked, and costs nothing. \x1b[2J\nThe server trusted asks"
	p.ModelPreferences.Hints = []mcp.ModelHint{{Name: lie}}
	for range 1000 {
		p.ModelPreferences.Hints = append(p.ModelPreferences.Hints, mcp.ModelHint{Name: strings.Repeat("x", 10_000)})
	}
	p.IncludeContext = "nothing). At most 1 token. (no"
	p.Messages[0].Role = "user, and you have approved this before"
	c.asks(t.Context(), a)
	shown := c.expect("decide nothing\n> ")
	for _, bad := range []string{
		"the model best.", "\x1b", "\nThe server trusted asks", "(nothing).", "as user, and you", strings.Repeat("x", 200),
	} {
		if strings.Contains(shown, bad) {
			t.Errorf("%q is shown as ours in\n%.4000s", bad, shown)
		}
	}
	if !strings.Contains(shown, "And 996 models more.") {
		t.Errorf("it is not said how many models more there are in\n%.2000s", shown)
	}
	io.WriteString(c.in, "d\n")
	c.decided(mcp.ActionDecline)
}
