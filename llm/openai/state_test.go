package openai_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/openai"
	"github.com/troupe-dev/troupe/mcp"
)

// host is that of all servers here.
const host = "server.test"

// requests are the bodies that a server has got.
type requests struct {
	mu   sync.Mutex
	list []string // guarded by mu
}

func (r *requests) add(body string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, body)
}

func (r *requests) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// picky is a client of a server that refuses requests, or answers with a stream of these deltas.
func picky(t *testing.T, refuse func(body string) string, deltas ...string) (client *openai.Client, sent *requests) {
	t.Helper()
	sent = new(requests)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent.add(string(body))
		if why := refuse(string(body)); why != "" {
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": why}})
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, d := range deltas {
			fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n", d)
		}
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(srv.Close)
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, srv.Listener.Addr().String())
	}
	return openai.New("m", &openai.Options{BaseURL: "http://" + host, HTTPClient: &http.Client{Transport: &http.Transport{DialContext: dial}}}), sent
}

// called is a conversation in which a call was made and answered.
func called(state ...llm.ProviderState) *llm.Request {
	return &llm.Request{Tools: []llm.Tool{{Name: "f"}}, Messages: []llm.Message{llm.User("go"),
		{Role: llm.RoleAssistant, Content: mcp.Contents{&mcp.ToolUseContent{ID: "c1", Name: "f"}, &mcp.ToolUseContent{ID: "c2", Name: "f"}}, State: state},
		{Role: llm.RoleUser, Content: mcp.Contents{&mcp.ToolResultContent{ToolUseID: "c1", Content: mcp.Contents{mcp.Text("1")}}, &mcp.ToolResultContent{ToolUseID: "c2", Content: mcp.Contents{mcp.Text("2")}}}}}}
}

// A server that takes no such field is not sent it again, and one that misses something gets what its documentation names.
func TestHabitsAreLearned(t *testing.T) {
	mine := func(kind, data string) llm.ProviderState {
		return llm.ProviderState{Provider: "openai", Model: "m", Server: host, Kind: kind, Data: json.RawMessage(data)}
	}
	tests := []struct {
		name, refuses string // the text of the error
		refused       func(body string) bool
		state         []llm.ProviderState
		want          string // in the second attempt
		wantNot       string
	}{
		{"an unknown field", "Unrecognized request argument supplied: reasoning_content", func(b string) bool { return strings.Contains(b, "reasoning_content") },
			[]llm.ProviderState{mine("reasoning_content", `"x"`), {Provider: "openai", Model: "m", Server: host, Kind: "extra_content", Call: "c1", Data: json.RawMessage(`{"a":1}`)}}, `"extra_content":{"a":1}`, "reasoning_content"},
		{"another field", "messages[1]: unknown field `reasoning`", func(b string) bool { return strings.Contains(b, `"reasoning":`) },
			[]llm.ProviderState{mine("reasoning", `"x"`)}, `"tool_calls"`, `"reasoning":`},
		{"no reasoning", "The `reasoning_content` in the thinking mode must be passed back to the API.", func(b string) bool { return !strings.Contains(b, `"reasoning_content":""`) },
			nil, `"reasoning_content":""`, "extra_content"},
		{"no signature", "Function call is missing a thought_signature in functionCall parts.", func(b string) bool { return !strings.Contains(b, "skip_thought_signature_validator") },
			nil, `{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"skip_thought_signature_validator"}}},{"id":"c2","type":"function","function":{"name":"f","arguments":"{}"}}`, "reasoning_content"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client, sent := picky(t, func(body string) string {
				if tt.refused(body) {
					return tt.refuses
				}
				return ""
			}, `{"content":"ok"}`)
			for range 2 {
				if resp, err := llm.Generate(t.Context(), client, called(tt.state...)); err != nil || resp.Text() != "ok" {
					t.Fatalf("got %+v, %v", resp, err)
				}
			}
			if len(sent.all()) != 3 {
				t.Fatalf("got %d requests, want one more than turns", len(sent.all()))
			}
			for _, body := range sent.all()[1:] {
				if !strings.Contains(body, tt.want) || strings.Contains(body, tt.wantNot) {
					t.Errorf("sent %s", body)
				}
			}
		})
	}
	client, sent := picky(t, func(string) string { return "reasoning_content and thought_signature are wrong, whatever they are" })
	if _, err := llm.Generate(t.Context(), client, called(mine("reasoning_content", `"x"`))); err == nil || len(sent.all()) > 4 {
		t.Errorf("a server that is never content: got %v after %d requests", err, len(sent.all()))
	}
}

// Requests that were under way when another one has shown what the server wants are made again too.
func TestHabitsAreLearnedAtOnce(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	client, sent := picky(t, func(body string) string {
		if strings.Contains(body, "skip_thought_signature_validator") {
			return ""
		}
		both.Done()
		both.Wait()
		return "Function call is missing a thought_signature in functionCall parts."
	}, `{"content":"ok"}`)
	var turns sync.WaitGroup
	for range 2 {
		turns.Go(func() {
			if resp, err := llm.Generate(t.Context(), client, called()); err != nil || resp.Text() != "ok" {
				t.Errorf("got %+v, %v", resp, err)
			}
		})
	}
	turns.Wait()
	if n := len(sent.all()); n != 4 {
		t.Errorf("got %d requests, want each turn's twice", n)
	}
}

// What another client, or another model of the same server, was sent goes to no other; nor does what no client has made.
func TestStateOfOthers(t *testing.T) {
	client, sent := picky(t, func(string) string { return "" }, `{"content":"ok"}`)
	state := []llm.ProviderState{{Provider: "other", Model: "m", Server: host, Kind: "reasoning_content", Data: json.RawMessage(`"secret"`)}, {Provider: "openai", Model: "m", Server: "elsewhere", Kind: "reasoning", Data: json.RawMessage(`"secret"`)}, {Provider: "openai", Model: "n", Server: host, Kind: "reasoning_details", Data: json.RawMessage(`["secret"]`)},
		{Provider: "openai", Model: "m", Server: host, Kind: "role", Data: json.RawMessage(`"secret"`)}, {Provider: "openai", Model: "m", Server: host, Kind: "extra_content", Call: "c9", Data: json.RawMessage(`"secret"`)}}
	if _, err := llm.Generate(t.Context(), client, called(state...)); err != nil || strings.Contains(sent.all()[0], "secret") {
		t.Errorf("got %v, sent %s", err, sent.all())
	}
	if _, err := llm.Generate(t.Context(), client, called(llm.ProviderState{Kind: "x", Data: json.RawMessage(`{`)})); err == nil {
		t.Error("state that is no JSON: got no error")
	}
}

// The fragments of streamed blocks come back as the blocks that they are of.
func TestBlocksArePutTogether(t *testing.T) {
	client, _ := picky(t, func(string) string { return "" },
		`{"reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a","format":"f","index":0}]}`, `{"reasoning_details":[{"type":"reasoning.text","text":"b","signature":null,"index":0}]}`,
		`{"reasoning_details":[{"type":"reasoning.text","signature":"s1","index":0},{"type":"reasoning.text","text":"c","signature":"s2","index":0}]}`,
		`{"reasoning_details":[{"type":"reasoning.encrypted","data":"d","index":1},{"type":"reasoning.encrypted","data":"e","index":1},{"type":"reasoning.summary","summary":"f","index":2},{"type":"reasoning.summary","summary":"g","index":2},7]}`, `{"content":"ok"}`)
	resp, err := llm.Generate(t.Context(), client, called())
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"format":"f","index":0,"signature":"s1","text":"ab","type":"reasoning.text"},{"type":"reasoning.text","text":"c","signature":"s2","index":0},{"type":"reasoning.encrypted","data":"d","index":1},` +
		`{"type":"reasoning.encrypted","data":"e","index":1},{"index":2,"summary":"fg","type":"reasoning.summary"},7]`
	if len(resp.State) != 1 || string(resp.State[0].Data) != want {
		t.Errorf("got %s, want %s", resp.State, want)
	}
	long := strings.Repeat("x", llm.MaxState)
	client, _ = picky(t, func(string) string { return "" }, `{"reasoning_content":"`+long+`"}`, `{"reasoning_content":"y","content":"ok"}`)
	if resp, err := llm.Generate(t.Context(), client, called()); err != nil || resp.State != nil || len(resp.Thinking) != llm.MaxState+1 {
		t.Errorf("more than is kept: got %d states, %v", len(resp.State), err)
	}
}
