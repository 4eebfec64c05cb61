package hostimport_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/hostconfig"
	"github.com/troupe-dev/troupe/internal/hostimport"
	"github.com/troupe-dev/troupe/internal/jsonx"
)

func TestRead(t *testing.T) {
	for _, tc := range []struct {
		host, file, text string
		want             map[string]string // the definition as JSON, "!…" for an error
		note             string
	}{
		{"", ".mcp.json", `{"mcpServers": {
			"fs": {"command": "npx", "args": ["-y", "fs", "${ROOT:-.}"], "env": {"A": "${env:B}"}, "alwaysAllow": ["x"], "timeout": 5000},
			"web": {"type": "http", "url": "https://w.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}, "disabled": true},
			"bad": {"command": 5}}}`,
			map[string]string{
				"fs":  `{"command":"npx","args":["-y","fs","${ROOT:-.}"],"env":{"A":"${env:B}"},"timeout":"5s"}`,
				"web": `{"type":"http","url":"https://w.example/mcp","headers":{"Authorization":"Bearer ${TOKEN}"},"disabled":true}`,
				"bad": "!command",
			}, "trusted is not taken over"},
		{"", ".vscode/mcp.json", `{"inputs": [{"type": "promptString", "id": "api-key", "password": true}],
			"servers": {"a": {"type": "stdio", "command": "a", "env": {"K": "${input:api-key}"}, "sandboxEnabled": false}}}`,
			map[string]string{"a": `{"command":"a","env":{"K":"${TROUPE_INPUT_API_KEY}"}}`}, ""},
		{"", ".gemini/settings.json", `{"theme": "x", "mcpServers": {"g": {"command": "g", "args": ["$HOME/x"], "includeTools": ["t"]}}}`,
			map[string]string{"g": `{"command":"g","args":["${HOME}/x"],"tools":{"allow":["t"]}}`}, ""},
		{"", "goose/config.yaml", "GOOSE_MODEL: m\nextensions:\n  dev:\n    type: builtin\n    enabled: true\n  gh:\n    type: stdio\n    cmd: gh\n    args: [mcp]\n    envs: {A: 1}\n    env_keys: [GITHUB_TOKEN]\n    timeout: 30\n    enabled: false\n  r:\n    type: streamable_http\n    uri: https://r.example\n",
			map[string]string{
				"dev": "!part of the other host",
				"gh":  `{"command":"gh","args":["mcp"],"env":{"A":"1","GITHUB_TOKEN":"${GITHUB_TOKEN}"},"timeout":"30s","disabled":true}`,
				"r":   `{"type":"http","url":"https://r.example"}`,
			}, "GITHUB_TOKEN"},
		{"", "fastagent.config.yaml", "mcp:\n  servers:\n    f:\n      command: uvx\n      args: [mcp-server-fetch]\n    s:\n      transport: sse\n      url: http://x.example/sse\n      headers: {X: y}\n",
			map[string]string{"f": `{"command":"uvx","args":["mcp-server-fetch"]}`, "s": `{"type":"sse","url":"http://x.example/sse","headers":{"X":"y"}}`}, ""},
		{"", ".kit.yml", "mcpServers:\n  k:\n    type: local\n    command: [npx, -y, k]\n    environment: {T: '${env://TOKEN}'}\n    allowedTools: [a]\n    excludedTools: [b]\n",
			map[string]string{"k": `{"command":"npx","args":["-y","k"],"env":{"T":"${env://TOKEN}"},"tools":{"allow":["a"],"deny":["b"]}}`}, ""},
		{"", "crush.json", `{"$schema": "x", "mcp": {"c": {"type": "stdio", "command": "c", "timeout": 120, "disabled_tools": ["d"]}, "h": {"type": "http", "url": "https://h.example", "disabled": true}}}`,
			map[string]string{"c": `{"command":"c","timeout":"2m0s","tools":{"deny":["d"]}}`, "h": `{"type":"http","url":"https://h.example","disabled":true}`}, ""},
		{"", "opencode.jsonc", `{ // ours
			"mcp": {"o": {"type": "local", "command": ["bun", "x", "o"], "environment": {"K": "{env:KEY}"}, "enabled": false}, "r": {"type": "remote", "url": "https://r.example", "timeout": 5000},}}`,
			map[string]string{"o": `{"command":"bun","args":["x","o"],"env":{"K":"${KEY}"},"disabled":true}`, "r": `{"url":"https://r.example","timeout":"5s"}`}, ""},
	} {
		t.Run(tc.file, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), filepath.FromSlash(tc.file))
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			servers, err := hostimport.Read(tc.host, path)
			if err != nil {
				t.Fatal(err)
			}
			if len(servers) != len(tc.want) {
				t.Errorf("Read: got %d servers, want %d", len(servers), len(tc.want))
			}
			notes := ""
			for _, s := range servers {
				notes += strings.Join(s.Notes, "\n")
				want := tc.want[s.Name]
				if text, failed := strings.CutPrefix(want, "!"); failed {
					if s.Err == nil || !strings.Contains(s.Err.Error(), text) {
						t.Errorf("%s: got error %v, want %q", s.Name, s.Err, text)
					}
					continue
				}
				if s.Err != nil {
					t.Errorf("%s: %v", s.Name, s.Err)
				}
				got, err := jsonx.Marshal(s.Def)
				if err != nil || !sameJSON(string(got), want) {
					t.Errorf("%s: got %s, %v, want %s", s.Name, got, err, want)
				}
				if err := hostconfig.Add(filepath.Join(t.TempDir(), "ours.json"), s.Name, &s.Def, false); err != nil {
					t.Errorf("%s cannot be written: %v", s.Name, err)
				}
			}
			if !strings.Contains(notes, tc.note) {
				t.Errorf("notes: got %q, want %q", notes, tc.note)
			}
		})
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	return jsonx.Unmarshal([]byte(a), &x) == nil && jsonx.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

func TestFind(t *testing.T) {
	home, project := t.TempDir(), t.TempDir()
	for _, path := range []string{
		filepath.Join(project, ".cursor", "mcp.json"), filepath.Join(home, ".cursor", "mcp.json"),
		filepath.Join(home, ".config", "goose", "config.yaml"), filepath.Join(project, ".mcp.json"),
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	places := &hostimport.Places{Project: project, Home: home, Config: filepath.Join(home, ".config")}
	got := ""
	for _, s := range places.Find("") {
		rel := strings.TrimPrefix(strings.TrimPrefix(s.Path, home), project)
		got += fmt.Sprintf("%s %s\n", s.Host, filepath.ToSlash(rel))
	}
	want := "claude-code /.mcp.json\ncursor /.cursor/mcp.json\ncursor /.cursor/mcp.json\ngoose /goose/config.yaml\n"
	if strings.ReplaceAll(got, "/.config", "") != want {
		t.Errorf("Find: got\n%swant\n%s", got, want)
	}
	if found := places.Find("cursor"); len(found) != 2 || !strings.HasPrefix(found[0].Path, project) {
		t.Errorf("Find(cursor): got %v, want the project's first", found)
	}
	if found := (&hostimport.Places{}).Find(""); len(found) != 0 {
		t.Errorf("Find without places: got %v", found)
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"extensions:\n  a: {cmd: x, args: [1], envs: {A: b}}\n", "mcp: {servers: {a: {command: x}}}", "a: &a [*a]", "{}", "- x", "\xff",
		`{"mcp": {"a": {"command": ["x"], "timeout": 1e400}}}`,
	} {
		f.Add(seed)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range []string{"fastagent.config.yaml", "crush.json", ".mcp.json", ".kit.yml"} {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			servers, err := hostimport.Read("", path)
			if err != nil {
				continue
			}
			for _, s := range servers {
				if s.Err == nil && s.Def.Command == "" && s.Def.URL == "" {
					t.Errorf("%q: server %q has neither command nor url, and no error", text, s.Name)
				}
			}
		}
	})
}
