// Package mcpschema checks JSON against the official schemas of the protocol
// in tests.
//
// The schemas are not part of this repository. They are read from the directory
// named by MCP_SCHEMA_DIR, or else from ../shared/spec/schema beside the
// repository. Without them a test skips, and says how to get them; with
// REQUIRE_SCHEMAS=1 it fails.
package mcpschema

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/troupe-dev/troupe/internal/uritemplate"
	"github.com/troupe-dev/troupe/mcp"
)

const howTo = `the official MCP schemas are not here. To run this test, download schema/<revision>/schema.json of
https://github.com/modelcontextprotocol/modelcontextprotocol into one folder as <revision>.json
(for 2026-07-28 also its examples, as examples-2026-07-28.json) and set MCP_SCHEMA_DIR to that folder`

// Dir returns the directory of the schemas; the test skips or fails if there is none.
func Dir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("MCP_SCHEMA_DIR")
	if dir == "" {
		dir = filepath.Join(root(t), "..", "shared", "spec", "schema")
	}
	if _, err := os.Stat(filepath.Join(dir, string(mcp.Latest)+".json")); err != nil {
		if os.Getenv("REQUIRE_SCHEMAS") == "1" {
			t.Fatalf("%v: %s", err, howTo)
		}
		t.Skip(howTo)
	}
	return dir
}

// root returns the root of the repository: where go.mod is.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = parent
	}
}

// Schemas are the definitions of one schema file. It may be used by several
// goroutines.
type Schemas struct {
	name     string
	url      string
	defs     string // "definitions" or "$defs"
	names    map[string]bool
	mu       sync.Mutex // guards compiler and compiled
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
}

// Load reads the schema of one revision.
func Load(t testing.TB, v mcp.Version) *Schemas {
	t.Helper()
	return load(t, string(v))
}

// LoadTasks reads the schema of the Tasks extension.
func LoadTasks(t testing.TB) *Schemas {
	t.Helper()
	return load(t, "ext-tasks-draft")
}

func load(t testing.TB, name string) *Schemas {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(Dir(t), name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("reading schema %s: %v", name, err)
	}
	s := &Schemas{
		name: name, url: "mem:///" + name + ".json", names: make(map[string]bool),
		compiler: jsonschema.NewCompiler(), compiled: make(map[string]*jsonschema.Schema),
	}
	for _, key := range []string{"definitions", "$defs"} {
		if defs, ok := doc.(map[string]any)[key].(map[string]any); ok {
			s.defs = key
			for def := range defs {
				s.names[def] = true
			}
		}
	}
	s.compiler.RegisterFormat(&jsonschema.Format{Name: "uri-template", Validate: isTemplate})
	if err := s.compiler.AddResource(s.url, doc); err != nil {
		t.Fatalf("reading schema %s: %v", name, err)
	}
	return s
}

// isTemplate takes the place of the library's own check, which knows no operators
// (RFC 6570, 2.2).
func isTemplate(v any) error {
	if text, ok := v.(string); ok {
		_, err := uritemplate.Parse(text)
		return err
	}
	return nil
}

// Has reports whether the schema has a definition.
func (s *Schemas) Has(def string) bool { return s.names[def] }

// Check fails the test unless raw is valid against a definition.
func (s *Schemas) Check(t testing.TB, def string, raw []byte) {
	t.Helper()
	if err := s.Validate(t, def, raw); err != nil {
		t.Errorf("%s is not a %s of %s: %v", raw, def, s.name, err)
	}
}

// CheckMessage fails the test unless raw is a JSON-RPC message.
func (s *Schemas) CheckMessage(t testing.TB, raw []byte) {
	t.Helper()
	s.Check(t, "JSONRPCMessage", raw)
}

// Validate returns what is wrong with raw by a definition.
func (s *Schemas) Validate(t testing.TB, def string, raw []byte) error {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	return s.schema(t, def).Validate(value)
}

func (s *Schemas) schema(t testing.TB, def string) *jsonschema.Schema {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if compiled, ok := s.compiled[def]; ok {
		return compiled
	}
	compiled, err := s.compiler.Compile(s.url + "#/" + s.defs + "/" + def)
	if err != nil {
		t.Fatalf("schema %s: %v", s.name, err)
	}
	s.compiled[def] = compiled
	return compiled
}

// Examples returns the official examples of 2026-07-28: definition, name, JSON.
func Examples(t testing.TB) map[string]map[string]json.RawMessage {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(Dir(t), "examples-"+string(mcp.Latest)+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var examples map[string]map[string]json.RawMessage
	if err := json.Unmarshal(raw, &examples); err != nil {
		t.Fatalf("reading the examples: %v", err)
	}
	return examples
}

// Equal reports whether two JSON texts mean the same: members may be in any order.
func Equal(a, b []byte) bool {
	x, errX := jsonschema.UnmarshalJSON(bytes.NewReader(a))
	y, errY := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if errX != nil || errY != nil {
		return false
	}
	p, _ := json.Marshal(x) // json.Marshal sorts members
	q, _ := json.Marshal(y)
	return bytes.Equal(p, q)
}
