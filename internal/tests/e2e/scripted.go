package e2e

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
)

// served is the configuration of the troupe that others' clients drive: an agent that
// does as it is told, one whose calls have to be allowed, and one that answers in JSON.
const served = `version: 1
agents:
  helper:
    description: Does what it is told.
    instructions: Do as you are told.
    approve: never
  careful:
    description: Asks before it does anything.
    instructions: Ask first.
    approve: all
  counter:
    description: Counts.
    instructions: Count.
    servers: []
    input: {type: object, properties: {to: {type: integer}}, required: [to]}
    output: {type: object, properties: {sum: {type: integer}}, required: [sum]}
`

// NewTroupe returns a home for the program with these servers, by name, whose model does
// what the prompt says: "use TOOL ARGUMENTS" calls a tool and repeats what it has
// answered; anything else is repeated at once. Asked for JSON, it answers {"sum": 42}.
func NewTroupe(t testing.TB, program string, servers map[string][]string) (p *peers.Troupe, flags []string) {
	t.Helper()
	model := llmtest.NewServer(llmtest.Func(obey)).Loop()
	web := httptest.NewServer(model)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		for _, failure := range model.Failures() {
			t.Errorf("the model: %s", failure)
		}
	})
	p = &peers.Troupe{Program: program, Home: t.TempDir(), Env: []string{"OPENAI_BASE_URL=" + web.URL, "TROUPE_MODEL=openai/scripted"}}
	type server struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	config := map[string]map[string]server{"mcpServers": {}}
	for name, line := range servers {
		config["mcpServers"][name] = server{line[0], line[1:]}
	}
	data, err := mcp.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	// Names that the program does not find by itself: such a file counts for less.
	mine, others := filepath.Join(p.Home, "agents.yaml"), filepath.Join(p.Home, "servers.json")
	for name, text := range map[string][]byte{mine: []byte(served), others: data} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p, []string{"--config", mine, "--mcp-config", others}
}

// obey is the model.
func obey(_ context.Context, req *llm.Request) llmtest.Turn {
	if len(req.Schema) > 0 {
		return llmtest.Say(`{"sum":42}`)
	}
	if results := llmtest.Results(req); len(results) > 0 {
		return llmtest.Say(strings.Join(results, "; "))
	}
	prompt := req.Messages[len(req.Messages)-1].Content.Text()
	order, found := strings.CutPrefix(prompt, "use ")
	if !found {
		return llmtest.Say(prompt)
	}
	tool, args, _ := strings.Cut(order, " ")
	if args == "" {
		args = "{}"
	}
	return llmtest.Call(tool, json.RawMessage(args))
}
