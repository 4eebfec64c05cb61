package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	mcpschema "github.com/troupe-dev/troupe/internal/mcptest/schema"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

const modelSays = `{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"m"}`

func userText(text string) mcp.SamplingMessage {
	return mcp.SamplingMessage{Role: mcp.RoleUser, Content: mcp.Contents{mcp.Text(text)}}
}

// SAMP-02, SAMP-24: the model is asked just what the handler says, in whatever
// revision, and nothing of an earlier question goes along.
func TestSamplingParams(t *testing.T) {
	half := 0.5
	questions := []*mcp.CreateMessageParams{
		{
			Messages: []mcp.SamplingMessage{
				userText("Capital of France?"),
				{Role: mcp.RoleAssistant, Content: mcp.Contents{&mcp.ImageContent{Data: []byte{1, 2}, MIMEType: "image/png"}}},
				userText("And in words?"),
			},
			MaxTokens: 100, SystemPrompt: "Be brief.", Temperature: &half, StopSequences: []string{"END"},
			Metadata: json.RawMessage(`{"k":[1]}`), IncludeContext: mcp.ContextNone,
			ModelPreferences: &mcp.ModelPreferences{Hints: []mcp.ModelHint{{Name: "large"}, {Name: "small"}}, CostPriority: &half},
		},
		{Messages: []mcp.SamplingMessage{userText("Again?")}, MaxTokens: 1},
	}
	wants := []string{
		`{"messages":[{"role":"user","content":{"type":"text","text":"Capital of France?"}},
			{"role":"assistant","content":{"type":"image","data":"AQI=","mimeType":"image/png"}},
			{"role":"user","content":{"type":"text","text":"And in words?"}}],
			"maxTokens":100,"systemPrompt":"Be brief.","temperature":0.5,"stopSequences":["END"],"metadata":{"k":[1]},
			"includeContext":"none","modelPreferences":{"hints":[{"name":"large"},{"name":"small"}],"costPriority":0.5}}`,
		`{"messages":[{"role":"user","content":{"type":"text","text":"Again?"}}],"maxTokens":1}`,
	}
	bothWays(t, mcp.V2024_11_05, func(t *testing.T, s *mcpserver.Server, a *asked, _ *counts) {
		err := mcpserver.AddTool(s, &mcp.Tool{Name: "twice"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			for i, p := range questions {
				if _, err := req.Sample(ctx, fmt.Sprint(i), p); err != nil {
					return "", err
				}
			}
			return "ok", nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		text := a.call("twice", `{}`, func(_ string, params json.RawMessage) string {
			got = append(got, string(params))
			return modelSays
		})
		if text != "ok" || len(got) != len(wants) {
			t.Fatalf("got %q after %d questions", text, len(got))
		}
		for i, want := range wants {
			if !mcpschema.Equal([]byte(got[i]), []byte(want)) {
				t.Errorf("question %d: got %s\nwant %s", i, got[i], want)
			}
		}
	})
}

// SAMP-02: a question that is none is not put.
func TestSamplingRefused(t *testing.T) {
	for name, p := range map[string]*mcp.CreateMessageParams{
		"no messages":      {MaxTokens: 1},
		"no tokens":        {Messages: []mcp.SamplingMessage{userText("q")}},
		"negative tokens":  {Messages: []mcp.SamplingMessage{userText("q")}, MaxTokens: -1},
		"no role":          {Messages: []mcp.SamplingMessage{{Content: mcp.Contents{mcp.Text("q")}}}, MaxTokens: 1},
		"role of a system": {Messages: []mcp.SamplingMessage{{Role: "system", Content: mcp.Contents{mcp.Text("q")}}}, MaxTokens: 1},
		"no content":       {Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser}}, MaxTokens: 1},
		"unknown context":  {Messages: []mcp.SamplingMessage{userText("q")}, MaxTokens: 1, IncludeContext: "everything"},
	} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, mcp.V2024_11_05, func(t *testing.T, s *mcpserver.Server, a *asked, _ *counts) {
				addSampler(t, s, p)
				got := a.call("sampler", `{}`, func(string, json.RawMessage) string {
					t.Error("the model was asked")
					return modelSays
				})
				if !strings.HasPrefix(got, "isError ") {
					t.Errorf("got %q, want an error", got)
				}
			})
		})
	}
}

// SAMP-07: context is only wished for where the client has said that it gives it;
// revisions in which it can not say so are asked.
func TestSamplingContext(t *testing.T) {
	for _, wish := range []string{mcp.ContextThisServer, mcp.ContextAllServers} {
		for _, caps := range []string{`{"sampling":{}}`, `{"sampling":{"tools":{}}}`, `{"sampling":{"context":{}}}`} {
			for _, v := range mcp.Versions() {
				synctestOnce(t, func(t *testing.T) {
					s, _ := newAsking(t, nil)
					addSampler(t, s, &mcp.CreateMessageParams{Messages: []mcp.SamplingMessage{userText("q")}, MaxTokens: 1, IncludeContext: wish})
					a := openAsked(t, s, v, caps)
					wished := false
					got := a.call("sampler", `{}`, func(_ string, params json.RawMessage) string {
						wished = strings.Contains(string(params), `"includeContext":"`+wish+`"`)
						return modelSays
					})
					may := v < mcp.V2025_11_25 || strings.Contains(caps, "context")
					if wished != may || may != (got == "ok") || !may && !strings.Contains(got, "the client does not support sampling with context") {
						t.Errorf("%s with %s: wished %v, got %q", v, caps, wished, got)
					}
				})
			}
		}
	}
}

// errTurns ends a loop of tool calls.
var errTurns = errors.New("the model never stops calling tools")

// SAMP-25, SAMP-31: a loop of tool calls keeps the _meta of calls and results, and has
// an end: the last turn allows no call, and one that comes all the same is refused.
func TestSamplingLoop(t *testing.T) {
	const turns = 3
	loop := func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
		p := &mcp.CreateMessageParams{
			MaxTokens: 10, Messages: []mcp.SamplingMessage{userText("q")},
			Tools: []mcp.Tool{{Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)}},
		}
		for turn := range turns {
			if turn == turns-1 {
				p.ToolChoice = &mcp.ToolChoice{Mode: mcp.ToolChoiceNone}
			}
			r, err := req.Sample(ctx, fmt.Sprint("turn ", turn), p)
			if err != nil {
				return "", err
			}
			used, ok := r.Content[0].(*mcp.ToolUseContent)
			if !ok {
				return r.Content.Text(), nil
			}
			result := &mcp.ToolResultContent{ToolUseID: used.ID, Content: mcp.Contents{mcp.Text("r")}, Meta: mcp.Meta{"com.example/result": json.RawMessage(`1`)}}
			p.Messages = append(p.Messages,
				mcp.SamplingMessage{Role: r.Role, Content: r.Content},
				mcp.SamplingMessage{Role: mcp.RoleUser, Content: mcp.Contents{result}})
		}
		return "", errTurns
	}
	for _, stubborn := range []bool{false, true} {
		t.Run(fmt.Sprint("a stubborn model ", stubborn), func(t *testing.T) {
			bothWays(t, mcp.V2025_11_25, func(t *testing.T, s *mcpserver.Server, a *asked, _ *counts) {
				if err := mcpserver.AddTool(s, &mcp.Tool{Name: "loop"}, loop); err != nil {
					t.Fatal(err)
				}
				asked := 0
				got := a.call("loop", `{}`, func(_ string, params json.RawMessage) string {
					asked++
					text := string(params)
					if asked > 1 && (!strings.Contains(text, `"_meta":{"com.example/cache":"hint"}`) || !strings.Contains(text, `"_meta":{"com.example/result":1}`)) {
						t.Errorf("question %d: got %s, want the _meta of the call and the result", asked, text)
					}
					if last := strings.Contains(text, `"toolChoice":{"mode":"none"}`); last != (asked == turns) {
						t.Errorf("question %d: that no call is allowed: got %v", asked, last)
					}
					if asked == turns && !stubborn {
						return modelSays
					}
					return fmt.Sprintf(`{"role":"assistant","content":[{"type":"tool_use","id":"c%d","name":"t","input":{},"_meta":{"com.example/cache":"hint"}}],"model":"m","stopReason":"toolUse"}`, asked)
				})
				if asked != turns || stubborn != strings.Contains(got, "not allowed") || !stubborn && got != "Paris" {
					t.Errorf("got %q after %d questions", got, asked)
				}
			})
		})
	}
}
