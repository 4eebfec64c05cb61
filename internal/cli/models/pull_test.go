package models

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/columns"
	"github.com/troupe-dev/troupe/llm/ollama"
)

// pullSteps are what a server says while it gets a model of two parts.
var pullSteps = []ollama.Progress{
	{Status: "pulling manifest"},
	{Status: "pulling aaaa", Digest: "aaaa", Total: 2_000_000_000},
	{Status: "pulling aaaa", Digest: "aaaa", Total: 2_000_000_000, Completed: 250_000_000},
	{Status: "pulling aaaa", Digest: "aaaa", Total: 2_000_000_000, Completed: 260_000_000},
	{Status: "pulling aaaa", Digest: "aaaa", Total: 2_000_000_000, Completed: 2_000_000_000},
	{Status: "pulling aaaa", Digest: "aaaa", Total: 2_000_000_000, Completed: 3_000_000_000}, // more than all
	{Status: "bad\x1b[2Jname", Total: -5, Completed: -7},
	{Status: "success"},
}

func TestPullLines(t *testing.T) {
	var out strings.Builder
	b := &pullBar{out: &out}
	for _, p := range pullSteps {
		b.show(p)
	}
	b.finish()
	want := "  pulling manifest\n  pulling aaaa 0% of 2.0 GB\n  pulling aaaa 10% of 2.0 GB\n  pulling aaaa 100% of 2.0 GB\n  bad\uFFFD[2Jname\n  success\n"
	if out.String() != want {
		t.Errorf("show: got %q, want %q", out.String(), want)
	}
}

func TestPullBar(t *testing.T) {
	var out strings.Builder
	b := &pullBar{out: &out, bar: true, width: func() int { return 80 }}
	for _, p := range pullSteps {
		b.show(p)
	}
	b.finish()
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 5 || lines[4] != "" {
		t.Fatalf("show: got %d lines, want one for each step: %q", len(lines), lines)
	}
	if drawn := strings.Split(lines[1], "\r\x1b[K"); !strings.Contains(drawn[len(drawn)-1], "] 100% 2.0 GB of 2.0 GB") {
		t.Errorf("show: the last drawn line is %q", drawn[len(drawn)-1])
	}
	if strings.Contains(out.String(), "\x1b[2J") {
		t.Error("show: what a server says moved the cursor")
	}
}

// A line never wraps: the terminal could not take it back.
func TestPullLineFits(t *testing.T) {
	for _, width := range []int{-1, 1, 20, 40, 80, 300} {
		for _, step := range []string{"", "pulling aaaa", strings.Repeat("long ", 100)} {
			for _, n := range []int64{-1, 0, 1, 1 << 30, 1 << 40} {
				line := pullLine(step, n, 1<<30, width)
				if got := columns.Width(line); got > max(width-1, 20) {
					t.Errorf("pullLine(%.12q, %d, width %d): got %d cells: %q", step, n, width, got, line)
				}
			}
		}
	}
}
