package render_test

import (
	"testing"

	"github.com/troupe-dev/troupe/llm/internal/render"
	"github.com/troupe-dev/troupe/mcp"
)

func TestText(t *testing.T) {
	tests := []struct {
		name string
		in   mcp.Content
		want string
		ok   bool
	}{
		{"text", mcp.Text("a"), "a", true},
		{"a link", &mcp.ResourceLink{URI: "file:///a", Name: "a"}, `{"type":"resource_link","uri":"file:///a","name":"a"}`, true},
		{"an embedded text", &mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "file:///a", Text: "inside"}}, "inside", true},
		{"something new", &mcp.UnknownContent{Type: "smell", Raw: []byte(`{"type":"smell","of":"rain"}`)}, `{"type":"smell","of":"rain"}`, true},
		{"an image", &mcp.ImageContent{}, "", false},
		{"a call", &mcp.ToolUseContent{}, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := render.Text(tt.in); got != tt.want || ok != tt.ok {
				t.Errorf("Text: got %q, %v, want %q, %v", got, ok, tt.want, tt.ok)
			}
		})
	}
}

func TestToolResult(t *testing.T) {
	img := &mcp.ImageContent{MIMEType: "image/png"}
	tests := []struct {
		name string
		in   mcp.ToolResultContent
		want string
	}{
		{"texts", mcp.ToolResultContent{Content: mcp.Contents{mcp.Text("a"), mcp.Text(""), mcp.Text("b")}}, "a\nb"},
		{"nothing", mcp.ToolResultContent{}, render.NoOutput},
		{"an error without words", mcp.ToolResultContent{IsError: true}, "Error: " + render.NoOutput},
		{"structured", mcp.ToolResultContent{StructuredContent: []byte(`{"n":1}`)}, `{"n":1}`},
		{"text and structured", mcp.ToolResultContent{Content: mcp.Contents{mcp.Text("one")}, StructuredContent: []byte(`{"n":1}`)}, "one"},
		{"audio", mcp.ToolResultContent{Content: mcp.Contents{&mcp.AudioContent{MIMEType: "audio/wav"}}}, "(audio that cannot be shown: audio/wav)"},
		{"an image", mcp.ToolResultContent{Content: mcp.Contents{mcp.Text("look"), img}}, "look\n(an image: image/png)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, images := render.ToolResult(&tt.in)
			if got != tt.want {
				t.Errorf("ToolResult: got %q, want %q", got, tt.want)
			}
			if wantImage := tt.name == "an image"; wantImage != (len(images) == 1) {
				t.Errorf("ToolResult: got %d images", len(images))
			}
		})
	}
}
