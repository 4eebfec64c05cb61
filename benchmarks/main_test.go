package main

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/benchmarks/turn"
)

// TestPrograms: the programs that need no other project do the work, in memory, with a database,
// with sessions that wait, and over HTTP. That they do it right they see themselves.
func TestPrograms(t *testing.T) {
	o := options{bin: t.TempDir(), sessions: 10}
	if err := o.build(t.Context(), "model"); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.program != "floor" && e.program != "troupe" {
			continue
		}
		if err := o.build(t.Context(), e.program); err != nil {
			t.Fatal(err)
		}
		r, err := o.measure(t.Context(), e, []string{"-at", "3", "-sessions", "10"})
		if err != nil || r.CPU <= 0 || r.Allocs <= 0 || r.Gap99 <= 0 || r.Sessions <= 0 {
			t.Errorf("%s: got %+v, %v", e.name, r, err)
		}
		if r, err = o.measure(t.Context(), e, []string{"-live", "20"}); err != nil || r.Live <= 0 {
			t.Errorf("%s with sessions that wait: got %+v, %v", e.name, r, err)
		}
		remote := o
		remote.http = true
		if r, err = remote.measure(t.Context(), e, []string{"-at", "3", "-sessions", "10"}); err != nil || r.CPU <= 0 || r.Gap99 != 0 || r.Sessions <= 0 {
			t.Errorf("%s over HTTP: got %+v, %v", e.name, r, err)
		}
	}
}

// TestSpread: a table has medians.
func TestSpread(t *testing.T) {
	reports := []turn.Report{{CPU: 3}, {CPU: 1}, {CPU: 20}}
	if low, mid, high := spread(reports, passing[0].of); low != 1 || mid != 3 || high != 20 {
		t.Errorf("got %v, %v, %v, want 1, 3, 20", low, mid, high)
	}
	if got := strings.Join([]string{figure(1.234), figure(12.34), figure(1234)}, " "); got != "1.23 12.3 1234" {
		t.Errorf("got %q", got)
	}
}
