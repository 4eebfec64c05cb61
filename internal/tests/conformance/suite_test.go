package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/internal/tests/peers"
)

func TestVerdict(t *testing.T) {
	tests := []struct {
		name   string
		checks string // S, F, W, I and K for the statuses, w for the form of messages
		broken string
		want   string
	}{
		{"all right", "SSI", "", "pass"},
		{"warned", "SW", "", "warn"},
		{"one failure", "SSF", "", "FAIL"},
		{"nothing was right", "WI", "", "FAIL"},
		{"nothing at all", "", "", "FAIL"},
		{"all skipped", "KK", "", "FAIL"},
		{"all skipped but the form of messages", "KKw", "", "FAIL"},
		{"some skipped", "KS", "", "pass"},
		{"the client failed", "SS", "CLIENT EXITED WITH ERROR 1", "FAIL"},
	}
	statuses := map[rune]string{'S': "SUCCESS", 'F': "FAILURE", 'W': "WARNING", 'I': "INFO", 'K': "SKIPPED"}
	for _, tt := range tests {
		v := &verdict{Scenario: scenario{Revision: "2025-11-25", Name: "x", Required: true}, Broken: tt.broken}
		for _, c := range tt.checks {
			if c == 'w' {
				v.Checks = append(v.Checks, check{ID: "wire-schema-valid", Status: "SUCCESS"})
				continue
			}
			v.Checks = append(v.Checks, check{ID: "a", Status: statuses[c]})
		}
		v.count()
		if got := v.line(); !strings.HasPrefix(got, tt.want+"  2025-11-25/x  ") {
			t.Errorf("%s: got %q, want %s", tt.name, got, tt.want)
		}
	}
}

// TestStub: only what is known to be a stub may be skipped, and only as a whole.
func TestStub(t *testing.T) {
	for _, tt := range []struct {
		name, status string
		want         bool
	}{
		{"tasks-status-notifications", "SKIPPED", true},
		{"tasks-status-notifications", "FAILURE", false},
		{"tasks-lifecycle", "SKIPPED", false},
	} {
		v := &verdict{Scenario: scenario{Name: tt.name}, Checks: []check{{ID: "a", Status: tt.status}, {ID: "wire-schema-valid", Status: "SUCCESS"}}}
		v.count()
		if got := v.stub(); got != tt.want {
			t.Errorf("stub of %s that is %s: got %v, want %v", tt.name, tt.status, got, tt.want)
		}
	}
}

// TestPlanOfServers: the suite has what we say that we pass: 30 and 37 that it requires
// of a server, and those beside them.
func TestPlanOfServers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the conformance suite")
	}
	s := open(t)
	plan, _, err := s.plan(t.Context(), servers)
	if err != nil {
		t.Fatal(err)
	}
	all, required := map[string]int{}, map[string]int{}
	for _, sc := range plan {
		all[sc.Revision]++
		if sc.Required {
			required[sc.Revision]++
		}
	}
	for revision, want := range map[string][2]int{"2025-03-26": {1, 0}, "2025-06-18": {27, 0}, "2025-11-25": {33, 30}, "2026-07-28": {53, 37}} {
		if got := [2]int{all[revision], required[revision]}; got != want {
			t.Errorf("scenarios of %s, all and required: got %d, want %d", revision, got, want)
		}
	}
}

// TestNoServer: nothing passes against a server that is not there.
func TestNoServer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the conformance suite")
	}
	s := open(t)
	const nobody = "http://127.0.0.1:1/mcp" // a port that nothing listens at
	plan := []scenario{{Revision: "2025-03-26", Name: "server-session-lifecycle"}}
	for _, v := range append(s.driveAll(t.Context(), "2025-03-26", plan, nobody, t.TempDir()), s.drive(t.Context(), plan[0], nobody, t.TempDir())) {
		if v.passed() || v.stub() {
			t.Errorf("no server: got %s, want a failure", v.line())
		}
	}
}

// TestStrict: what the suite lets pass fails here. A client that does nothing is in
// order by the suite's own count.
func TestStrict(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the conformance suite")
	}
	s := open(t)
	for _, program := range []string{"true", "false"} {
		path, err := exec.LookPath(program)
		if err != nil {
			mcptest.Lacks(t, program, err)
		}
		if v := s.play(t.Context(), scenario{Revision: "2025-11-25", Name: "initialize"}, path, t.TempDir()); v.passed() {
			t.Errorf("%s: got %s, want a failure", program, v.line())
		}
	}
}

// open opens the suite.
func open(t *testing.T) *suite {
	t.Helper()
	s, err := openSuite(t.Context())
	if errors.Is(err, peers.ErrNoNode) && os.Getenv("REQUIRE_PEERS") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestApplying(t *testing.T) {
	names := []string{"tools-list", "server-sse-polling", "tasks-lifecycle", "sep-2640-skills-manifest", "input-required-result-basic-elicitation",
		"input-required-result-multiple-input-requests", "input-required-result-ignore-extra-params", "input-required-result-basic-sampling"}
	var plan []scenario
	for _, name := range names {
		plan = append(plan, scenario{Revision: "2026-07-28", Name: name}, scenario{Revision: "2025-06-18", Name: name})
	}
	apply, without, err := applying(plan)
	if err != nil || len(apply) != 2 || len(without) != 4 {
		t.Errorf("applying: got %v, without %v and error %v, want tools-list and basic-sampling of 2026-07-28", apply, without, err)
	}
	if _, _, err := applying(plan[:2]); err == nil {
		t.Error("applying to a suite without what is left out: got no error")
	}
}
