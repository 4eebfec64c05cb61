package router_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/ollama"
	"github.com/troupe-dev/troupe/llm/openai"
	"github.com/troupe-dev/troupe/llm/router"
	"github.com/troupe-dev/troupe/mcp"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// One request may be on its way to several models at once, and falls back from one API to another:
// each gets what it would get if nothing was kept.
func TestFallbackSharesEncodings(t *testing.T) {
	var mu sync.Mutex
	var bodies map[string]string // by host; nil while they are compared
	transport := func(answer string, status int) *http.Client {
		return &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			defer mu.Unlock()
			if bodies[r.URL.Host] == "" {
				bodies[r.URL.Host] = string(body)
			} else if bodies[r.URL.Host] != string(body) {
				t.Errorf("%s: got %s, want %s", r.URL.Host, body, bodies[r.URL.Host])
			}
			return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
		})}
	}
	away := openai.New("a", &openai.Options{BaseURL: "http://away.test", HTTPClient: transport(`{"error":{"message":"busy"}}`, 503)})
	there := ollama.New("b", &ollama.Options{Host: "there.test", HTTPClient: transport(`{"done":true,"message":{"content":"ok"}}`, 200)})
	r := open(t, []router.Card{{Model: away, Tools: true}, {Model: there, Tools: true}}, nil)
	var kept llm.Encodings
	messages := []llm.Message{llm.User("go")}
	for n := range 20 {
		id := fmt.Sprint(n)
		messages = append(messages,
			llm.Message{Role: llm.RoleAssistant, Content: mcp.Contents{&mcp.ToolUseContent{ID: id, Name: "f", Input: json.RawMessage(`{}`)}}},
			llm.Message{Role: llm.RoleUser, Content: mcp.Contents{&mcp.ToolResultContent{ToolUseID: id, Content: mcp.Contents{mcp.Text("found " + id)}}}})
		req := &llm.Request{Messages: messages}
		bodies = make(map[string]string)
		ask := func() {
			if resp, err := llm.Generate(t.Context(), r, req); err != nil || resp.Text() != "ok" {
				t.Errorf("Generate: got %+v, %v", resp, err)
			}
		}
		ask()
		req.Encodings = &kept
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(ask)
		}
		wg.Wait()
		if len(bodies) != 2 {
			t.Fatalf("asked %d models, want both", len(bodies))
		}
	}
}
