package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/store"
)

const services = `version: 1
mcp: { files: [servers.json], protocol: "2025-11-25", instances: 2 }
store: { path: "${DIR:-/tmp}/t.db" }
serve:
  http: 127.0.0.1:${PORT}
  expose: [agents, tools]
  agents: [reader]
  names: plain
  auth: { type: bearer, token: "${TOKEN}" }
worker:
  concurrency: 4
  lease: 20s
  token: ${TOKEN}
  schedules:
    morning: { cron: "0 8 * * *", agent: reader, prompt: "What is new?", timezone: Europe/Berlin }
telemetry: { endpoint: "http://localhost:4318", content: true }
agents:
  reader:
    description: reads
    instructions: "Read."
    model: ollama/qwen3:8b
    servers: [files]
    tools: { allow: ["files__*"], deny: [files__delete] }
    limits: { tokens: 100 }
    approve: never
    output: { type: object, properties: { n: { type: integer, minimum: 1 }, s: { enum: [a, 2, null, 1.5] } }, required: [n] }
`

func TestServices(t *testing.T) {
	c := parse(t, services)
	if err := c.Resolve("serve", func(name string) string { return map[string]string{"PORT": "81", "TOKEN": " geheim-geheim "}[name] }); err != nil {
		t.Fatal(err)
	}
	if c.Serve.HTTP != "127.0.0.1:81" || c.Serve.Auth.Token.Reveal() != "geheim-geheim" || len(c.Serve.Expose) != 2 || c.Serve.Names != "plain" {
		t.Errorf("serve: got %+v", c.Serve)
	}
	w := c.Worker
	if w.Concurrency != 4 || w.Lease != 20*time.Second || w.Schedules["morning"].Timezone != "Europe/Berlin" || w.Schedules["morning"].Source != "troupe.yaml:15" {
		t.Errorf("worker: got %+v", w)
	}
	if c.MCP.Files[0] != "servers.json" || c.MCP.Protocol != "2025-11-25" || c.MCP.Instances != 2 || !c.Telemetry.Content {
		t.Errorf("got %+v and %+v", c.MCP, c.Telemetry)
	}
	a, err := c.Agent("reader")
	const output = `{"type":"object","properties":{"n":{"type":"integer","minimum":1},"s":{"enum":["a",2,null,1.5]}},"required":["n"]}`
	if err != nil || a.Instructions != "Read." || a.Allow[0] != "files__*" || a.Deny[0] != "files__delete" || a.Limits.Tokens != 100 || a.Approve != "never" || string(a.Output) != output {
		t.Errorf("Agent(reader): got %+v and error %v", a, err)
	}
	if _, err := c.Agent("raeder"); err == nil || !strings.Contains(err.Error(), `did you mean "reader"?`) {
		t.Errorf("Agent(raeder): got error %v", err)
	}
}

// The authorization server of a server is read with its variables.
func TestOAuth(t *testing.T) {
	c := parse(t, `version: 1
serve:
  auth:
    type: oauth
    issuer: https://${HOST}
    resource: https://mcp.example/mcp
    scopes: mcp
    tools: { "files__write*": [files:write, files:read], admin: admin }
    introspect: { client_id: troupe, client_secret: "${SECRET}" }
    max_life: 12h
    client_subjects: true
    retry_public: true
  behind_proxy: true
worker: { behind_proxy: true }
`)
	if err := c.Resolve("serve", func(name string) string { return map[string]string{"HOST": "login.example", "SECRET": "geheim"}[name] }); err != nil {
		t.Fatal(err)
	}
	a := c.Serve.Auth
	if a.Issuer != "https://login.example" || a.Resource != "https://mcp.example/mcp" || !slices.Equal(a.Scopes, []string{"mcp"}) ||
		len(a.Tools) != 2 || len(a.Tools["files__write*"]) != 2 || !slices.Equal(a.Tools["admin"], []string{"admin"}) || a.ClientID != "troupe" || a.ClientSecret.Reveal() != "geheim" {
		t.Errorf("got %+v", a)
	}
	if a.MaxLife != 12*time.Hour || !*a.ClientSubjects || !*a.RetryPublic || !*c.Serve.BehindProxy || !*c.Worker.BehindProxy {
		t.Errorf("got %+v", c.Serve)
	}
	if err := parse(t, "version: 1\nserve: { auth: { type: oauth, issuer: x, resource: y } }\n").Resolve("serve", func(string) string { return "" }); err != nil {
		t.Errorf("without what is optional: %v", err)
	}
}

// Rules of what is kept are read in their order, and shown as they are.
func TestKeepRules(t *testing.T) {
	c := parse(t, `version: 1
store:
  keep: 180d
  keep_runs: 1000
  rules:
    - { agent: audit, keep: forever }
    - { agent: reviewer, state: finished, keep: 7d }
    - { state: [failed, unknown], keep: 36h }
`)
	want := config.Store{Keep: 180 * 24 * time.Hour, KeepRuns: 1000, Rules: []config.KeepRule{
		{Agent: "audit", Keep: -1}, {Agent: "reviewer", States: []string{"finished"}, Keep: 7 * 24 * time.Hour}, {States: []string{"failed", "unknown"}, Keep: 36 * time.Hour}}}
	if !reflect.DeepEqual(c.Store, want) {
		t.Errorf("got %+v, want %+v", c.Store, want)
	}
	const shown = "[{agent: audit, keep: forever}, {agent: reviewer, state: finished, keep: 7d}, {state: [failed, unknown], keep: 36h}]"
	if v, _ := c.Value("store.rules"); v.Text != shown {
		t.Errorf("Value(store.rules): got %s, want %s", v.Text, shown)
	}
}

// The states of a rule are those in which runs and jobs end.
func TestStatesOfKeepRules(t *testing.T) {
	all := store.EndStates()
	c := parse(t, "version: 1\nstore: { rules: [{ keep: 1d, state: ["+strings.Join(all, ", ")+"] }] }\n")
	if got := c.Store.Rules[0].States; !slices.Equal(got, all) {
		t.Errorf("got %v, want %v", got, all)
	}
}

// Variables are needed by those who use the section, and the error says where they are.
func TestResolve(t *testing.T) {
	c := parse(t, services)
	unset := func(string) string { return "" }
	if err := c.Resolve("store", unset); err != nil || c.Store.Path != "/tmp/t.db" {
		t.Errorf("Resolve(store): got %q and error %v", c.Store.Path, err)
	}
	err := c.Resolve("serve", unset)
	for _, want := range []string{"troupe.yaml:5:9: serve.http: PORT is not set", "troupe.yaml:9:32: serve.auth.token: TOKEN is not set"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Resolve(serve): got error %v, want %q", err, want)
		}
	}
	c = parse(t, "version: 1\nserve: { agents: [nobody] }\nworker: { schedules: { s: { cron: '* * * * *', prompt: x, agent: nobody } } }\n")
	for _, section := range []string{"serve", "worker"} {
		if err := c.Resolve(section, unset); err == nil || !strings.Contains(err.Error(), `there is no agent "nobody"`) {
			t.Errorf("Resolve(%s): got error %v", section, err)
		}
	}
}

func TestServiceMistakes(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"serve: { htpp: x }", `2:10: unknown key "htpp": did you mean "http"?`},
		{"serve: { expose: [agents, all] }", "2:18: want some of agents, tools, got \"all\""},
		{"serve: { auth: { type: bearer } }", "the token is missing: token: ${TROUPE_TOKEN}"},
		{"serve: { auth: { token: secret-secret } }", "2:25: secrets do not belong into this file"},
		{"serve: { auth: { type: oauth, issuer: 'https://login.example' } }", "type oauth needs issuer, who issues the tokens, or users"},
		{"serve: { auth: { type: oauth, issuer: x, resource: y, token: '${T}' } }", "token is for type bearer"},
		{"serve: { auth: { type: bearer, token: '${T}', scopes: [mcp] } }", "are for type: oauth"},
		{"serve: { auth: { type: oauth, issuer: x, resource: y, users: z } }", "exclude issuer and introspect"},
		{"serve: { auth: { issuer: x, resource: y } }", "are for type: oauth"},
		{"serve: { auth: { type: oauth, issuer: x, resource: y, scope: [mcp] } }", `unknown key "scope": did you mean "scopes"?`},
		{"serve: { auth: { type: oauth, issuer: x, resource: y, tools: { 'a*': [] } } }", `want the scopes that "a*" needs`},
		{"serve: { auth: { type: oauth, issuer: x, resource: y, tools: [a] } }", "want a mapping"},
		{"serve: { auth: { type: oauth, issuer: x, resource: y, introspect: { client_secret: '${T}' } } }", "client_id is missing"},
		{"serve: { auth: { type: oauth, login: { issuer: x } } }", "want issuer, the OpenID provider"},
		{"serve: { auth: { type: oauth, login: { issuer: x, client_id: y }, users: z } }", "users and login exclude each other"},
		{"serve: { auth: { type: oauth, login: { issuer: x, client_id: y }, issuer: z } }", "users and login exclude issuer"},
		{"serve: { auth: { type: none, login: { issuer: x, client_id: y } } }", "are for type: oauth"},
		{"serve: { auth: { type: oauth, issuer: x, resource: y, introspect: { client_id: x, client_secret: secret-secret } } }", "secrets do not belong into this file"},
		{"worker: { lease: 5 }", "2:18: want a time such as 90s or 10m"},
		{"worker: { schedules: { s: { cron: x } } }", "a schedule has a cron expression and a prompt"},
		{"worker: { schedules: { s: { cron: x, prompt: y, timezone: Mars/Base } } }", `there is no time zone "Mars/Base"`},
		{"mcp: { instances: 65 }", "want a whole number from 1 to 64"},
		{"mcp: { protocol: old }", "want auto, legacy, modern or the date"},
		{"agents: { main: {} }", "2:11: the agent main is the one of the flags"},
		{"agents: { 'a b': {} }", "the name of an agent has"},
		{"agents: { a: { instruction: x } }", `unknown key "instruction": did you mean "instructions"?`},
		{"agents: { a: { instructions: { file: none.md } } }", "the instructions: "},
		{"agents: { a: { tools: ['[x'] } }", "is no pattern"},
		{"agents: { a: { model: nobody/x } }", `there is no provider "nobody"`},
		{"agents: { a: { output: text } }", "want a JSON schema"},
		{"agents: { a: { output: { a: &x 1 } } }", "anchors, aliases"},
		{"agents: { a: { output: " + strings.Repeat("{a: ", 40) + "1" + strings.Repeat("}", 40) + " } }", "too deep"},
	} {
		path := filepath.Join(t.TempDir(), "f.yaml")
		write(t, path, "version: 1\n"+tt.text+"\n", 0o600)
		_, err := config.Read(path)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Read(%q): got error %v, want %q", tt.text, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret-secret") {
			t.Errorf("Read(%q): the error shows the secret", tt.text)
		}
	}
}

// What opens ports, starts work or sends data elsewhere is not a project's to say, nor may
// its agents be told what the user's files hold (SECA-27).
func TestProjectsStartNothing(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "id_rsa")
	write(t, secret, "the key of the user", 0o600)
	for _, text := range []string{
		"serve: { http: ':8080' }", "store: { path: /tmp/x.db }", "worker: { http: ':1' }", "telemetry: { endpoint: 'https://evil.example' }",
		"mcp: { files: [../.mcp.json] }", "mcp: { files: ['/etc/mcp.json'] }",
		"agents: { a: { approve: never } }", "agents: { a: { approve: tainted } }",
		"agents: { a: { instructions: { file: " + secret + " } } }",
		"agents: { a: { instructions: { file: ../x.md } } }",
		"agents: { a: { instructions: { file: link.md } } }",
	} {
		project := t.TempDir()
		path := filepath.Join(project, "troupe.yaml")
		write(t, path, "version: 1\n"+text+"\n", 0o600)
		if err := os.Symlink(secret, filepath.Join(project, "link.md")); err != nil {
			mcptest.Lacks(t, "symbolic links", err)
		}
		if c, err := (config.Places{Project: project}).Load(""); err == nil {
			t.Errorf("Load of a project with %s: got %+v, want an error", text, c)
		}
	}
}

// A project cannot widen limits beyond those that a run has by itself, and chooses only
// among the models that the user names.
func TestProjectsDoNotWiden(t *testing.T) {
	user, project := t.TempDir(), t.TempDir()
	places := config.Places{Project: project, User: user}
	write(t, filepath.Join(project, "troupe.yaml"), `version: 1
models: { default: openai/dear }
limits: { steps: 1000, tool_calls: 10, wall: 100h, tokens: 5 }
agents: { a: { model: openai/dear, limits: { steps: 33, depth: 2 } } }
`, 0o600)
	c, err := places.Load("")
	if err != nil || c.Limits != (config.Limits{ToolCalls: 10, Tokens: 5}) || len(c.Notes) != 2 || c.Agents["a"].Limits != (config.Limits{ToolCalls: 10, Tokens: 5, Depth: 2}) {
		t.Errorf("Load: got %+v, %+v, notes %v and error %v", c.Limits, c.Agents, c.Notes, err)
	}
	if c.Models.Default != "openai/dear" || c.Agents["a"].Model != "openai/dear" {
		t.Errorf("Load where the user names no model: got %q and %q", c.Models.Default, c.Agents["a"].Model)
	}
	write(t, places.UserFile(), "version: 1\nmodels: { default: ollama/own }\nlimits: { steps: 500 }\nserve: { http: ':1' }\n", 0o600)
	c, err = places.Load("")
	if err != nil || c.Limits.Steps != 500 || c.Models.Default != "ollama/own" || c.Agents["a"].Model != "" || c.Agents["a"].Limits.Steps != 33 || c.Serve.HTTP != ":1" {
		t.Errorf("Load: got %+v and error %v", c, err)
	}
	if v, _ := c.Value("models.default"); v.File != places.UserFile() || v.Text != "ollama/own" {
		t.Errorf("Value(models.default): got %+v, want the user's", v)
	}
	if v, _ := c.Value("limits.tokens"); v.Origin() != filepath.Join(project, "troupe.yaml")+":3" {
		t.Errorf("Value(limits.tokens): got %+v, want the project's", v)
	}
	if len(c.Notes) != 4 || !strings.Contains(c.Notes[0].Error(), "troupe.yaml:2:20: the model openai/dear does not count") {
		t.Errorf("Notes: got %v", c.Notes)
	}
}

// The user's file lies over that of the system, a section as a whole.
func TestSystemFile(t *testing.T) {
	places := config.Places{User: t.TempDir(), System: t.TempDir()}
	write(t, places.SystemFile(), "version: 1\nlimits: { steps: 5, tokens: 9 }\nserve: { http: ':1', names: plain }\nstore: { path: s.db }\n", 0o600)
	write(t, places.UserFile(), "version: 1\nlimits: { steps: 50 }\nserve: { http: ':2' }\n", 0o600)
	c, err := places.Load("")
	if err != nil || c.Limits.Steps != 50 || c.Limits.Tokens != 9 || c.Serve.HTTP != ":2" || c.Serve.Names != "" {
		t.Fatalf("Load: got %+v and error %v", c, err)
	}
	if _, ok := c.Value("serve.names"); ok {
		t.Error("Value(serve.names): got one that does not count")
	}
	if err := c.Resolve("store", os.Getenv); err != nil || c.Store.Path != filepath.Join(places.System, "troupe", "s.db") {
		t.Errorf("Resolve(store): got %q and error %v, want it beside its file", c.Store.Path, err)
	}
}

func TestValuesHideSecrets(t *testing.T) {
	c := parse(t, `version: 1
models: { providers: { x: { base_url: 'https://x.example/v1?code=canary', api_key: "${KEY}", headers: { A: "Bearer canary", B: "${B}" } } } }
serve: { auth: { type: bearer, token: "${T:-canary}" } }
`)
	got := ""
	for _, v := range c.Values() {
		got += v.Key + " = " + v.Text + " (" + v.Origin() + ")\n"
	}
	want := `models.providers.x.api_key = ${KEY} (troupe.yaml:2)
models.providers.x.base_url = https://x.example/v1?*** (troupe.yaml:2)
models.providers.x.headers.A = *** (troupe.yaml:2)
models.providers.x.headers.B = ${B} (troupe.yaml:2)
serve.auth.token = *** (troupe.yaml:3)
serve.auth.type = bearer (troupe.yaml:3)
version = 1 (troupe.yaml:1)
`
	if got != want {
		t.Errorf("Values: got\n%s\nwant\n%s", got, want)
	}
}

// Agents have files of their own; one that is wrong does no harm to those that do not use it.
func TestAgentFiles(t *testing.T) {
	home, project := t.TempDir(), t.TempDir()
	file := func(dir, name, text string) { write(t, filepath.Join(dir, ".agents", "agents", name), text, 0o600) }
	file(home, "mine.md", "---\ndescription: mine\napprove: never\n---\nBe brief.\n")
	file(home, "both.md", "the user's")
	file(project, "both.md", "---\nname: both\ncolor: blue\ntools: [files__*]\nmodel: inherit\nlimits: { steps: 100 }\n---\r\nthe project's\n")
	file(project, "bold.md", "---\napprove: never\n---\n")
	file(project, "open.md", "---\nname: open\n")
	file(project, "notes.txt", "no agent")
	c, err := config.Places{Home: home, Project: project}.Load("")
	if err != nil {
		t.Fatal(err)
	}
	if a, err := c.Agent("mine"); err != nil || a.Instructions != "Be brief." || a.Approve != "never" || a.Foreign {
		t.Errorf("Agent(mine): got %+v and error %v", a, err)
	}
	if a, err := c.Agent("both"); err != nil || a.Instructions != "the project's" || !a.Foreign || a.Limits.Steps != 0 || a.Allow[0] != "files__*" || a.Model != "" {
		t.Errorf("Agent(both): got %+v and error %v", a, err)
	}
	for name, want := range map[string]string{"bold": "bold.md:2:10: approve: never in a project's file", "open": "has no end"} {
		if _, err := c.Agent(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Agent(%s): got error %v, want %q", name, err, want)
		}
	}
	if len(c.Agents) != 4 {
		t.Errorf("Agents: got %v", c.Agents)
	}
	// A file that is named is the user's word, and its agents come first.
	named := filepath.Join(project, "named.yaml")
	write(t, named, "version: 1\nagents: { both: { approve: never } }\n", 0o600)
	if c, err = (config.Places{Home: home, Project: project}).Load(named); err != nil || c.Agents["both"].Approve != "never" || c.Agents["both"].Foreign {
		t.Errorf("Load(%s): got %+v and error %v", named, c, err)
	}
}

// ROB-3: whatever stands in an agent's file, reading it ends, and a project's asks.
func FuzzParseAgent(f *testing.F) {
	f.Add([]byte("---\nname: a\ntools: [x]\nlimits: { steps: 1 }\noutput: { type: object }\n---\nText.\n"), true)
	f.Add([]byte("---\napprove: never\n---\n"), true)
	f.Add([]byte("---\na: &a [*a]\n---\n"), false)
	f.Add([]byte("---\r\nmodel: inherit\r\n---\r\nText."), false)
	f.Add([]byte("no head"), false)
	f.Fuzz(func(t *testing.T, data []byte, foreign bool) {
		a, name := config.ParseAgent("a.md", data, foreign)
		if a.Err != nil {
			return
		}
		if name == config.MainAgent || foreign && (a.Approve == "never" || a.Approve == "tainted") || a.Source != "a.md" || a.Foreign != foreign {
			t.Fatalf("ParseAgent(%q, %v): got %q, %+v", data, foreign, name, a)
		}
	})
}
