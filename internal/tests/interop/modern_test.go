package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/troupe-dev/troupe/internal/tests/e2e"
	"github.com/troupe-dev/troupe/mcpclient"
)

// TestOurClientAndModernSDKServer: what is new in 2026-07-28, see [e2e.Modern].
func TestOurClientAndModernSDKServer(t *testing.T) {
	t.Run("stdio", func(t *testing.T) {
		server := mcpclient.Command(executable(t))
		server.Name = "go-sdk"
		as := "modern"
		server.Env = map[string]*string{role: &as}
		e2e.Modern(t, server)
	})
	t.Run("http", func(t *testing.T) {
		s := modernServer()
		handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true})
		listener := httptest.NewServer(handler)
		defer listener.Close()
		e2e.Modern(t, mcpclient.Server{Name: "go-sdk", URL: listener.URL + "/mcp"})
	})
}

// serveModern runs the server of [modernServer] on stdin and stdout.
func serveModern() error { return modernServer().Run(context.Background(), &sdk.StdioTransport{}) }

const watchedURI = "fixture://watched"

// modernServer has what modern.mjs of package peers has.
func modernServer() *sdk.Server {
	nothing := func(context.Context, *sdk.SubscribeRequest) error { return nil }
	s := sdk.NewServer(&sdk.Implementation{Name: "go-sdk", Version: "1.8.0"}, &sdk.ServerOptions{
		Instructions:       "A server of the tests.",
		PageSize:           3, // PAGE-02: no list fits into one page
		SubscribeHandler:   nothing,
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
	})
	name := form("What is your name?", "name")
	addTool(s, "ask_form", asks(sdk.InputRequestMap{"name": name}, ""))
	addTool(s, "ask_url", asks(sdk.InputRequestMap{"page": &sdk.ElicitParams{Mode: "url", Message: "Please sign in.", URL: "https://example.com/sign-in"}}, ""))
	addTool(s, "ask_model", asks(sdk.InputRequestMap{"question": sample("What is the capital of France?")}, ""))
	addTool(s, "ask_roots", asks(sdk.InputRequestMap{"roots": &sdk.ListRootsParams{}}, ""))
	addTool(s, "ask_all", asks(sdk.InputRequestMap{"name": name, "question": sample("Greet me."), "roots": &sdk.ListRootsParams{}}, "sealed"))
	addTool(s, "ask_rounds", stateful)
	addTool(s, "echo", func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var in struct{ Text string }
		if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
			return nil, err
		}
		return says("Echo: " + in.Text), nil
	})
	addTool(s, "count", count)
	addTool(s, "touch", func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return says("touched"), s.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: watchedURI})
	})
	addTool(s, "grow", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		addTool(s, "grown", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return says("I am new."), nil
		})
		return says("grown"), nil
	})
	s.AddPrompt(&sdk.Prompt{Name: "ask_prompt", Description: "a prompt that asks first"}, func(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		answer, ok := said(req.Params.InputResponses["topic"])
		if !ok {
			return &sdk.GetPromptResult{InputRequests: sdk.InputRequestMap{"topic": form("About what?", "topic")}}, nil
		}
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: "About " + answer}}}}, nil
	})
	read := func(uri string, run func(*sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error)) {
		s.AddResource(&sdk.Resource{Name: uri, URI: uri, Description: uri, MIMEType: "text/plain"}, func(_ context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return run(req)
		})
	}
	contents := func(uri, text string) *sdk.ReadResourceResult {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: uri, MIMEType: "text/plain", Text: text}}}
	}
	read(watchedURI, func(*sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return contents(watchedURI, "watched"), nil
	})
	read("fixture://asking", func(req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		answer, ok := said(req.Params.InputResponses["why"])
		if !ok {
			return &sdk.ReadResourceResult{InputRequests: sdk.InputRequestMap{"why": form("Why?", "why")}}, nil
		}
		return contents("fixture://asking", "Because "+answer), nil
	})
	return s
}

func addTool(s *sdk.Server, name string, run sdk.ToolHandler) {
	s.AddTool(&sdk.Tool{Name: name, Description: name, InputSchema: map[string]any{"type": "object"}}, run)
}

func says(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

func form(message, field string) *sdk.ElicitParams {
	return &sdk.ElicitParams{Mode: "form", Message: message, RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{field: map[string]any{"type": "string"}}, "required": []string{field},
	}}
}

func sample(question string) *sdk.CreateMessageParams {
	return &sdk.CreateMessageParams{MaxTokens: 50, Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: question}}}}
}

// said is what one answer says, in a line.
func said(response sdk.InputResponse) (string, bool) {
	switch r := response.(type) {
	case *sdk.ElicitResult:
		content := []byte("{}")
		if r.Content != nil {
			content, _ = json.Marshal(r.Content)
		}
		return r.Action + " " + string(content), true
	case *sdk.CreateMessageWithToolsResult:
		var texts []string
		for _, c := range r.Content {
			if text, ok := c.(*sdk.TextContent); ok {
				texts = append(texts, text.Text)
			}
		}
		return strings.Join(texts, ""), true
	case *sdk.ListRootsResult:
		var uris []string
		for _, root := range r.Roots {
			uris = append(uris, root.URI)
		}
		return strings.Join(uris, " "), true
	}
	return "", false
}

// asks is a tool that asks for the same inputs until all are answered.
func asks(requests sdk.InputRequestMap, state string) sdk.ToolHandler {
	return func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var answers []string
		for _, key := range []string{"name", "page", "question", "roots"} {
			if _, asked := requests[key]; !asked {
				continue
			}
			answer, ok := said(req.Params.InputResponses[key])
			if !ok {
				return &sdk.CallToolResult{InputRequests: requests, RequestState: state}, nil
			}
			answers = append(answers, answer)
		}
		text := strings.Join(answers, "; ")
		if state != "" {
			text += "; state " + req.Params.RequestState
		}
		return says(text), nil
	}
}

// stateful has a state of its own in each round, which says what was answered before.
func stateful(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	var done []string
	if req.Params.RequestState != "" {
		if err := json.Unmarshal([]byte(req.Params.RequestState), &done); err != nil {
			return nil, err
		}
	}
	answer := "begun"
	if len(done) > 0 {
		var ok bool
		if answer, ok = said(req.Params.InputResponses[fmt.Sprintf("step%d", len(done))]); !ok {
			return nil, errors.New("the answer is missing")
		}
	}
	done = append(done, answer)
	if len(done) > 3 {
		return says(strings.Join(done, "; ")), nil
	}
	state, err := json.Marshal(done)
	if err != nil {
		return nil, err
	}
	step := fmt.Sprintf("step%d", len(done))
	return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{step: form("Step?", "word")}, RequestState: string(state)}, nil
}

// count reports progress and logs.
func count(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	var in struct{ To int }
	if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
		return nil, err
	}
	for i := 1; i <= in.To; i++ {
		if token := req.Params.GetProgressToken(); token != nil {
			err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: float64(i), Total: float64(in.To)})
			if err != nil {
				return nil, err
			}
		}
		if err := req.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: fmt.Sprintf("at %d", i)}); err != nil {
			return nil, err
		}
	}
	return says(fmt.Sprintf("counted to %d", in.To)), nil
}
