package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// camelKey is how the members of our JSON are named: as MCP names its own.
var camelKey = regexp.MustCompile(`^_?[a-z][a-zA-Z0-9]*$`)

// free are members whose value is not ours to name: data of servers, models and users, and
// objects whose keys are names.
var free = []string{"arguments", "input", "structured", "structuredContent", "inputSchema", "outputSchema", "schema", "requestedSchema",
	"_meta", "answer", "default", "capabilities", "tools", "env", "headers"}

// badKeys are the members of JSON, or of lines of JSON, that are not in camelCase.
func badKeys(text string) (bad []string) {
	dec := json.NewDecoder(strings.NewReader(text))
	for {
		var v any
		if dec.Decode(&v) != nil {
			return bad
		}
		bad = append(bad, walkKeys("", v)...)
	}
}

func walkKeys(path string, v any) (bad []string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			bad = append(bad, walkKeys(path, e)...)
		}
	case map[string]any:
		for key, e := range v {
			if !camelKey.MatchString(key) {
				bad = append(bad, path+"."+key)
			}
			if !slices.Contains(free, key) {
				bad = append(bad, walkKeys(path+"."+key, e)...)
			}
		}
	}
	return bad
}

// printsJSON reports whether a command line asks for JSON.
func printsJSON(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		return a == "--json" || a == "json" || a == "stream-json" || strings.HasPrefix(a, "--output-format=") || a == "worker"
	})
}

// TestJSONCase: all JSON that the commands print has its members in camelCase. What they
// really print is looked at by the scripts; this looks at the types it is made of, so that
// none is forgotten.
func TestJSONCase(t *testing.T) {
	t.Parallel()
	seen := 0
	dirs, err := filepath.Glob("../../internal/cli/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("found %d packages of commands: %v", len(dirs), err)
	}
	for _, dir := range append(dirs, "../../internal/jobapi", "../../internal/admin", "../../internal/bench", "../../agent", "../../agent/worker",
		"../../actors/loop", "../../internal/budget", "../../store") {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range jsonKeys(file) {
				if seen++; !camelKey.MatchString(key) {
					t.Errorf("%s: the member %q is not in camelCase", name, key)
				}
			}
		}
	}
	if seen < 200 {
		t.Errorf("looked at %d members, want at least 200", seen)
	}
	for text, want := range map[string]string{
		`{"runId":1,"arguments":{"any_thing":1}}`: "[]",
		`[{"a":{"run_id":1}}]`:                    "[.a.run_id]",
		"{\"A\":1}\n{\"b-c\":2}":                  "[.A .b-c]",
	} {
		if got := fmt.Sprint(badKeys(text)); got != want {
			t.Errorf("badKeys(%s): got %s, want %s", text, got, want)
		}
	}
}

// jsonKeys are the members that the types of a file and its maps of any have.
func jsonKeys(file *ast.File) (keys []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			if n.Tag == nil {
				return true
			}
			tag, err := strconv.Unquote(n.Tag.Value)
			if key, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ","); err == nil && key != "" && key != "-" {
				keys = append(keys, key)
			}
		case *ast.CompositeLit:
			if m, ok := n.Type.(*ast.MapType); !ok || fmt.Sprint(m.Key, m.Value) != "string any" {
				return true
			}
			for _, e := range n.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					if lit, ok := kv.Key.(*ast.BasicLit); ok {
						key, _ := strconv.Unquote(lit.Value)
						keys = append(keys, key)
					}
				}
			}
		}
		return true
	})
	return keys
}
