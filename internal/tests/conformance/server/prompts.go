package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// addPrompts adds prompts, and completion for an argument of one. A prompt's arguments
// are the fields of what its handler takes.
func addPrompts(s *mcpserver.Server) error {
	return errors.Join(
		mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: "test_simple_prompt", Description: "A text."}, func(context.Context, nothing) (string, error) {
			return "This is a simple prompt for testing.", nil
		}),
		mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: "test_prompt_with_arguments", Description: "A text with two arguments in it."}, func(_ context.Context, in struct {
			First  string `json:"arg1" jsonschema:"the first"`
			Second string `json:"arg2" jsonschema:"the second"`
		}) (string, error) {
			return fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", in.First, in.Second), nil
		}),
		mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: "test_prompt_with_embedded_resource", Description: "A resource and a text."}, func(_ context.Context, in struct {
			URI string `json:"resourceUri" jsonschema:"the URI of the resource"`
		}) ([]mcp.PromptMessage, error) {
			return fromUser(
				resource(in.URI, "text/plain", "Embedded resource content for testing."),
				mcp.Text("Please process the embedded resource above."),
			), nil
		}),
		mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: "test_prompt_with_image", Description: "An image and a text."}, func(context.Context, nothing) ([]mcp.PromptMessage, error) {
			return fromUser(image(), mcp.Text("Please analyze the image above.")), nil
		}),
		mcpserver.AddPrompt(s, &mcp.Prompt{Name: prefix + "prompt", Description: "A prompt that asks first."}, asked),
		mcpserver.CompletePrompt(s, "test_prompt_with_arguments", "arg1", func(_ context.Context, req *mcpserver.CompleteRequest) ([]string, error) {
			return mcpserver.Rank(req.Value(), "paris", "park", "party"), nil
		}),
	)
}

// fromUser returns a message of the user for each content.
func fromUser(contents ...mcp.Content) []mcp.PromptMessage {
	var messages []mcp.PromptMessage
	for _, c := range contents {
		messages = append(messages, mcp.PromptMessage{Role: mcp.RoleUser, Content: c})
	}
	return messages
}

// asked is a prompt that needs to know more than its arguments.
func asked(ctx context.Context, req *mcpserver.PromptRequest, _ nothing) (string, error) {
	in, err := mcpserver.Elicit[struct {
		Context string `json:"context" jsonschema:"what the prompt is for"`
	}](ctx, req, "user_context", "What context should the prompt use?")
	return "Use this context: " + in.Context, err
}
