package hostconfig

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/clip"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// testOptions know HOME, TOKEN, EMPTY and TROUPE_INPUT_FROM_ENV, and answer the input "asked".
func testOptions() *Options {
	vars := map[string]string{"HOME": "/home/ada", "TOKEN": "s3cret", "EMPTY": "", "TROUPE_INPUT_FROM_ENV": "env answer", "DOLLAR": "${TOKEN} $TOKEN"}
	return &Options{
		LookupEnv: func(k string) (string, bool) { v, ok := vars[k]; return v, ok },
		Input: func(in Input) (string, error) {
			if in.ID != "asked" {
				return "", errors.New("no person is there")
			}
			return "asked answer", nil
		},
		WorkspaceFolder: "/home/ada/project",
		UserHome:        "/home/ada",
	}
}

// show writes a server in one line, leaving out what is empty.
func show(s Server) string {
	var b strings.Builder
	add := func(key string, v any, empty bool) {
		if !empty {
			fmt.Fprintf(&b, " %s=%v", key, v)
		}
	}
	b.WriteString(s.Name)
	add("type", s.Type, s.Type == "")
	add("disabled", s.Disabled, !s.Disabled)
	add("command", s.Command, s.Command == "")
	add("args", fmt.Sprintf("%q", s.Args), len(s.Args) == 0)
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		if v := s.Env[k]; v == nil {
			add("env."+k, "(removed)", false)
		} else {
			add("env."+k, *v, false)
		}
	}
	add("dir", s.Dir, s.Dir == "")
	add("url", s.URL, s.URL == "")
	for _, k := range slices.Sorted(maps.Keys(s.Headers)) {
		add("headers."+k, s.Headers[k], false)
	}
	add("headersHelper", s.HeadersHelper, s.HeadersHelper == "")
	add("oauth", string(s.OAuth), s.OAuth == nil)
	add("timeout", s.Timeout, s.Timeout == 0)
	add("instances", s.Instances, s.Instances == 0)
	add("noAsk", s.NoAsk, !s.NoAsk)
	add("allow", s.Allow, s.Allow == nil)
	add("deny", s.Deny, s.Deny == nil)
	add("trustAll", s.TrustAll, !s.TrustAll)
	add("trust", s.TrustTools, s.TrustTools == nil)
	add("defer", s.DeferTools, s.DeferTools == "")
	add("sandbox", s.Sandbox, !s.Sandbox)
	for _, k := range slices.Sorted(maps.Keys(s.Unknown)) {
		add("unknown."+k, string(s.Unknown[k]), false)
	}
	return b.String()
}

func TestDialects(t *testing.T) {
	tests := []struct {
		name, path, data string
		want             []string
		warnings         string
	}{
		{"claude code", "/p/.mcp.json", `{
			// the project's servers
			"mcpServers": {
				"files": {"command": "npx", "args": ["-y", "server", "${HOME}/docs",], "env": {"T": "${TOKEN}", "D": "${NONE:-some ${TOKEN}}", "GONE": null, "N": 5, "B": true}},
				"web": {"type": "http", "url": "https://example.org/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}, "headersHelper": "helper.sh", "timeout": 2500}, /* last */
			},
		}`, []string{
			`files type=stdio command=npx args=["-y" "server" "/home/ada/docs"] env.B=true env.D=some ${TOKEN} env.GONE=(removed) env.N=5 env.T=s3cret dir=/p`,
			`web type=http url=https://example.org/mcp headers.Authorization=Bearer s3cret headersHelper=helper.sh timeout=2.5s`,
		}, ""},
		{"claude desktop", "/c/claude_desktop_config.json", `{"globalShortcut": "x", "mcpServers": {"a": {"command": "a b"}}}`, []string{`a type=stdio command=a b dir=/c`}, ""},
		{"claude user file", "/home/ada/.claude.json", `{"projects": {"/home/ada/project": {"mcpServers": {"a": {"command": "project"}, "b": {"command": "b"}}}, "/other": {"mcpServers": {"c": {"command": "c"}}}},
			"mcpServers": {"a": {"command": "user"}}, "numStartups": 5}`, []string{`a type=stdio command=project dir=/home/ada`, `b type=stdio command=b dir=/home/ada`}, `server "a" is listed twice`},
		{"copilot", "/p/.mcp.json", `{"mcpServers": {"a": {"type": "local", "command": "a", "tools": ["*"], "deferTools": "auto"}, "b": {"type": "remote", "url": "https://b.example", "tools": ["x"]}}}`,
			[]string{`a type=stdio command=a dir=/p defer=auto`, `b url=https://b.example allow=[x]`}, ""},
		{"vs code", "/p/.vscode/mcp.json", `{
			"inputs": [{"type": "promptString", "id": "asked", "description": "Key", "password": true}, {"id": "from-env"}],
			"servers": {
				"a": {"type": "stdio", "command": "${workspaceFolder}/bin${/}a", "cwd": "sub", "env": {"K": "${input:asked}", "L": "${input:from-env}", "W": "${workspaceFolderBasename}", "U": "${userHome}", "E": "${env:TOKEN}"}, "dev": {"watch": "x"}},
				"b": {"type": "sse", "url": "https://b.example/sse", "sandboxEnabled": true},
				"c": {"url": "unix:///tmp/s#/mcp"},
			}}`, []string{
			`a type=stdio command=/home/ada/project/bin/a env.E=s3cret env.K=asked answer env.L=env answer env.U=/home/ada env.W=project dir=/p/sub unknown.dev={"watch":"x"}`,
			`b type=sse url=https://b.example/sse sandbox=true`, `c url=unix:///tmp/s#/mcp`,
		}, ""},
		{"vs code settings", "/p/.vscode/settings.json", `{"editor.x": 1, "mcp": {"inputs": [], "servers": {"a": {"command": "a"}}}}`, []string{`a type=stdio command=a dir=/p`}, ""},
		{"cursor", "/p/.cursor/mcp.json", `{"mcpServers": {"a": {"command": "a", "disabled": true, "args": ["${UNSET}"], "autoApprove": ["x"], "alwaysAllow": ["y"]}, "b": {"url": "https://b.example", "auth": {"CLIENT_ID": "i"}}}}`,
			[]string{`a type=stdio disabled=true command=a args=["${UNSET}"] trust=[x y]`, `b url=https://b.example oauth={"CLIENT_ID":"i"}`}, ""},
		{"gemini", "/p/.gemini/settings.json", `{"theme": "x", "mcp": {"excluded": ["c"]}, "mcpServers": {
			"a": {"command": "a", "args": ["$TOKEN", "$5", "a$", "$$HOME"], "trust": true, "includeTools": ["x"], "excludeTools": ["y"], "timeout": 600000, "instances": 2, "noAsk": true},
			"b": {"httpUrl": "https://b.example/$TOKEN"}, "c": {"command": "$UNSET"}}}`,
			[]string{`a type=stdio command=a args=["s3cret" "$5" "a$" "$/home/ada"] dir=/p timeout=10m0s instances=2 noAsk=true allow=[x] deny=[y] trustAll=true`,
				`b type=http url=https://b.example/s3cret`, `c type=stdio disabled=true command=$UNSET`}, ""},
		{"others", "/p/.mcp.json", `{"mcpServers": {"a": {"command": ["uv", "run", "$TOKEN"], "environment": {"A": "${EMPTY}", "B": "${EMPTY:-b}", "C": "${DOLLAR}"}, "enabled": true, "workingDirectory": "/w", "timeout": "1m30s"},
			"b": {"transport": "streamable-http", "serverUrl": "http://localhost:1", "enabled": false}}}`,
			[]string{`a type=stdio command=uv args=["run" "$TOKEN"] env.A= env.B=b env.C=${TOKEN} $TOKEN dir=/w timeout=1m30s`, `b type=http disabled=true url=http://localhost:1`}, ""},
		{"unknown keys", "/p/.mcp.json", `{"x": 1, "mcpServers": {"a": {"command": "a", "Args": ["lost"], "future": {"k": [1, ]}}, "b": {"command": "b", "future": 2}}}`,
			[]string{`a type=stdio command=a dir=/p unknown.Args=["lost"] unknown.future={"k":[1]}`, `b type=stdio command=b dir=/p unknown.future=2`},
			`line 1: unknown key "x" is ignored|line 1: server "a": unknown key "Args" is ignored; is "args" meant?|line 1: server "a": unknown key "future" is ignored`},
		{"byte order mark", "/p/.mcp.json", "\uFEFF{\"mcpServers\": {}}", nil, ""},
		{"settings without servers", "/p/.gemini/settings.json", `{"theme": "x"}`, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Parse(tt.path, []byte(tt.data), testOptions())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range f.Servers {
				if s.Err != nil {
					t.Errorf("server %q: %v", s.Name, s.Err)
				}
				if s.File != tt.path || s.Line == 0 || len(s.Hash) != 64 {
					t.Errorf("server %q: got file %q, line %d, hash %q", s.Name, s.File, s.Line, s.Hash)
				}
				got = append(got, show(s))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			warnings := strings.ReplaceAll(strings.Join(f.Warnings, "|"), tt.path+": ", "")
			if !strings.HasPrefix(warnings, tt.warnings) || tt.warnings == "" && warnings != "" {
				t.Errorf("warnings: got %q, want %q", warnings, tt.warnings)
			}
		})
	}
}

// What a user gets to read for each mistake, in one golden file. The first line
// of each part is the configuration, behind it are its errors.
func TestErrors(t *testing.T) {
	files := []string{
		``, `  `, `{`, "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\" \"args\": []}\n  }\n}", `[]`, `{"mcpServers": []}`, `{"MCPservers": {}}`, `{"servers": 1}`,
		"{\"mcpServers\": {\n  \"a\": {\"command\": \"x\"},\n  \"a\": {\"command\": \"y\"}\n}}", `{"mcpServers": {"ä": {"command": "x", "command": "y"}}}`,
		`{"mcpServers": {"a": {"command": "x", "\u0063ommand": "y"}}}`, "{\"mcpServers\": {\"a\": {\"command\": \"\xff\"}}}", `{"mcpServers": {"a": {"command": "\ud800"}}}`,
		`{"mcpServers": {}} x`, `{"inputs": {}, "servers": {}}`, `{"inputs": [{"type": "promptString"}], "servers": {}}`, `{"inputs": [{"id": 5}], "servers": {}}`,
		strings.Repeat("[", 150),
	}
	entries := []string{
		`5`, `null`, `{}`, `{"args": ["x"]}`, `{"command": ""}`, `{"command": 5}`, `{"command": []}`, `{"command": ["x", 1]}`, `{"command": "x", "url": "https://h"}`,
		`{"command": "x", "type": "http"}`, `{"url": "https://h", "type": "stdio"}`, `{"type": "grpc", "url": "https://h"}`, `{"command": "x", "type": 5}`,
		`{"command": "x", "args": "y"}`, `{"command": "x", "args": ["a", 8080, {"b": 1}]}`, `{"command": "x", "env": ["A=b"]}`, `{"command": "x", "env": {"A": {}, "": "x", "B=C": "x"}}`,
		`{"command": "x", "disabled": "yes"}`, `{"command": "x", "timeout": -1}`, `{"command": "x", "timeout": "soon"}`, `{"command": "x", "timeout": 1e300}`, `{"command": "x", "includeTools": "a"}`,
		`{"command": "x\u0000y"}`, `{"url": "https://h", "uri": "https://i"}`, `{"url": "ftp://h"}`, `{"url": "https://"}`, `{"url": "https://user:pass@h:port/"}`, `{"url": "example.org"}`, `{"url": ""}`, `{"url": "unix:"}`,
		`{"url": "https://h", "headers": {"a b": "x"}}`, `{"url": "https://h", "headers": {"a": "${LINES}"}}`, `{"url": "https://h", "headers": []}`,
		`{"command": "${UNSET}"}`, `{"command": "x", "env": {"A": "ok", "B": "a ${env:UNSET} b"}}`, `{"command": "x", "args": ["ok", "${UNSET}", "${UNSET2}"]}`, `{"url": "https://${HOST}/"}`,
		`{"url": "https://h", "headers": {"Authorization": "Bearer ${UNSET}"}}`, `{"command": "${EMPTY}"}`, `{"command": "${command:x}"}`, `{"command": "${TOKEN"}`, `{"command": "${}"}`, `{"command": "${a-b}"}`,
		`{"command": "x", "cwd": "${UNSET}"}`, `{"command": "${input:nowhere}"}`, `{"command": "${input:silent}"}`, `{"command": "x", "envFile": "none.env"}`, `{"command": "x", "envFile": "bad.env"}`,
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bad.env"), []byte("A=1\nSECRET value\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	opts := testOptions()
	lookup := opts.LookupEnv
	opts.LookupEnv = func(k string) (string, bool) {
		if k == "LINES" {
			return "a\r\nInjected: b", true
		}
		return lookup(k)
	}
	var b strings.Builder
	path := filepath.Join(dir, ".mcp.json")
	for _, data := range files {
		_, err := Parse(path, []byte(data), opts)
		if _, ok := errors.AsType[*ConfigError](err); !ok {
			t.Errorf("Parse(%q): got %v, want a ConfigError", data, err)
		}
		fmt.Fprintf(&b, "%q\n\t%v\n", clip.Text(data, maxShown), err)
	}
	for _, entry := range entries {
		data := "{\"inputs\": [{\"id\": \"silent\"}], \"servers\": {\n\"good\": {\"command\": \"true\"},\n\"bad\": " + entry + "}}"
		f, err := Parse(path, []byte(data), opts)
		if err != nil {
			t.Errorf("%s fails the file: %v", entry, err)
			continue
		}
		if len(f.Servers) != 2 || f.Servers[0].Err != nil {
			t.Errorf("%s: the other server has %v", entry, f.Servers[0].Err)
		}
		if _, ok := errors.AsType[*ConfigError](f.Servers[1].Err); !ok {
			t.Errorf("%s: got %v, want a ConfigError", entry, f.Servers[1].Err)
		}
		fmt.Fprintf(&b, "%s\n\t%s\n", entry, strings.ReplaceAll(fmt.Sprint(f.Servers[1].Err), "\n", "\n\t"))
	}
	got := strings.ReplaceAll(b.String(), dir, "DIR")
	for line := range strings.Lines(got) {
		if line[0] == '\t' && (strings.Contains(line, "SECRET") || strings.Contains(line, "user:pass")) {
			t.Errorf("the message shows a secret: %s", line)
		}
	}
	golden := filepath.Join("testdata", "errors.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("messages differ from %s (run with -update):\n%s", golden, got)
	}
}

func TestErrorIs(t *testing.T) {
	data := `{"servers": {"a": {"command": "x", "env": {"T": "${UNSET}"}}, "b": {"command": "${input:x}"}, "c": {"command": "${UNSET}", "disabled": true}}}`
	f, err := Parse("/p/mcp.json", []byte(data), testOptions())
	if err != nil {
		t.Fatal(err)
	}
	e, _ := errors.AsType[*ConfigError](f.Servers[0].Err)
	if e == nil || e.File != "/p/mcp.json" || e.Server != "a" || e.Field != "env.T" || e.Line != 1 || e.Col != 49 || !errors.Is(e, ErrUnset) {
		t.Errorf("unset variable: got %#v", e)
	}
	if !errors.Is(f.Servers[1].Err, ErrInput) {
		t.Errorf("input: got %v, want %v", f.Servers[1].Err, ErrInput)
	}
	if f.Servers[2].Err != nil {
		t.Errorf("disabled server: got %v, want no error", f.Servers[2].Err)
	}
	if _, err := Parse("/p/mcp.json", []byte(`{"a": 1}`), nil); !errors.Is(err, ErrNoServers) {
		t.Errorf("no servers: got %v, want %v", err, ErrNoServers)
	}
}

// Approval is for what is started or contacted, not for what is said about it.
func TestHash(t *testing.T) {
	of := func(entry string) string {
		f, err := Parse("/p/.mcp.json", []byte(`{"mcpServers": {"a": `+entry+`}}`), testOptions())
		if err != nil {
			t.Fatal(err)
		}
		return f.Servers[0].Hash
	}
	base := of(`{"command": "x", "args": ["a", "b"], "env": {"A": "${TOKEN}", "B": "2"}}`)
	for _, same := range []string{
		`{"env": {"B": "2", "A": "${TOKEN}"}, "args": ["a", "b"], "command": "x"}`, `{"command": ["x", "a", "b"], "environment": {"A": "${TOKEN}", "B": 2}, "type": "local"}`,
		`{"command": "x", "args": ["a", "b"], "env": {"A": "${TOKEN}", "B": "2"}, "description": "d", "timeout": 5, "future": 1, "trust": true}`,
		`{"command": "x", "args": ["a", "b"], "env": {"A": "${TOKEN}", "B": "2"}, "disabled": true}`,
	} {
		if of(same) != base {
			t.Errorf("%s has another hash", same)
		}
	}
	seen := map[string]string{base: "the first"}
	for _, other := range []string{
		`{"command": "y", "args": ["a", "b"], "env": {"A": "${TOKEN}", "B": "2"}}`, `{"command": "x", "args": ["a b"], "env": {"A": "${TOKEN}", "B": "2"}}`,
		`{"command": "x", "args": ["a", "b"], "env": {"A": "s3cret", "B": "2"}}`, `{"command": "x", "args": ["a", "b"], "env": {"A": "${TOKEN}", "B": null}}`,
		`{"command": "x", "args": ["a", "b"], "env": {"A": "${TOKEN}", "B": "2"}, "cwd": "/"}`, `{"command": "x", "args": ["a", "b"], "env": {"A": "${TOKEN}", "B": "2"}, "envFile": ".env"}`,
		`{"url": "https://a.example"}`, `{"url": "https://b.example"}`, `{"url": "https://a.example", "type": "sse"}`, `{"url": "https://a.example", "headers": {"A": "b"}}`, `{"url": "https://a.example", "headersHelper": "x"}`,
	} {
		h := of(other)
		if seen[h] != "" {
			t.Errorf("%s has the hash of %s", other, seen[h])
		}
		seen[h] = other
	}
}

func TestInputIsAskedOnce(t *testing.T) {
	asked := 0
	opts := testOptions()
	opts.Input = func(in Input) (string, error) {
		asked++
		return in.Description, nil
	}
	f, err := Parse("/p/mcp.json", []byte(`{"servers": {"a": {"command": "${input:k}", "args": ["${input:k}"]}, "b": {"url": "https://${input:k}"}}, "inputs": [{"id": "k", "description": "key"}]}`), opts)
	if err != nil {
		t.Fatal(err)
	}
	if asked != 1 || f.Servers[0].Command != "key" || f.Servers[1].URL != "https://key" {
		t.Errorf("asked %d times, got %s and %s", asked, show(f.Servers[0]), show(f.Servers[1]))
	}
}

func TestEnvFile(t *testing.T) {
	dir := t.TempDir()
	env := "# comment\nA=1\n export B = two words # comment\r\nC='# $A ${A}'\nD=\"l1\\nl2\\\"\" # c\nE=\nF=a#b\n\nG=\"\"\n"
	if err := os.WriteFile(filepath.Join(dir, ".env"), []byte(env), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, ".mcp.json")
	if err := os.WriteFile(path, []byte(`{"mcpServers": {"a": {"command": "x", "envFile": ".env", "env": {"A": "mine", "B": null}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Load(path, testOptions())
	if err != nil || f.Servers[0].Err != nil {
		t.Fatal(err, f.Servers[0].Err)
	}
	want := "a type=stdio command=x env.A=mine env.B=(removed) env.C=# $A ${A} env.D=l1\nl2\" env.E= env.F=a#b env.G= dir=" + dir
	if got := show(f.Servers[0]); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDotenvErrors(t *testing.T) {
	for in, want := range map[string]string{
		"A": "line 1: must have the form KEY=value", "A=1\n=x": "line 2:", "1A=x": "line 1:", "A B=x": "line 1:", `A="x`: "line 1: A: the closing quote is missing",
		"A='x' y": "line 1: A: there is text behind", "A=\x00": "NUL",
	} {
		if _, err := parseDotenv(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parseDotenv(%q): got %v, want %q", in, err, want)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "none.json"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
	if _, err := Load(t.TempDir(), nil); err == nil {
		t.Error("a directory: got no error")
	}
	big := filepath.Join(t.TempDir(), "big.json")
	if err := os.WriteFile(big, make([]byte, MaxFileBytes+10), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(big, nil); err == nil || !strings.Contains(err.Error(), "larger than 4 MiB") {
		t.Errorf("a large file: got %v", err)
	}
}

// Files as large as allowed, made to be slow, are read or refused at once.
func TestBounds(t *testing.T) {
	many := func(n int, format string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = fmt.Sprintf(format, i)
		}
		return strings.Join(parts, ",")
	}
	tests := []struct{ name, data, want string }{
		{"comments", strings.Repeat("//\n", 1_000_000) + `{"mcpServers": {}}`, ""},
		{"servers", `{"mcpServers": {` + many(2000, `"s%d": {}`) + `}}`, "more than 1000 servers"},
		{"unknown keys", `{"mcpServers": {"a": {"command": "x",` + many(100_000, `"k%d": 1`) + `}}}`, ""},
		{"bad fields", `{"mcpServers": {"a": {"command": "x", "args": [` + many(100_000, `%d`) + `]}}}`, ""},
		{"depth in comments", `{"mcpServers": {}} // ` + strings.Repeat("[", 1000), ""},
	}
	for _, tt := range tests {
		f, err := Parse("/p/.mcp.json", []byte(tt.data), testOptions())
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
		if err == nil && len(f.Warnings) > maxWarnings {
			t.Errorf("%s: got %d warnings", tt.name, len(f.Warnings))
		}
	}
	opts := testOptions()
	opts.LookupEnv = func(string) (string, bool) { return strings.Repeat("x", 1<<20), true }
	f, err := Parse("/p/.mcp.json", []byte(`{"mcpServers": {"a": {"command": "`+strings.Repeat("${A}", 100)+`"}}}`), opts)
	if err != nil || f.Servers[0].Err == nil {
		t.Errorf("a text of 100 MB: got %v, %v", err, f.Servers[0].Err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"mcpServers": {"a": {"command": "x", "args": ["${A:-b}"], "env": {"A": null}}}}`, `{"servers": {"a": {"url": "https://${input:x}"}}, "inputs": [{"id": "x"}],}`,
		`{"mcp": {"servers": {}, "allowed": ["x"]}, "projects": {}}`, "//\n{/**/}", `{"mcpServers": {"a": {"command": ["x"], "timeout": "5s", "tools": {"allow": []}, "sandbox": {}}}}`} {
		f.Add(s, "/p/.mcp.json")
		f.Add(s, "/p/.gemini/settings.json")
	}
	f.Fuzz(func(t *testing.T, data, path string) {
		opts := testOptions()
		if strings.Contains(data, "nvFile") {
			return // reads files
		}
		first, err := Parse(path, []byte(data), opts)
		if err != nil {
			return
		}
		for _, s := range first.Servers {
			usable := s.Err == nil && !s.Disabled
			if usable && (s.Command == "") == (s.URL == "") {
				t.Fatalf("Parse(%q): server without error has command %q and url %q", data, s.Command, s.URL)
			}
			if usable && s.Timeout < 0 || len(s.Hash) != 64 {
				t.Fatalf("Parse(%q): got timeout %v, hash %q", data, s.Timeout, s.Hash)
			}
			if _, ok := errors.AsType[*ConfigError](s.Err); s.Err != nil && !ok {
				t.Fatalf("Parse(%q): got %T", data, s.Err)
			}
		}
		second, err := Parse(path, []byte(data), opts)
		if err != nil || len(second.Servers) != len(first.Servers) {
			t.Fatalf("Parse(%q) again: got %v", data, err)
		}
		for i := range first.Servers {
			if first.Servers[i].Hash != second.Servers[i].Hash {
				t.Fatalf("Parse(%q): two hashes", data)
			}
		}
	})
}

// What a file asks for and is not done is said, with its place and what to do instead.
func TestIgnoredKeysWarn(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".mcp.json")
	text := `{"mcpServers":{
		"a":{"url":"https://example.org/","oauth":{"clientId":"x"},"deferTools":"always"},
		"b":{"command":"c","oauth":false,"deferTools":"never","maxMessageBytes":1000,"instructions":false},
		"c":{"command":"c","maxMessageBytes":0},
		"d":{"command":"c","retries":3}}}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, b, c, d := file.Servers[0], file.Servers[1], file.Servers[2], file.Servers[3]
	if w := strings.Join(a.Warnings, "\n"); len(a.Warnings) != 1 || !strings.Contains(w, "deferTools") || a.Authorization.ClientID != "x" {
		t.Errorf("a: got %q", a.Warnings)
	}
	if len(b.Warnings) != 0 || b.MaxMessage != 1000 || !b.NoInstructions || b.Err != nil {
		t.Errorf("b: got %+v", b)
	}
	if c.Err == nil || !strings.Contains(c.Err.Error(), "maxMessageBytes") {
		t.Errorf("c: got %v", c.Err)
	}
	if len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0], "retries is not known") {
		t.Errorf("d: got %q", d.Warnings)
	}
}
