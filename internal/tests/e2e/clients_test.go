package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/mcp"
)

// everywhereElse is what each client sees of the fixture in each revision, where not
// said otherwise; see client.mjs for what is done.
var everywhereElse = map[string]any{
	"server": "troupe-conformance", "tools": true, "text": "This is a simple text response for testing.",
	"contents": "text image resource", "failure": true, "arguments": true, "unknown": -32602.0, "many": true,
	"progress": true, "logs": "Tool execution started; Tool processing data; Tool execution completed",
	"form":      `User response: action=accept, content={"email":"my email","username":"my username"}`,
	"defaults":  `Elicitation completed: action=accept, content={"age":30,"name":"John Doe","score":95.5,"status":"active","verified":true}`,
	"enums":     `Elicitation completed: action=accept, content={"legacyEnum":"opt1","titledMulti":["value1"],"titledSingle":"value1","untitledMulti":["option1"],"untitledSingle":"option1"}`,
	"page":      "Signed in",
	"sample":    "LLM response: reply to a question",
	"loop":      "clear over Oslo, the 9:05 to Oslo: 2 turns, 2 calls",
	"roots":     "Roots: file:///project",
	"several":   `reply to Generate a greeting "my name" of file:///project`,
	"rounds":    "my name likes my color.",
	"state":     "state-ok",
	"declined":  "User response: action=decline, content={}",
	"asked":     "Who are you?; Please fill in this form.; Please fill in this form.; Please sign in.; What is your name?; Step 1: What is your name?; Step 2: What is your favorite color?; Please confirm; And now?",
	"resources": "skill://acme/billing/refunds/SKILL.md skill://git-workflow/SKILL.md test://static-binary test://static-text test://watched-resource",
	"read":      "This is the content of the static text resource.", "blob": true,
	"template": `{"id":"42","templateTest":true,"data":"Data for ID: 42"}`,
	"missing":  -32002.0, "watch": true, "change": true, "prompts": 5.0,
	"prompt": "Prompt with arguments: arg1='a', arg2='b'", "asking": "Use this context: my context", "complete": "paris park party",
	"cancel": "cancelled", "afterwards": "Hello, once more!",
}

// instead are the differences, by SDK: version 2 gives the error of older revisions the
// code of the newest.
var instead = map[string]map[string]any{
	"v2": {"missing": -32602.0},
}

// TestClientsOfOthers: both SDKs for TypeScript drive the fixture in both eras, over
// every transport they have.
func TestClientsOfOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real MCP clients")
	}
	t.Parallel()
	client := peers.Require(t, peers.Client)
	program := peers.RequireFixture(t)
	tests := []struct {
		sdk, revision, transport string
		args                     []string // of the fixture
	}{
		{sdk: "v1", revision: "2025-11-25", transport: "stdio"},
		{sdk: "v1", revision: "2025-11-25", transport: "http"},
		{sdk: "v1", revision: "2025-11-25", transport: "sse"},
		{sdk: "v2", revision: "2025-11-25", transport: "stdio"},
		{sdk: "v2", revision: "2025-11-25", transport: "http"},
		{sdk: "v2", revision: "2026-07-28", transport: "stdio"},
		{sdk: "v2", revision: "2026-07-28", transport: "http"},
		{sdk: "v2", revision: "2026-07-28", transport: "stdio", args: []string{"-park=false"}},
		{sdk: "v2", revision: "2026-07-28", transport: "http", args: []string{"-park=false"}},
	}
	for _, tt := range tests {
		t.Run(strings.Join(append([]string{tt.sdk, tt.revision, tt.transport}, tt.args...), " "), func(t *testing.T) {
			t.Parallel()
			line := append(client[:len(client):len(client)], tt.sdk, tt.revision, tt.transport)
			switch tt.transport {
			case "stdio":
				line = append(append(line, program, "-stdio"), tt.args...)
			case "sse":
				line = append(line, peers.ListenFixture(t, program, tt.args...).SSE())
			default:
				line = append(line, peers.ListenFixture(t, program, tt.args...).URL)
			}
			compare(t, report(t, line), expected(tt.sdk, tt.revision))
		})
	}
}

// report runs a client to its end and returns what it has seen.
func report(t *testing.T, line []string) map[string]any {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	err := cmd.Run()
	var got map[string]any
	if bad := mcp.Unmarshal(out.Bytes(), &got); bad != nil {
		t.Fatalf("%s: %v\n%s", line, err, errs.Bytes())
	}
	if err != nil || t.Failed() {
		t.Errorf("the client: %v\n%s", err, errs.Bytes())
	}
	return got
}
