package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/mcp"
)

// agents: agents with servers of either era, driven by clients of either era. What is done
// is in agent.mjs.
func agents(t *testing.T, b builds) {
	t.Parallel()
	client := peers.Require(t, peers.AgentClient)
	pairs := []eraPair{
		{"v2", "2026-07-28", "2025-11-25", "http"},
		{"v1", "2025-11-25", "2026-07-28", "stdio"},
		{"v1", "2025-11-25", "2025-11-25", "http"},
		{"v2", "2025-11-25", "2025-11-25", "stdio"},
		{"v2", "2025-11-25", "2026-07-28", "http"},
		{"v2", "2026-07-28", "2025-11-25", "stdio"},
		{"v2", "2026-07-28", "2026-07-28", "stdio"},
		{"v2", "2026-07-28", "2026-07-28", "http"},
	}
	for _, p := range thinned(pairs, 2) {
		t.Run(p.String(), func(t *testing.T) {
			join(t)
			era, servers := "old", map[string][]string{"fixture": {b.fixture, "-stdio"}}
			if p.down == string(mcp.V2026_07_28) {
				era, servers["typescript"] = "new", peers.Require(t, peers.Modern)
			} else {
				servers["everything"] = peers.Require(t, peers.Everything)
			}
			troupe, flags := NewTroupe(t, b.troupe, servers)
			flags = append(flags, "--server-protocol", p.down)
			line := append(client[:len(client):len(client)], p.sdk, p.revision, era, p.transport)
			line = append(line, target(t, troupe, p.transport, flags)...)
			drive(t, line, func(got map[string]any) {
				compare(t, got, expectedOfAgents(p))
				endedRuns(t, troupe)
			})
		})
	}
}

// drive runs a client that ends when its stdin does, and looks at its report before that.
func drive(t *testing.T, line []string, look func(got map[string]any)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env, cmd.WaitDelay = []string{"PATH=" + os.Getenv("PATH")}, time.Second
	var errs bytes.Buffer
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, _ := bufio.NewReader(out).ReadBytes('\n')
	var got map[string]any
	if bad := mcp.Unmarshal(said, &got); bad == nil {
		look(got)
	} else {
		t.Errorf("the client: %v", bad)
	}
	in.Close()
	if err := cmd.Wait(); err != nil || t.Failed() {
		t.Errorf("the client: %v\n%s", err, errs.Bytes())
	}
}

// expectedOfAgents is what a client sees.
func expectedOfAgents(p eraPair) map[string]any {
	want := map[string]any{
		"revision": p.revision, "tools": "careful counter helper", "text": "hello", "structured": `{"sum":42} {"sum":42}`, "invalid": true, "progress": true,
		"form": "everything fixture", "page": "everything", "pages": "https://example.com/page", "model": "everything fixture", "roots": "everything fixture",
		"declined": "everything fixture", "samplers": "helper › everything; helper › fixture",
		"asked":   "helper › everything asks: Please look.; helper › everything asks: Please provide inputs for the following fields:; helper › fixture asks: Who are you?",
		"allowed": `careful wants to call fixture › greet with {"name":"Ada"} => Hello, Ada!`, "denied": true, "task": "none",
		"transcript": "text/markdown true finished true true",
		"prompts":    "careful counter helper", "prompt": "Do as you are told. | now", "cancel": "cancelled", "watched": true, "afterwards": "once more",
	}
	if p.down == string(mcp.V2026_07_28) {
		maps.Copy(want, map[string]any{
			"form": "fixture typescript", "page": "fixture typescript", "pages": "https://example.com/sign-in", "model": "fixture typescript", "roots": "fixture typescript",
			"declined": "fixture typescript", "samplers": "helper › fixture; helper › typescript",
			"asked": "helper › fixture asks: Please sign in.; helper › fixture asks: Who are you?; helper › typescript asks: Please sign in.; helper › typescript asks: What is your name?",
		})
	}
	if p.sdk == "v1" {
		want["task"] = `taskCreated result User response: action=accept, content={"email":"my email","username":"my username"}`
	}
	if p.revision == string(mcp.V2026_07_28) {
		want["samplers"] = "" // the SDK does not show the _meta of what is asked
		if p.transport == "http" {
			want["transcript"] = "text/markdown true finished true false" // nobody's runs are in no list
		}
	}
	return want
}

// endedRuns holds the runs against what became of their calls, while the client is still
// there: the one that it gave up was cancelled, all others have ended in order.
func endedRuns(t *testing.T, troupe *peers.Troupe) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	for {
		out, err := troupe.Run(ctx, "runs", "ls", "--json", "--limit", "100")
		if err != nil {
			t.Fatal(err)
		}
		var all []struct{ Title, State string }
		if err := json.Unmarshal(out, &all); err != nil {
			t.Fatalf("troupe runs ls: %v\n%s", err, out)
		}
		states := map[string]int{}
		for _, run := range all {
			states[run.State]++
			if slow := strings.HasPrefix(run.Title, "use fixture__slow_compute"); slow != (run.State == "cancelled") && run.State != "running" {
				t.Errorf("the run %q: got %s", run.Title, run.State)
			}
		}
		if states["running"] == 0 || t.Failed() {
			if states["cancelled"] != 1 || states["finished"] < 10 {
				t.Errorf("runs: got %v, want one that was cancelled and more than ten that have finished", states)
			}
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("runs that do not end: %s", out)
		}
	}
}
