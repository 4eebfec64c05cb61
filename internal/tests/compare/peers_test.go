package main

import (
	"bytes"
	"math"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// TestBriefly runs every scenario on every server: the answers are checked by the
// load generator, the figures mean nothing.
func TestBriefly(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the CPU time of another process is read on Linux only")
	}
	servers, err := pick("floor,troupe,mcpgo,gosdk")
	if err != nil {
		t.Fatal(err)
	}
	cfg := config{times: briefly, servers: servers, only: regexp.MustCompile("")}
	var out bytes.Buffer
	if err := cfg.run(t.Context(), &out); err != nil {
		t.Fatalf("run: %v\n%s", err, out.String())
	}
	for _, s := range scenarios() {
		_, table, ok := strings.Cut(out.String(), "### "+s.name+"\n")
		table, _, _ = strings.Cut(table, "###")
		for _, server := range servers {
			if !ok || !strings.Contains(table, "| "+server.name+" |") {
				t.Errorf("the report has no line of %s in %s:\n%s", server.name, s.name, table)
			}
		}
	}
	for _, g := range goals() {
		if !strings.Contains(out.String(), "| "+g.id+" | "+g.what+" | "+g.scenario+" |") {
			t.Errorf("the report has no verdict on %s, %s, %s", g.id, g.what, g.scenario)
		}
	}
}

func TestGoalsNameScenarios(t *testing.T) {
	known := map[string]*scenario{}
	for _, s := range scenarios() {
		known[s.name] = s
	}
	for _, g := range goals() {
		s := known[g.scenario]
		if s == nil {
			t.Errorf("goal %s: there is no scenario %q", g.id, g.scenario)
			continue
		}
		if !strings.Contains(strings.Join(s.columns, "|"), g.column) {
			t.Errorf("goal %s: scenario %s has no column %q", g.id, g.scenario, g.column)
		}
	}
}

func TestRatio(t *testing.T) {
	r := results{
		"a": {{"x": 3}, {"x": 1}, {"x": 8}},
		"b": {{"x": 2}, {"x": 4}, {"x": 1}},
	}
	median, low, high := r.ratio("a", "b", "x")
	if median != 1.5 || low != 0.25 || high != 8 {
		t.Errorf("ratio: got %v (%v–%v), want 1.5 (0.25–8)", median, low, high)
	}
	if got := r.median("nobody", "x"); !math.IsNaN(got) {
		t.Errorf("median of nothing: got %v, want NaN", got)
	}
}
