package main

import (
	"context"
	_ "embed"
	"errors"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// The smallest files that are what they say.
var (
	//go:embed testdata/pixel.png
	pixel []byte
	//go:embed testdata/silence.wav
	silence []byte
)

// addContents adds tools that return at once: what a handler returns becomes the
// content of the result.
func addContents(s *mcpserver.Server) error {
	return errors.Join(
		mcpserver.AddFunc(s, tool("test_simple_text", "Returns a text."), func(context.Context, nothing) (string, error) {
			return "This is a simple text response for testing.", nil
		}),
		mcpserver.AddFunc(s, tool("test_image_content", "Returns an image."), func(context.Context, nothing) (mcp.Content, error) {
			return image(), nil
		}),
		mcpserver.AddFunc(s, tool("test_audio_content", "Returns a sound."), func(context.Context, nothing) (mcp.Content, error) {
			return &mcp.AudioContent{Data: silence, MIMEType: "audio/wav"}, nil
		}),
		mcpserver.AddFunc(s, tool("test_embedded_resource", "Returns a resource."), func(context.Context, nothing) (mcp.Content, error) {
			return resource("test://embedded-resource", "text/plain", "This is an embedded resource content."), nil
		}),
		mcpserver.AddFunc(s, tool("test_multiple_content_types", "Returns a text, an image and a resource."), func(context.Context, nothing) (mcp.Contents, error) {
			return mcp.Contents{
				mcp.Text("Multiple content types test:"),
				image(),
				resource("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`),
			}, nil
		}),
		mcpserver.AddFunc(s, tool("test_error_handling", "Fails, in a way that the model can read."), func(context.Context, nothing) (*mcp.CallToolResult, error) {
			return mcp.ErrorResult("This tool intentionally returns an error for testing"), nil
		}),
	)
}

func image() mcp.Content { return &mcp.ImageContent{Data: pixel, MIMEType: "image/png"} }

func resource(uri, mimeType, text string) mcp.Content {
	return &mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: uri, MIMEType: mimeType, Text: text}}
}
