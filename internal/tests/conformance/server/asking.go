package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// addAsking adds tools that ask the client while they run. The handlers go straight
// on whatever the revision: in sessions the question is a request of the server's, in
// 2026-07-28 the answer comes with the next try of the call.
func addAsking(s *mcpserver.Server) error {
	return errors.Join(
		mcpserver.AddTool(s, tool("test_sampling", "Asks the client's model."), sampleOnce),
		mcpserver.AddTool(s, tool("test_sample_loop", "Lets the client's model call functions of its own."), sampleLoop),
		mcpserver.AddTool(s, tool("test_missing_capability", "Needs a client that has a model to ask."), func(ctx context.Context, req *mcpserver.ToolRequest, _ nothing) (string, error) {
			return sample(ctx, req, "question", "Are you there?", 10)
		}),
		mcpserver.AddTool(s, tool("test_elicitation", "Asks the user what it was told to ask."), eliciting),
		mcpserver.AddTool(s, tool("test_streaming_elicitation", "Asks the user, after it has reported progress."), streaming),
		mcpserver.AddTool(s, tool("test_elicitation_sep1034_defaults", "Shows the user a form that is filled in already."), showing(defaults)),
		mcpserver.AddTool(s, tool("test_elicitation_sep1330_enums", "Shows the user a form with each kind of choice."), showing(choices)),
		mcpserver.AddTool(s, tool("test_url_elicitation", "Sends the user to a page."), visiting),
		mcpserver.AddFunc(s, tool("test_url_visited", "Stands for the page."), visited(s)),
	)
}

// sampleOnce asks the client's model.
func sampleOnce(ctx context.Context, req *mcpserver.ToolRequest, in struct {
	Prompt string `json:"prompt" jsonschema:"what to ask the model"`
}) (string, error) {
	text, err := sample(ctx, req, "prompt", in.Prompt, 100)
	return "LLM response: " + text, err
}

// sample returns what the client's model says.
func sample(ctx context.Context, req *mcpserver.ToolRequest, key, prompt string, tokens int64) (string, error) {
	res, err := req.Sample(ctx, key, askModel(prompt, tokens))
	if err != nil {
		return "", err
	}
	return res.Content.Text(), nil
}

func askModel(prompt string, tokens int64) *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{
		Messages:  []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Contents{mcp.Text(prompt)}}},
		MaxTokens: tokens,
	}
}

// eliciting shows the user a form with a schema of its own.
func eliciting(ctx context.Context, req *mcpserver.ToolRequest, in struct {
	Message string `json:"message" jsonschema:"what to say to the user"`
}) (string, error) {
	res, err := req.ElicitForm(ctx, "user", &mcp.ElicitParams{Message: in.Message, RequestedSchema: json.RawMessage(`{
		"type": "object",
		"properties": {
			"username": {"type": "string", "description": "User's response"},
			"email": {"type": "string", "description": "User's email address"}
		},
		"required": ["username", "email"]
	}`)})
	return outcome("User response", res, err)
}

// streaming has something to say before it asks, so that over HTTP a stream is open.
func streaming(ctx context.Context, req *mcpserver.ToolRequest, _ nothing) (string, error) {
	req.Progress(1, 2, "about to ask")
	in, err := mcpserver.Elicit[struct {
		Confirm bool `json:"confirm" jsonschema:"whether to go on"`
	}](ctx, req, "confirm", "Go on?")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Confirmed: %t", in.Confirm), nil
}

// The forms of two proposals to the protocol, as the suite has them.
var (
	defaults = json.RawMessage(`{
		"type": "object",
		"properties": {
			"name": {"type": "string", "description": "User name", "default": "John Doe"},
			"age": {"type": "integer", "description": "User age", "default": 30},
			"score": {"type": "number", "description": "User score", "default": 95.5},
			"status": {"type": "string", "description": "User status", "enum": ["active", "inactive", "pending"], "default": "active"},
			"verified": {"type": "boolean", "description": "Verification status", "default": true}
		}
	}`)
	choices = json.RawMessage(`{
		"type": "object",
		"properties": {
			"untitledSingle": {"type": "string", "description": "One of three", "enum": ["option1", "option2", "option3"]},
			"titledSingle": {"type": "string", "description": "One of three with titles", "oneOf": [
				{"const": "value1", "title": "First Option"}, {"const": "value2", "title": "Second Option"}, {"const": "value3", "title": "Third Option"}
			]},
			"legacyEnum": {"type": "string", "description": "One of three with titles, as before",
				"enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]},
			"untitledMulti": {"type": "array", "description": "Some of three", "minItems": 1, "maxItems": 3,
				"items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
			"titledMulti": {"type": "array", "description": "Some of three with titles", "minItems": 1, "maxItems": 3, "items": {"anyOf": [
				{"const": "value1", "title": "First Choice"}, {"const": "value2", "title": "Second Choice"}, {"const": "value3", "title": "Third Choice"}
			]}}
		}
	}`)
)

// showing returns a handler that shows a form.
func showing(schema json.RawMessage) func(context.Context, *mcpserver.ToolRequest, nothing) (string, error) {
	return func(ctx context.Context, req *mcpserver.ToolRequest, _ nothing) (string, error) {
		res, err := req.ElicitForm(ctx, "form", &mcp.ElicitParams{Message: "Please fill in this form.", RequestedSchema: schema})
		return outcome("Elicitation completed", res, err)
	}
}

// outcome is what came of a form, in words. A refusal of the user's is an answer too.
func outcome(what string, res *mcp.ElicitResult, err error) (string, error) {
	if err != nil {
		return "", err
	}
	content, err := mcp.Marshal(res.Content)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: action=%s, content=%s", what, res.Action, content), nil
}

// visiting sends the user to a page, and goes on when they have done there what is to
// be done; what that is, the client does not learn. The client calls the tool below in
// place of the page, which a real server would have, and which would know its visitors.
func visiting(ctx context.Context, req *mcpserver.ToolRequest, _ nothing) (string, error) {
	if err := req.ElicitURL(ctx, "page", "Please sign in.", "https://example.com/sign-in?id="+mcpserver.ElicitationID); err != nil {
		return "", err
	}
	return "Signed in", nil
}

// visited returns a handler that ends the elicitation of a page.
func visited(s *mcpserver.Server) func(context.Context, visit) (string, error) {
	return func(_ context.Context, in visit) (string, error) {
		return "Thank you", s.CompleteElicitation(in.ID, "")
	}
}

type visit struct {
	ID string `json:"id" jsonschema:"which visit of the page"`
}
