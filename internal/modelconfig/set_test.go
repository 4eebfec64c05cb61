package modelconfig_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/internal/modelconfig"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/router"
)

const canary = "sk-canary-0123456789"

// serve starts a scripted server and returns its address.
func serve(t *testing.T, s http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return srv.URL
}

// set makes the providers of a text and an environment.
func set(t *testing.T, text string, env map[string]string) *modelconfig.Set {
	t.Helper()
	cfg, err := config.Parse("troupe.yaml", []byte("version: 1\n"+text), false)
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return modelconfig.New(cfg, func(name string) string { return env[name] })
}

const nowhere = "127.0.0.1:1"

func TestCardsAreCorrected(t *testing.T) {
	s := llmtest.NewServer()
	s.Capabilities = []string{"completion", "tools"}
	set := set(t, `
models:
  providers: { box: { type: ollama, base_url: "${BOX}", context: 1024 } }
  cards: { box/m: { vision: true, tools: false, speed: 0, intelligence: 0.7, parameters: 8, aliases: [x] } }
  prices: { box/m: { in: 1, out: 2 } }
`, map[string]string{"BOX": serve(t, s), "OLLAMA_HOST": nowhere})
	c, err := set.Card(t.Context(), "box/m")
	if err != nil || c.Name() != "box/m" || c.Tools || !c.Vision || c.Context != 1024 || c.Speed != -1 || c.Intelligence != 0.7 ||
		c.Parameters != 8 || c.Price == nil || c.Price.Output != 2*llm.Unit || c.Aliases[0] != "x" {
		t.Errorf("Card: got %+v and error %v", c, err)
	}
	for _, name := range []string{"nobody/m", "m", "openai/m"} {
		if c, err := set.Card(t.Context(), name); err == nil {
			t.Errorf("Card(%s): got %+v, want an error", name, c)
		}
	}
}

// SECA-27: a key goes to its server, and into no error and no way of printing.
func TestKeysGoToTheirServersOnly(t *testing.T) {
	s := llmtest.NewServer(llmtest.Say("yes"), llmtest.Reply(500, `{"error":{"message":"your key `+canary+` and its header X`+canary+`"}}`))
	s.Key = canary
	set := set(t, `
models: { providers: { box: { base_url: "${BOX}", api_key: "${KEY}", headers: { X-Team: "X${KEY}" } } } }
`, map[string]string{"BOX": serve(t, s), "KEY": canary, "OLLAMA_HOST": nowhere})
	card, err := set.Card(t.Context(), "box/m")
	if err != nil {
		t.Fatal(err)
	}
	req := &llm.Request{Messages: []llm.Message{llm.User("hello")}}
	if _, err := llm.Generate(t.Context(), card.Model, req); err != nil {
		t.Fatalf("Generate: %v", err)
	}
	if got := s.Chats()[0].Header.Get("X-Team"); got != "X"+canary {
		t.Errorf("X-Team: got %q", got)
	}
	_, err = llm.Generate(t.Context(), card.Model, req)
	if err == nil || strings.Contains(err.Error(), canary) {
		t.Errorf("Generate: got error %v, want one without the key", err)
	}
	p, err := set.Provider("box")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{set, p, *p, card, &card, set.Providers(), set.Discover(t.Context())} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			if strings.Contains(fmt.Sprintf(verb, v), canary) {
				t.Errorf("%s of a %T shows the key", verb, v)
			}
		}
	}
}

func TestResolve(t *testing.T) {
	a, b := llmtest.NewServer(), llmtest.NewServer()
	a.Models, b.Models = []string{"one", "both", "tagged:latest"}, []string{"two", "both"}
	set := set(t, `
models:
  providers: { a: { base_url: "${A}" }, b: { base_url: "${B}" } }
  cards: { a/one: { aliases: [first] } }
  aliases: { second: b/two }
`, map[string]string{"A": serve(t, a), "B": serve(t, b), "OLLAMA_HOST": nowhere})
	for _, tt := range []struct {
		name, want string
		err        error
	}{
		{"a/anything", "a/anything", nil},
		{"first", "a/one", nil},
		{"second", "b/two", nil},
		{"two", "b/two", nil},
		{"tagged", "a/tagged:latest", nil},
		{"both", "", modelconfig.ErrAmbiguous},
		{"nobody", "", llm.ErrUnreachable}, // Ollama may have it
		{"hf.co/some/model", "", llm.ErrUnreachable},
	} {
		got, err := set.Resolve(t.Context(), tt.name)
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("Resolve(%s): got %q and error %v, want %q and %v", tt.name, got, err, tt.want, tt.err)
		}
	}
}

func TestFind(t *testing.T) {
	ollama, blind, box := llmtest.NewServer(), llmtest.NewServer(), llmtest.NewServer()
	blind.Capabilities = []string{"completion"}
	ollamaURL, blindURL, boxURL := serve(t, ollama), serve(t, blind), serve(t, box)
	const file = `models: { providers: { box: { base_url: "${BOX:-http://127.0.0.1:1}" } } }`
	for _, tt := range []struct {
		name, file string
		env        map[string]string
		want       string
	}{
		{"Ollama first", file, map[string]string{"OLLAMA_HOST": ollamaURL, "OPENAI_API_KEY": canary, "BOX": boxURL}, "ollama/scripted"},
		{"one that takes tools", file, map[string]string{"OLLAMA_HOST": blindURL, "BOX": boxURL}, "box/scripted"},
		{"OpenAI itself", file, map[string]string{"OLLAMA_HOST": nowhere, "OPENAI_API_KEY": canary}, "openai/gpt-5-mini"},
		{"its model", file, map[string]string{"OLLAMA_HOST": nowhere, "OPENAI_API_KEY": canary, "OPENAI_MODEL": "gpt-9"}, "openai/gpt-9"},
		{"a server of its kind", "{}", map[string]string{"OLLAMA_HOST": nowhere, "OPENAI_BASE_URL": boxURL}, "openai/scripted"},
		{"Anthropic's is not asked for", "{}", map[string]string{"OLLAMA_HOST": nowhere, "ANTHROPIC_API_KEY": canary}, ""},
		{"nor where it answers", `models: { providers: { anthropic: { base_url: "${BOX}", api_key_env: KEY } } }`,
			map[string]string{"OLLAMA_HOST": nowhere, "BOX": boxURL, "KEY": canary}, ""},
		{"none", file, map[string]string{"OLLAMA_HOST": nowhere}, ""},
	} {
		if tt.file == "{}" {
			tt.file = "models: {}"
		}
		got, err := set(t, tt.file, tt.env).Find(t.Context())
		if got != tt.want || (err == nil) != (tt.want != "") || err != nil && !errors.Is(err, modelconfig.ErrNone) {
			t.Errorf("%s: Find: got %q and error %v, want %q", tt.name, got, err, tt.want)
		}
	}
}

func TestRouter(t *testing.T) {
	s := llmtest.NewServer(llmtest.Say("hello"))
	set := set(t, `
models:
  default: box/a
  fallback: [box/b, nokey/c]
  providers: { box: { base_url: "${BOX}" }, nokey: { base_url: "${BOX}", api_key_env: NONE } }
  cards: { box/d: { vision: true } }
  aliases: { claude: box/b, gone: nokey/c }
`, map[string]string{"BOX": serve(t, s), "OLLAMA_HOST": nowhere})
	r, left, err := set.Router(t.Context(), "box/a", false)
	if err != nil || len(left) != 1 || !strings.Contains(left[0].Error(), "NONE is not set") {
		t.Fatalf("Router: got %v, left out %v, error %v", r, left, err)
	}
	if got := r.String(); got != "router over box/a, box/b" {
		t.Errorf("Router: got %s", got)
	}
	got, err := r.Choose(router.Need{Prefer: &llm.Preferences{Hints: []string{"claude"}}})
	if err != nil || got[0].Model.Name() != "box/b" {
		t.Errorf("Choose: got %+v and error %v, want box/b by its alias", got, err)
	}
	if r, _, err := set.Router(t.Context(), "box/a", true); err != nil || r.String() != "router over box/a, box/b, box/d" {
		t.Errorf("Router with all: got %v and error %v", r, err)
	}
	if r, _, err := set.Router(t.Context(), "nokey/a", false); err == nil || r != nil {
		t.Errorf("Router without a key: got %v and error %v", r, err)
	}
}

// Azure's older API: another path, another header, and no list.
func TestAzure(t *testing.T) {
	var path, key string
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, key = r.URL.String(), r.Header.Get("Api-Key")
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"content":"yes"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	})
	set := set(t, `models: { providers: { azure: { base_url: "${URL}", api_key_env: KEY, api_version: 2024-10-21 } } }`,
		map[string]string{"URL": serve(t, h), "KEY": canary, "OLLAMA_HOST": nowhere})
	card, err := set.Card(t.Context(), "azure/my-gpt.4")
	if err != nil {
		t.Fatal(err)
	}
	resp, err := llm.Generate(t.Context(), card.Model, &llm.Request{Messages: []llm.Message{llm.User("hello")}})
	if err != nil || resp.Text() != "yes" || path != "/openai/deployments/my-gpt.4/chat/completions?api-version=2024-10-21" || key != canary {
		t.Errorf("Generate: got %+v and error %v, asked at %s", resp, err, path)
	}
	for _, f := range set.Discover(t.Context()) {
		if f.Server.Provider() == "azure" && !errors.Is(f.Err, llm.ErrUnsupported) {
			t.Errorf("Discover: got %+v, want %v", f, llm.ErrUnsupported)
		}
	}
}

func TestUnreachableIsBounded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := set(t, "models: {}", map[string]string{"OLLAMA_HOST": nowhere})
	if _, err := s.Find(ctx); err == nil {
		t.Error("Find after a cancel: got no error")
	}
	if _, _, err := s.Router(ctx, "ollama/any", false); err != nil {
		t.Errorf("Router: %v: a server that does not answer is for the turn to find", err)
	}
}
