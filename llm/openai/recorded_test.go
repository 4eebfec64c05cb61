package openai_test

import (
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/openai"
	"github.com/troupe-dev/troupe/mcp"
)

// recordings is the folder of recorded traffic of real services. It is no part of the project.
func recordings(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("MODEL_RECORDINGS")
	if dir == "" {
		if os.Getenv("REQUIRE_RECORDINGS") != "" {
			t.Fatal("MODEL_RECORDINGS does not name the folder of recorded traffic")
		}
		t.Skip("MODEL_RECORDINGS does not name a folder of recorded traffic of model services")
	}
	return dir
}

// interaction is a recorded request and its answer.
type interaction struct {
	Request struct {
		URL string `yaml:"url"`
	} `yaml:"request"`
	Response struct {
		Code    int                 `yaml:"code"`
		Headers map[string][]string `yaml:"headers"`
		Body    string              `yaml:"body"`
	} `yaml:"response"`
}

// wire is what an answer, or a message of a request, has beside its text, as the API has it.
type wire struct {
	Reasoning        string            `json:"reasoning"`
	ReasoningContent string            `json:"reasoning_content"`
	Details          []json.RawMessage `json:"reasoning_details"`
	Extra            json.RawMessage   `json:"extra_content"`
	ToolCalls        []struct {
		ID       string          `json:"id"`
		Extra    json.RawMessage `json:"extra_content"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// add puts the next piece of a stream behind w.
func (w *wire) add(d wire) {
	w.Reasoning += d.Reasoning
	w.ReasoningContent += d.ReasoningContent
	w.Details = append(w.Details, d.Details...)
	if d.Extra != nil {
		w.Extra = d.Extra
	}
}

// parts are what the blocks of reasoning say, in order, however they are cut: the texts as one, and each value that must not be changed.
func parts(t *testing.T, blocks []json.RawMessage) (text string, values []string) {
	for _, raw := range blocks {
		var b struct{ Type, Text, Summary, Data, Signature, Format, ID string }
		if err := json.Unmarshal(raw, &b); err != nil {
			t.Fatal(err)
		}
		text += b.Text + b.Summary
		for _, v := range []string{b.Data, b.Signature, b.ID} {
			if v != "" {
				values = append(values, v)
			}
		}
	}
	return text, values
}

// What a service has attached to a recorded answer is in the next request as it came, and the calls are as they were.
func TestRecordedState(t *testing.T) {
	dir, n := recordings(t), map[string]int{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var file struct {
			Interactions []interaction `yaml:"interactions"`
		}
		if err := yaml.Unmarshal(text, &file); err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		for _, in := range file.Interactions {
			if in.Response.Code != http.StatusOK {
				continue
			}
			switch {
			case strings.HasSuffix(in.Request.URL, "/chat/completions"):
				t.Run(filepath.ToSlash(name), func(t *testing.T) { replay(t, &in, n) })
			case strings.HasSuffix(in.Request.URL, "/responses"):
				t.Run(filepath.ToSlash(name), func(t *testing.T) { replayResponse(t, &in, n) })
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"reasoning_content", "reasoning_details", "calls", "responses", "calls of responses"} {
		if n[kind] == 0 {
			t.Errorf("no recorded answer has %s", kind)
		}
	}
}

// again plays the recorded answer to two requests, of which the second has the first one's answer in it, and returns that answer and
// the second body.
func again(t *testing.T, in *interaction, api openai.API) (resp *llm.Response, sent []byte) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", in.Response.Headers["Content-Type"][0])
		_, _ = io.WriteString(w, in.Response.Body)
	}))
	defer srv.Close()
	client := openai.New("m", &openai.Options{Provider: "service", BaseURL: srv.URL, API: api})
	req := &llm.Request{Messages: []llm.Message{llm.User("go")}, Tools: []llm.Tool{{Name: "weather"}, {Name: "add"}, {Name: "multiply"}}}
	resp, err := llm.Generate(t.Context(), client, req)
	if err != nil {
		t.Fatal(err)
	}
	req.Messages = append(req.Messages, resp.Message())
	var results mcp.Contents
	for _, c := range resp.Calls() {
		results = append(results, &mcp.ToolResultContent{ToolUseID: c.ID, Content: mcp.Contents{mcp.Text("done")}})
	}
	if len(results) == 0 {
		results = mcp.Contents{mcp.Text("and now?")}
	}
	req.Messages = append(req.Messages, llm.Message{Role: llm.RoleUser, Content: results})
	if _, err := llm.Generate(t.Context(), client, req); err != nil {
		t.Fatal(err)
	}
	return resp, sent
}

// isStream reports whether a recorded answer is one.
func (in *interaction) isStream() bool {
	return strings.HasPrefix(in.Response.Headers["Content-Type"][0], "text/event-stream")
}

// outputItem is what matters of an item of a response, and of one of a request.
type outputItem struct {
	Type, ID, Role  string
	CallID          string `json:"call_id"`
	Name, Arguments string
	Encrypted       string `json:"encrypted_content"`
	Content         json.RawMessage
}

// text is that of a message.
func (o *outputItem) text() (text string) {
	if json.Unmarshal(o.Content, &text) == nil {
		return text
	}
	var parts []struct{ Text string }
	_ = json.Unmarshal(o.Content, &parts) // none
	for _, p := range parts {
		text += p.Text
	}
	return text
}

func replayResponse(t *testing.T, in *interaction, n map[string]int) {
	resp, sent := again(t, in, openai.APIResponses)
	var whole struct {
		Output []outputItem
		Usage  struct {
			Input  int `json:"input_tokens"`
			Output int `json:"output_tokens"`
		}
	}
	body := in.Response.Body
	if in.isStream() {
		for line := range strings.Lines(in.Response.Body) {
			var ev struct{ Response json.RawMessage }
			if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok && strings.Contains(data, `"response.completed"`) && json.Unmarshal([]byte(data), &ev) == nil {
				body = string(ev.Response)
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &whole); err != nil || len(whole.Output) == 0 {
		t.Fatalf("the recorded answer: %v", err)
	}
	var request struct{ Input []outputItem }
	if err := json.Unmarshal(sent, &request); err != nil {
		t.Fatal(err)
	}
	n["responses"]++
	back, said, calls := request.Input[1:], "", resp.Calls()
	for _, item := range whole.Output {
		var got outputItem
		if item.Type != "reasoning" || item.Encrypted != "" {
			got, back = back[0], back[1:]
		}
		switch item.Type {
		case "message":
			said += item.text()
			if got.Role != "assistant" || got.text() != item.text() {
				t.Errorf("a message: got %+v, want %+v", got, item)
			}
		case "function_call":
			n["calls of responses"]++
			if got.Type != item.Type || got.CallID != item.CallID || got.Name != item.Name || got.Arguments != item.Arguments {
				t.Errorf("a call: got %+v, want %+v", got, item)
			}
			if len(calls) == 0 || calls[0].ID != item.CallID || calls[0].Name != item.Name || string(calls[0].Input) != item.Arguments {
				t.Errorf("calls: got %+v, want %+v first", calls, item)
			} else {
				calls = calls[1:]
			}
		}
	}
	if len(calls) > 0 || resp.Text() != said || resp.Usage.Input != whole.Usage.Input || resp.Usage.Output != whole.Usage.Output {
		t.Errorf("got %q with usage %+v and %d calls too many, want %q with %+v", resp.Text(), resp.Usage, len(calls), said, whole.Usage)
	}
}

func replay(t *testing.T, in *interaction, n map[string]int) {
	var got wire
	if in.isStream() {
		for line := range strings.Lines(in.Response.Body) {
			var chunk struct{ Choices []struct{ Delta wire } }
			if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok && json.Unmarshal([]byte(data), &chunk) == nil && len(chunk.Choices) > 0 {
				got.add(chunk.Choices[0].Delta)
			}
		}
	} else {
		var doc struct{ Choices []struct{ Message wire } }
		if err := json.Unmarshal([]byte(in.Response.Body), &doc); err != nil || len(doc.Choices) == 0 {
			t.Fatalf("the recorded answer: %v", err)
		}
		got = doc.Choices[0].Message
	}
	resp, sent := again(t, in, openai.APIChat)
	var body struct{ Messages []wire }
	if err := json.Unmarshal(sent, &body); err != nil {
		t.Fatal(err)
	}
	back := body.Messages[1]
	count := func(kind string, is bool) bool {
		if is {
			n[kind]++
		}
		return is
	}
	if count("reasoning_content", got.ReasoningContent != ""); back.ReasoningContent != got.ReasoningContent {
		t.Errorf("reasoning_content: got %q, want %q", back.ReasoningContent, got.ReasoningContent)
	}
	if got.ReasoningContent == "" && len(got.Details) == 0 && back.Reasoning != got.Reasoning {
		t.Errorf("reasoning: got %q, want %q", back.Reasoning, got.Reasoning)
	}
	count("reasoning_details", len(got.Details) > 0)
	backText, backValues := parts(t, back.Details)
	wantText, wantValues := parts(t, got.Details)
	if backText != wantText || strings.Join(backValues, " ") != strings.Join(wantValues, " ") {
		t.Errorf("reasoning_details: got %s, want %s", back.Details, got.Details)
	}
	if string(back.Extra) != string(got.Extra) {
		t.Errorf("extra_content: got %s, want %s", back.Extra, got.Extra)
	}
	count("calls", len(back.ToolCalls) > 0)
	for i, c := range resp.Calls() {
		if back.ToolCalls[i].ID != c.ID || back.ToolCalls[i].Function.Name != c.Name || !strings.Contains(in.Response.Body, c.ID) {
			t.Errorf("call %d: got %+v, want that of the answer", i, back.ToolCalls[i])
		}
	}
}
