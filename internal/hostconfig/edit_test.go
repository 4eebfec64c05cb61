package hostconfig_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/hostconfig"
)

func TestAddMakesAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "mcp.json")
	def := &hostconfig.Definition{Command: "srv", Args: []string{"-v", "${TOKEN}"}, Env: map[string]string{"A": "b"}}
	if err := hostconfig.Add(path, "one", def, false); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("Stat: got %v, %v, want mode 0600", info.Mode(), err)
	}
	file, err := hostconfig.Load(path, &hostconfig.Options{LookupEnv: func(string) (string, bool) { return "secret", true }})
	if err != nil || len(file.Servers) != 1 {
		t.Fatalf("Load: got %+v, %v", file, err)
	}
	if s := file.Servers[0]; s.Name != "one" || s.Command != "srv" || s.Args[1] != "secret" || *s.Env["A"] != "b" || s.Err != nil {
		t.Errorf("server: got %+v", s)
	}
}

const commented = `// ours
{
	"servers": { // as in VS Code
		"a": {"command": "x", /* why */ "args": ["1"],},
		"b": {"type": "http", "url": "https://b.example/mcp"}
	},
	"inputs": [],
}
`

func TestEditKeepsTheRest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(path, []byte(commented), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := hostconfig.Add(path, "a", &hostconfig.Definition{Command: "y"}, false); !errors.Is(err, hostconfig.ErrExists) || !strings.Contains(err.Error(), ":4:") {
		t.Errorf("Add: got %v, want ErrExists with the line", err)
	}
	if err := hostconfig.Add(path, "c", &hostconfig.Definition{URL: "https://c.example/mcp"}, false); err != nil {
		t.Fatal(err)
	}
	if err := hostconfig.Add(path, "b", &hostconfig.Definition{Command: "z"}, true); err != nil {
		t.Fatal(err)
	}
	if err := hostconfig.Remove(path, "nobody"); !errors.Is(err, hostconfig.ErrNoServer) {
		t.Errorf("Remove: got %v, want ErrNoServer", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"// ours", "// as in VS Code", "/* why */", `"inputs"`, "c.example", `"z"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the file lost %q:\n%s", want, text)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("Stat: got %v, %v, want mode 0640", info.Mode(), err)
	}
	for _, name := range []string{"a", "b", "c"} {
		if err := hostconfig.Remove(path, name); err != nil {
			t.Errorf("Remove(%q): %v", name, err)
		}
	}
	if file, err := hostconfig.Load(path, nil); err != nil || len(file.Servers) != 0 {
		t.Errorf("Load: got %+v, %v, want no servers", file, err)
	}
}

func TestAddRefuses(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.json")
	if err := os.WriteFile(bad, []byte(`{"mcpServers": `), 0o600); err != nil {
		t.Fatal(err)
	}
	good := filepath.Join(dir, "good.json")
	for _, tc := range []struct {
		path, name string
		def        hostconfig.Definition
		want       string
	}{
		{bad, "x", hostconfig.Definition{Command: "y"}, "bad.json:1"},
		{good, "x", hostconfig.Definition{}, "neither a command nor a url"},
		{good, "x", hostconfig.Definition{URL: "ftp://x"}, "must begin with"},
		{good, "x", hostconfig.Definition{Command: "y", Timeout: "soon"}, "not a duration"},
		{good, "", hostconfig.Definition{Command: "y"}, "name of a server"},
	} {
		if err := hostconfig.Add(tc.path, tc.name, &tc.def, false); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Add(%q, %+v): got %v, want %q", tc.name, tc.def, err, tc.want)
		}
	}
	if _, err := os.Stat(good); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused definition left a file: %v", err)
	}
	if text, _ := os.ReadFile(bad); string(text) != `{"mcpServers": ` {
		t.Errorf("a file that cannot be read was changed: %q", text)
	}
}
