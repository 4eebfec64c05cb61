package config_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/llm"
)

const full = `
version: 1
models:
  default: ollama/qwen3:8b
  fallback: [openai/gpt-5-mini]
  providers:
    ollama: { base_url: "http://gpubox:11434", keep_alive: forever, context: 32768, concurrency: 2 }
    openai:
      api_key: ${OPENAI_API_KEY:-}
      per_minute: 60
    openrouter:
      base_url: https://openrouter.ai/api/v1
      api_key_env: OPENROUTER_API_KEY
      headers: { X-Title: troupe, X-Team: "${TEAM:-none}" }
      max_tokens_field: max_tokens
      api: chat
    azure:
      type: openai
      base_url: https://acme.openai.azure.com
      api_version: 2024-10-21
      api_key_file: azure.key
  cards:
    openrouter/anthropic/claude-sonnet-4.5: { vision: true, context: 200_000, intelligence: 0.9, cost: 0, aliases: [sonnet] }
  aliases: { claude-3-sonnet: ollama/qwen3:8b }
  prices: { "openai/gpt-5-mini": { in: 0.25, out: 2.00 } }
sampling:
  model: ollama/qwen3:8b
  default: ask
  servers:
    everything: { mode: allow, max_tokens_total: 5000, max_cost: 0.10, models: [ollama/qwen3:8b], context: thisServer }
    other: deny
limits: { tokens: 50000, cost: 0.20, tool_calls: 20, model_calls: 9, steps: 8, depth: 2, wall: 10m, on_limit: wrap-up, repeats: 4 }
`

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("troupe.yaml", []byte(text), false)
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return c
}

func TestParse(t *testing.T) {
	c := parse(t, full)
	m := c.Models
	if m.Default != "ollama/qwen3:8b" || !reflect.DeepEqual(m.Fallback, []string{"openai/gpt-5-mini"}) ||
		!reflect.DeepEqual(m.Aliases, map[string][]string{"claude-3-sonnet": {"ollama/qwen3:8b"}}) {
		t.Errorf("models: got %+v", m)
	}
	if p := m.Prices["openai/gpt-5-mini"]; p.Input != llm.Unit/4 || p.Output != 2*llm.Unit || p.Source != "troupe.yaml:25" {
		t.Errorf("price: got %+v", p)
	}
	card := m.Cards["openrouter/anthropic/claude-sonnet-4.5"]
	if card.Vision == nil || !*card.Vision || card.Tools != nil || card.Context != 200_000 || *card.Intelligence != 0.9 || *card.Cost != 0 || card.Speed != nil {
		t.Errorf("card: got %+v", card)
	}
	if p := m.Providers["ollama"]; p.Type != config.TypeOllama || p.KeepAlive != -1 || p.Context != 32768 || p.Concurrency != 2 {
		t.Errorf("ollama: got %+v", p)
	}
	if p := m.Providers["azure"]; p.APIVersion != "2024-10-21" {
		t.Errorf("azure: got %+v", p)
	}
	want := config.Limits{Tokens: 50000, Cost: llm.Unit / 5, ToolCalls: 20, ModelCalls: 9, Steps: 8, Depth: 2, Wall: 10 * time.Minute, OnLimit: "wrap-up", Repeats: 4}
	if c.Limits != want {
		t.Errorf("limits: got %+v, want %+v", c.Limits, want)
	}
	s := c.Sampling
	if s.Model != "ollama/qwen3:8b" || s.Default.Mode != "ask" || s.Servers["other"].Mode != "deny" {
		t.Errorf("sampling: got %+v", s)
	}
	if p := s.Servers["everything"]; p.Mode != "allow" || p.MaxTokensTotal != 5000 || p.MaxCost != llm.Unit/10 || p.Context != "thisServer" || len(p.Models) != 1 {
		t.Errorf("sampling of everything: got %+v", p)
	}
}

// What is wrong is told with its place and, where one is near, the key that was meant.
func TestMistakes(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty", "", `f.yaml: the file is empty; it begins with "version: 1"`},
		{"no version", "models: {}", `f.yaml:1:1: the version is missing`},
		{"another version", "version: 2", "f.yaml:1:10: version 2 is not known"},
		{"no YAML", "version: 1\nmodels: [", "f.yaml:2:1: not valid YAML: did not find expected node content"},
		{"a list", "- a", "f.yaml:1:1: want a mapping, of keys and values, got a list"},
		{"unknown section", "version: 1\nmodles: {}", `f.yaml:2:1: unknown key "modles": did you mean "models"?`},
		{"nothing near", "version: 1\nzzzzzz: {}", `f.yaml:2:1: unknown key "zzzzzz"; known here are agents, limits, mcp, models, sampling, serve, store, telemetry, version, worker`},
		{"dash for underscore", "version: 1\nlimits: { tool-calls: 1 }", `f.yaml:2:11: unknown key "tool-calls": did you mean "tool_calls"?`},
		{"twice", "version: 1\nlimits:\n  steps: 1\n  steps: 2", `f.yaml:4:3: the key "steps" stands here again, after line 3`},
		{"two documents", "version: 1\n---\nversion: 1", "f.yaml:2:1: a second document"},
		{"anchor", "version: 1\nlimits: &a { steps: 1 }\nmodels: *a", "anchors, aliases and merges are not taken"},
		{"merge", "version: 1\nmodels:\n  <<: {}", "f.yaml:3:3: anchors, aliases and merges are not taken"},
		{"negative", "version: 1\nlimits: { tokens: -1 }", `f.yaml:2:19: want a whole number from 0 to 2147483647, got "-1"`},
		{"no number", "version: 1\nlimits: { tokens: many }", `got "many"`},
		{"money", "version: 1\nlimits: { cost: 1e3 }", `"1e3" is not an amount of money`},
		{"time", "version: 1\nlimits: { wall: 10 }", `want a time such as 90s or 10m, got "10"`},
		{"repeats", "version: 1\nlimits: { repeats: off }", `f.yaml:2:20: want a whole number from 0 to 2147483647, got "off"`},
		{"no pattern of tools", "version: 1\nmcp: { polls: ['['] }", `"[" is no pattern`},
		{"word", "version: 1\nlimits: { on_limit: explode }", `want one of stop, ask, wrap-up, got "explode"`},
		{"rate", "version: 1\nmodels: { cards: { ollama/a: { cost: 1.5 } } }", `want a number from 0 to 1, got "1.5"`},
		{"rate of nothing", "version: 1\nmodels: { cards: { ollama/a: { cost: .nan } } }", `want a number from 0 to 1`},
		{"flag", "version: 1\nmodels: { cards: { ollama/a: { tools: yes please } } }", "want true or false, got a text"},
		{"price", "version: 1\nmodels: { prices: { ollama/a: { in: 1 } } }", "f.yaml:2:31: a price has in and out"},
		{"bare card", "version: 1\nmodels: { cards: { a: {} } }", `f.yaml:2:20: want PROVIDER/MODEL, got "a"`},
		{"provider of a model", "version: 1\nmodels: { default: opnai/a }", `f.yaml:2:20: there is no provider "opnai": did you mean "openai"?`},
		{"provider of a fallback", "version: 1\nmodels: { fallback: [ollama/a, zzzzzz/b] }", `f.yaml:2:32: there is no provider "zzzzzz"; there are anthropic, gemini, ollama, openai`},
		{"no model", "version: 1\nmodels: { default: openai/ }", "want PROVIDER/MODEL"},
		{"type", "version: 1\nmodels: { providers: { x: { type: grpc, base_url: 'http://a' } } }", `want one of openai, ollama, got "grpc"`},
		{"no URL", "version: 1\nmodels: { providers: { x: {} } }", "f.yaml:2:27: the base_url is missing"},
		{"no URL of the other type", "version: 1\nmodels: { providers: { ollama: { type: openai } } }", "f.yaml:2:32: the base_url is missing"},
		{"two keys", "version: 1\nmodels: { providers: { openai: { api_key_env: A, api_key_file: b } } }", "a second source of the key"},
		{"no variable", "version: 1\nmodels: { providers: { openai: { api_key_env: sk-1234567890 } } }", "want the name of a variable of the environment, not its value"},
		{"header", "version: 1\nmodels: { providers: { openai: { headers: { 'a b': c } } } }", "this is no name of a header"},
		{"other type's", "version: 1\nmodels: { providers: { openai: { keep_alive: 1m } } }", "keep_alive and context are for the type ollama"},
		{"provider's name", "version: 1\nmodels: { providers: { 'a/b': { base_url: 'http://a' } } }", "f.yaml:2:24: a provider's name has letters"},
		{"control characters", "version: 1\nmodels: { default: \"a\\nb\" }", "the text has control characters"},
		{"rules", "version: 1\nstore: { rules: { agent: a } }", "f.yaml:2:17: want a list of rules, [{ agent: NAME, state: failed, keep: 30d }], got a mapping"},
		{"rule", "version: 1\nstore: { rules: [30d] }", "f.yaml:2:18: want a mapping, of keys and values, got a text"},
		{"key of a rule", "version: 1\nstore: { rules: [{ states: failed, keep: 1d }] }", `f.yaml:2:20: unknown key "states": did you mean "state"?`},
		{"state of a rule", "version: 1\nstore:\n  rules:\n  - { state: completed, keep: 1d }", `f.yaml:4:14: want some of finished, done, failed, cancelled, limited, unknown, got "completed"`},
		{"time of a rule", "version: 1\nstore: { rules: [{ state: failed, keep: always }] }", `f.yaml:2:41: want a time such as 90d, 36h or 10m, or forever, got "always"`},
		{"rule without a time", "version: 1\nstore: { rules: [{ state: failed }] }", "f.yaml:2:18: a rule says how long: keep: 30d, or keep: forever"},
		{"rule of all", "version: 1\nstore: { rules: [{ keep: 1d }] }", "f.yaml:2:18: a rule says for what"},
		{"an effort", "version: 1\nagents: { a: { instructions: x, thinking: hard } }", `want one of none, minimal, low, medium, high, xhigh, max, got "hard"`},
		{"an API", "version: 1\nmodels: { providers: { x: { base_url: 'http://a', api: grpc } } }", `want one of auto, chat, responses, got "grpc"`},
		{"an API of Ollama", "version: 1\nmodels: { providers: { ollama: { api: chat } } }", `api, api_version and max_tokens_field are for the type openai`},
		{"policy", "version: 1\nsampling: { default: always }", `want one of ask, allow, deny, got "always"`},
	}
	dir := t.TempDir()
	for _, tt := range tests {
		path := filepath.Join(dir, "f.yaml")
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := config.Read(path)
		if _, ok := errors.AsType[*config.Error](err); !ok || !strings.Contains(strings.ReplaceAll(err.Error(), dir+"/", ""), tt.want) {
			t.Errorf("%s: Read: got error %v, want %q", tt.name, err, tt.want)
		}
	}
}

// A key that was written into the file is refused, and not shown (SECA-27).
func TestKeysDoNotBelongIntoTheFile(t *testing.T) {
	const secret = "sk-canary-0123456789"
	for _, provider := range []string{
		"openai: { api_key: " + secret + " }",
		"openai: { api_key: '${A:-" + secret + "}' }",
		"openai: { api_key: '${A}" + secret + "' }",
		"openai: { api_key_env: " + secret + " }",
		"openai: " + secret,
		"openai: [" + secret + "]",
		"x: { base_url: 'https://user:" + secret + "@x.example' }",
	} {
		c, err := config.Parse("f.yaml", []byte("version: 1\nmodels: { providers: { "+provider+" } }"), false)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("Parse(%s): got %v and error %v, want an error without the key", strings.ReplaceAll(provider, secret, "KEY"), c, err)
		}
	}
	// Local servers are given a word.
	parse(t, "version: 1\nmodels: { providers: { x: { base_url: 'http://127.0.0.1:1', api_key: none } } }")
}

func TestServers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "troupe.yaml")
	write(t, path, full, 0o644)
	write(t, filepath.Join(dir, "azure.key"), " from-the-file \n", 0o600)
	c, err := config.Read(path)
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	env := map[string]string{"OPENROUTER_API_KEY": "from-the-environment", "TEAM": "red", "OLLAMA_HOST": "elsewhere", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
	get := func(name string) string { return env[name] }
	server := func(name string) config.Server {
		s, err := c.Server(name, get)
		if err != nil {
			t.Errorf("Server(%s): %v", name, err)
		}
		return s
	}
	if s := server("openrouter"); s.APIKey.Reveal() != "from-the-environment" || s.Header().Get("X-Team") != "red" || s.Header().Get("X-Title") != "troupe" {
		t.Errorf("openrouter: got %v with headers %v", s.APIKey.Reveal(), s.Header())
	}
	if s := server("azure"); s.APIKey.Reveal() != "from-the-file" || s.BaseURL != "https://acme.openai.azure.com" {
		t.Errorf("azure: got %q at %s", s.APIKey.Reveal(), s.BaseURL)
	}
	if s := server("ollama"); s.BaseURL != "http://gpubox:11434" {
		t.Errorf("ollama: got %s, want what the file says before the environment", s.BaseURL)
	}
	if s := server("openai"); s.BaseURL != "http://127.0.0.1:9/v1" || !s.APIKey.IsZero() || s.PerMinute != 60 {
		t.Errorf("openai: got %+v", s)
	}
	all, faults := c.Servers(get)
	if len(all) != 6 || len(faults) != 2 || faults["anthropic"] == nil || faults["gemini"] == nil {
		t.Errorf("Servers: got %d and %v", len(all), faults)
	}

	for _, tt := range []struct {
		name, want string
		change     func()
	}{
		{"openrouter", "api_key_env: OPENROUTER_API_KEY is not set", func() { delete(env, "OPENROUTER_API_KEY") }},
		{"openai", "neither OPENAI_API_KEY nor OPENAI_BASE_URL is set", func() { delete(env, "OPENAI_BASE_URL") }},
		{"anthropic", "ANTHROPIC_API_KEY is not set", func() {}},
		{"nobody", "there is no provider", func() {}},
		{"azure", "api_key_file: ", func() { write(t, filepath.Join(dir, "azure.key"), " \n", 0o600) }},
		{"azure", "chmod 600", func() {
			if runtime.GOOS != "windows" {
				_ = os.Chmod(filepath.Join(dir, "azure.key"), 0o640)
			}
		}},
		{"azure", "no such file", func() { _ = os.Remove(filepath.Join(dir, "azure.key")) }},
	} {
		tt.change()
		if s, err := c.Server(tt.name, get); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Server(%s): got %+v and error %v, want %q", tt.name, s, err, tt.want)
		}
	}
}

// The key of the environment is for the vendor's own server, not for one that a file put
// in its place.
func TestEnvironmentKeyStays(t *testing.T) {
	c := parse(t, "version: 1\nmodels: { providers: { openai: { base_url: 'http://127.0.0.1:1' } } }")
	s, err := c.Server("openai", func(string) string { return "canary" })
	if err != nil || !s.APIKey.IsZero() {
		t.Errorf("Server: got the key %q and error %v, want none", s.APIKey.Reveal(), err)
	}
	// And not where the file has another one.
	c = parse(t, "version: 1\nmodels: { providers: { openai: { api_key: '${OTHER}' } } }")
	s, err = c.Server("openai", func(name string) string { return "of " + name })
	if err != nil || s.APIKey.Reveal() != "of OTHER" {
		t.Errorf("Server: got the key %q and error %v, want the one that the file names", s.APIKey.Reveal(), err)
	}
}

// A base_url whose variables stand for nothing is none: the vendor's own server is asked,
// and no other vendor's is given the key.
func TestEmptyBaseURL(t *testing.T) {
	c := parse(t, `version: 1
models:
  providers:
    anthropic: { base_url: '${PROXY:-}', api_key_env: KEY }
    ollama: { type: openai, base_url: '${PROXY:-}', api_key_env: KEY }
`)
	getenv := func(name string) string { return map[string]string{"KEY": "canary"}[name] }
	s, err := c.Server("anthropic", getenv)
	if err != nil || s.BaseURL != "https://api.anthropic.com/v1" || s.APIKey.Reveal() != "canary" {
		t.Errorf("Server(anthropic): got %q with the key %q and error %v, want its usual server and the key", s.BaseURL, s.APIKey.Reveal(), err)
	}
	// What speaks another API is not the built-in server.
	if s, err := c.Server("ollama", getenv); err == nil {
		t.Errorf("Server(ollama): got %q, want an error: there is no usual server of that type", s.BaseURL)
	}
}

func TestLoad(t *testing.T) {
	user, project := t.TempDir(), t.TempDir()
	places := config.Places{Project: project, User: user}
	if c, err := places.Load(""); err != nil || len(c.Files) != 0 {
		t.Errorf("Load without files: got %+v and error %v", c, err)
	}
	own := places.UserFile()
	write(t, own, "version: 1\nmodels:\n  default: box/a\n  fallback: [box/b]\n  providers: { box: { base_url: 'http://127.0.0.1:1' } }\nlimits: { tokens: 100, steps: 5, wall: 1m }\nsampling: { default: deny }\nmcp: { instances: 2 }\n", 0o600)
	write(t, filepath.Join(project, "troupe.yaml"), "version: 1\nmodels: { default: box/b }\nlimits: { tokens: 1000, steps: 3, tool_calls: 2 }\n", 0o600)
	c, err := places.Load("")
	want := config.Limits{Tokens: 100, Steps: 3, ToolCalls: 2, Wall: time.Minute}
	if err != nil || c.Models.Default != "box/b" || len(c.Models.Providers) != 1 || len(c.Files) != 2 || c.Sampling.Default.Mode != "deny" || c.Limits != want || c.MCP.Instances != 2 {
		t.Errorf("Load: got %+v and error %v, want the project's over the user's, within its limits", c, err)
	}
	// One that is named stands alone, and is the user's word.
	named := filepath.Join(project, "other.yaml")
	write(t, named, "version: 1\nsampling: { default: allow }\n", 0o600)
	if c, err := places.Load(named); err != nil || c.Models.Default != "" || c.Sampling.Default.Mode != "allow" {
		t.Errorf("Load(%s): got %+v and error %v", named, c, err)
	}
	if _, err := places.Load(filepath.Join(project, "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Load of a file that is not there: got error %v, want %v", err, os.ErrNotExist)
	}
	if _, err := places.Load(project); err == nil {
		t.Error("Load of a folder: got no error")
	}
}

// What a stranger's project could use to lead keys and conversations elsewhere, or to let
// its servers use a model, counts only if the user names the file (SECA-27).
func TestProjectsAreNotTrusted(t *testing.T) {
	for _, text := range []string{
		"models: { providers: { openai: { base_url: 'https://evil.example', api_key_env: OPENAI_API_KEY } } }",
		"models: { providers: { ollama: { base_url: 'https://evil.example' } } }",
		"models: { prices: { openai/gpt-5: { in: 0, out: 0 } } }",
		"models: { aliases: { llama3: [openai/gpt-5] } }",
		"models: { cards: { openai/gpt-5: { aliases: [llama3] } } }",
		"models: { fallback: [openai/gpt-5] }",
		"sampling: { default: allow }",
		"mcp: { instances: 8 }",
	} {
		project := t.TempDir()
		path := filepath.Join(project, "troupe.yaml")
		write(t, path, "version: 1\n"+text+"\n", 0o600)
		_, err := config.Places{Project: project}.Load("")
		if err == nil || !strings.Contains(err.Error(), "counts only if you name the file") {
			t.Errorf("Load of a project with %s: got error %v", text, err)
		}
		if _, err := (config.Places{Project: project}).Load(path); err != nil {
			t.Errorf("Load(%s): %v", text, err)
		}
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full), true)
	f.Add([]byte("version: 1\nmodels: { providers: { x: { base_url: '${A}', api_key: '${B:-c}' } } }"), false)
	f.Add([]byte("a: &a [*a]"), false)
	f.Add([]byte(services), false)
	f.Add([]byte("{[: }"), true)
	f.Add([]byte("version: !!binary aGk="), false)
	f.Fuzz(func(t *testing.T, data []byte, foreign bool) {
		c, err := config.Parse("f.yaml", data, foreign)
		if (c == nil) == (err == nil) {
			t.Fatalf("Parse(%q): got %v and error %v", data, c, err)
		}
		if err != nil {
			bad, ok := errors.AsType[*config.Error](err)
			if !ok || len(bad.Problems) == 0 || len(bad.Problems) > 21 {
				t.Fatalf("Parse(%q): got error %v", data, err)
			}
			return
		}
		if foreign && (len(c.Models.Providers) > 0 || len(c.Models.Prices) > 0 || c.Sampling.Default.Mode != "" ||
			c.Serve.HTTP != "" || c.Store.Path != "" || c.Worker.Schedules != nil || c.Telemetry.Endpoint != "") {
			t.Fatalf("Parse(%q) of a project: got %+v", data, c)
		}
		c.Servers(func(string) string { return "" })
		for _, v := range c.Values() {
			if v.Key == "" || v.File != "f.yaml" {
				t.Fatalf("Parse(%q): got the value %+v", data, v)
			}
		}
		for name, a := range c.Agents {
			if name == "" || foreign && (a.Approve == "never" || a.Approve == "tainted") || a.Output != nil && !json.Valid(a.Output) {
				t.Fatalf("Parse(%q): got the agent %q: %+v", data, name, a)
			}
		}
	})
}
