package llmtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/ollama"
	"github.com/troupe-dev/troupe/llm/openai"
	"github.com/troupe-dev/troupe/mcp"
)

// both runs f with a client of each dialect.
func both(t *testing.T, f func(t *testing.T, connect func(*llmtest.Server) llm.Model)) {
	t.Helper()
	t.Run("openai", func(t *testing.T) {
		f(t, func(s *llmtest.Server) llm.Model {
			srv := httptest.NewServer(s)
			t.Cleanup(srv.Close)
			return openai.New("m", &openai.Options{BaseURL: srv.URL, APIKey: s.Key})
		})
	})
	t.Run("ollama", func(t *testing.T) {
		f(t, func(s *llmtest.Server) llm.Model {
			srv := httptest.NewServer(s)
			t.Cleanup(srv.Close)
			return ollama.New("m", &ollama.Options{Host: srv.URL, APIKey: s.Key})
		})
	})
}

// TestServerUnderstands holds that a server hands a request's meaning to the script, the
// same in both dialects, over real connections.
func TestServerUnderstands(t *testing.T) {
	both(t, func(t *testing.T, connect func(*llmtest.Server) llm.Model) {
		half := 0.5
		s := llmtest.NewServer(
			llmtest.Join(llmtest.Call("f", `{"n":9007199254740993}`), llmtest.Call("g", nil)),
			llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
				return llmtest.Say(fmt.Sprintf("%d messages, %d tools", len(req.Messages), len(req.Tools)))
			}),
		)
		s.Key = "k"
		m := connect(s)
		req := &llm.Request{
			System: "Be brief.", MaxTokens: 7, Temperature: &half, Stop: []string{"END"},
			Messages: []llm.Message{{Role: llm.RoleUser, Content: mcp.Contents{
				mcp.Text("look"), &mcp.ImageContent{Data: []byte("x"), MIMEType: "image/png"},
			}}},
			Tools: []llm.Tool{{Name: "f", Description: "F", InputSchema: []byte(`{"type":"object","properties":{}}`)}, {Name: "g"}},
		}
		resp, err := llm.Generate(t.Context(), m, req)
		if err != nil {
			t.Fatalf("Generate: %v", err)
		}
		failed := &mcp.ToolResultContent{ToolUseID: resp.Calls()[1].ID, IsError: true, Content: mcp.Contents{mcp.Text("no")}}
		req.Messages = append(req.Messages, resp.Message(), llm.Message{Role: llm.RoleUser, Content: mcp.Contents{
			&mcp.ToolResultContent{ToolUseID: resp.Calls()[0].ID, Content: mcp.Contents{mcp.Text("yes")}}, failed,
		}})
		resp, err = llm.Generate(t.Context(), m, req)
		if err != nil || resp.Text() != "3 messages, 2 tools" {
			t.Fatalf("Generate: got %+v and error %v", resp, err)
		}
		if f := s.Failures(); len(f) > 0 {
			t.Errorf("Failures: got %q", f)
		}
		got := s.Chats()[1].Request
		if got.System != "Be brief." || got.MaxTokens != 7 || *got.Temperature != 0.5 || len(got.Stop) != 1 || got.Tools[0].Description != "F" {
			t.Errorf("Chats: got %+v", got)
		}
		if n := len(got.Messages[0].Content); n != 2 {
			t.Errorf("Chats: got %d blocks of the user, want 2", n)
		}
		if calls := got.Messages[1].Content; len(calls) != 2 || string(calls[0].(*mcp.ToolUseContent).Input) != `{"n":9007199254740993}` {
			t.Errorf("Chats: got calls %+v", calls)
		}
		if r := got.Messages[2].Content; len(r) != 2 || !r[1].(*mcp.ToolResultContent).IsError {
			t.Errorf("Chats: got results %+v", r)
		}
	})
}

// TestServerRefuses holds the strict side: drift of a client is seen.
func TestServerRefuses(t *testing.T) {
	tests := []struct{ path, body, want string }{
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}],"top_k":1}`, "top_k"},
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"tool","tool_call_id":"1"}]}`, "invalid message content type"},
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":""}]}`, "invalid message content type"},
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f"}}]}]}`, "invalid tool call arguments"},
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"},{"role":"tool","tool_call_id":"1","content":"x"}]}`, "not an open call"},
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x"}}]}]}`, "image URLs"},
		{"/v1/chat/completions", `{`, "EOF"},
		{"/api/chat", `{"model":"m","messages":[{"role":"user","content":"x"}],"temperature":1}`, "temperature"},
		{"/api/chat", `{"model":"m","messages":[{"role":"user","content":"x"}],"options":{"num_predict":"7"}}`, "string"},
		{"/api/chat", `{"model":"m","messages":[{"role":"robot","content":"x"}]}`, "robot"},
		{"/api/chat", `{"model":"m","model":"n","messages":[]}`, "duplicate"},
		{"/v1/embeddings", `{}`, "no such path"},
	}
	for _, tt := range tests {
		t.Run(tt.path+" "+tt.want, func(t *testing.T) {
			s := llmtest.NewServer(llmtest.Say("x"))
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest("POST", tt.path, strings.NewReader(tt.body)))
			if w.Code < 400 || w.Code > 499 {
				t.Errorf("POST %s %s: got status %d and %s, want a 4xx", tt.path, tt.body, w.Code, w.Body)
			}
			if f := s.Failures(); len(f) != 1 || !strings.Contains(f[0], tt.want) {
				t.Errorf("Failures: got %q, want one that tells %q", f, tt.want)
			}
			if s.Remaining() != 1 || len(s.Requests()) != 1 {
				t.Errorf("a refused request took a turn or was not recorded")
			}
		})
	}
}

// TestRepeatedIDs holds that ids stay unique in a conversation where a server counts from
// zero in each turn (SAMP-21).
func TestRepeatedIDs(t *testing.T) {
	both(t, func(t *testing.T, connect func(*llmtest.Server) llm.Model) {
		s := llmtest.NewServer(llmtest.Call("f", nil).Over(llmtest.Wire{IDs: llmtest.IDRepeated})).Loop()
		m := connect(s)
		req := hello()
		for range 3 {
			resp, err := llm.Generate(t.Context(), m, req)
			if err != nil {
				t.Fatalf("Generate: %v", err)
			}
			req.Messages = append(req.Messages, resp.Message(), llm.Message{Role: llm.RoleUser, Content: mcp.Contents{
				&mcp.ToolResultContent{ToolUseID: resp.Calls()[0].ID},
			}})
		}
		if f := s.Failures(); len(f) > 0 {
			t.Errorf("Failures: got %q", f)
		}
	})
}

func TestServerModelsAndKey(t *testing.T) {
	both(t, func(t *testing.T, connect func(*llmtest.Server) llm.Model) {
		s := llmtest.NewServer()
		s.Models = []string{"other"}
		if _, err := llm.Generate(t.Context(), connect(s), hello()); !errors.Is(err, llm.ErrNotFound) {
			t.Errorf("Generate with an unknown model: got error %v, want %v", err, llm.ErrNotFound)
		}
		locked := llmtest.NewServer()
		m := connect(locked)
		locked.Key = "k"
		if _, err := llm.Generate(t.Context(), m, hello()); !errors.Is(err, llm.ErrAuth) {
			t.Errorf("Generate without key: got error %v, want %v", err, llm.ErrAuth)
		}
	})
}

// TestServerBeyondScript holds that a script that ran out is an error with its reason.
func TestServerBeyondScript(t *testing.T) {
	both(t, func(t *testing.T, connect func(*llmtest.Server) llm.Model) {
		s := llmtest.NewServer()
		_, err := llm.Generate(t.Context(), connect(s), hello())
		if err == nil || !strings.Contains(err.Error(), "the script has 0 turns") {
			t.Errorf("Generate: got error %v", err)
		}
	})
}

// TestServerGauge holds that chats run at once and are counted.
func TestServerGauge(t *testing.T) {
	both(t, func(t *testing.T, connect func(*llmtest.Server) llm.Model) {
		const n = 8
		// Each turn waits until all have come.
		var all sync.WaitGroup
		all.Add(n)
		s := llmtest.NewServer(llmtest.Func(func(context.Context, *llm.Request) llmtest.Turn {
			all.Done()
			all.Wait()
			return llmtest.Say("ok")
		})).Loop()
		m := connect(s)
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				if _, err := llm.Generate(t.Context(), m, hello()); err != nil {
					t.Errorf("Generate: %v", err)
				}
			})
		}
		wg.Wait()
		if got := s.MaxActive(); got != n {
			t.Errorf("MaxActive: got %d, want %d", got, n)
		}
	})
}

func TestServerLists(t *testing.T) {
	s := llmtest.NewServer()
	s.Models = []string{"a", "b"}
	tests := []struct{ method, path, body, want string }{
		{"GET", "/v1/models", "", `"id":"a"`},
		{"GET", "/api/tags", "", `"name":"b"`},
		{"GET", "/api/ps", "", `"name":"b"`},
		{"GET", "/api/version", "", `"version":"0.17.4"`},
		{"POST", "/api/show", `{"model":"a"}`, `"capabilities":["completion"`},
	}
	for _, tt := range tests {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, strings.NewReader(tt.body)))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), tt.want) || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s %s: got status %d and %s, want %s", tt.method, tt.path, w.Code, w.Body, tt.want)
		}
	}
	if f := s.Failures(); len(f) > 0 {
		t.Errorf("Failures: got %q", f)
	}
}

// The same script for a test of code that takes an address.
func ExampleNewServer() {
	s := llmtest.NewServer(
		llmtest.Call("weather", `{"city":"Oslo"}`).Over(llmtest.Wire{Piece: 7}),
		llmtest.Reply(http.StatusTooManyRequests, `{"error":{"message":"slow down"}}`, "Retry-After", "1"),
	)
	srv := httptest.NewServer(s)
	defer srv.Close()
	body := `{"model":"m","messages":[{"role":"user","content":"Weather?"}]}`
	for range 2 {
		resp, err := http.Post(srv.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			log.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d %v %q\n", resp.StatusCode, strings.Contains(string(text), "weather"), resp.Header.Get("Retry-After"))
	}
	fmt.Println(s.Requests()[0].Request.Messages[0].Content.Text())
	// Output:
	// 200 true ""
	// 429 false "1"
	// Weather?
}

func ExampleScript() {
	model := llmtest.Script(
		llmtest.Join(llmtest.Say("I look."), llmtest.Call("list", nil), llmtest.Call("read", `{"path":"a"}`)),
		llmtest.Say("There are two."),
	)
	resp, err := llm.Generate(context.Background(), model, hello())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(resp.Text(), len(resp.Calls()), "calls,", model.Remaining(), "turn left")
	// Output: I look. 2 calls, 1 turn left
}
