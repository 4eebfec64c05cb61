package mcpserver_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

type ReviewIn struct {
	Code string `json:"code" jsonschema:"what to review"`
	Tone string `json:"tone,omitempty" jsonschema:"kind or frank"`
}

// A server with a family of resources and a prompt.
func ExampleAddTemplate() {
	s, err := mcpserver.New(mcp.Implementation{Name: "notes", Version: "1"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	notes := map[string]string{"shopping": "bread, cheese", "garden": "water the beans"}
	const uriTemplate = "note://all/{name}"
	err = errors.Join(
		mcpserver.AddTemplate(s, &mcp.ResourceTemplate{URITemplate: uriTemplate, Name: "notes", MIMEType: "text/plain"},
			func(_ context.Context, _ *mcpserver.ResourceRequest, vars mcpserver.Vars) (string, error) {
				text, ok := notes[vars.Get("name")]
				if !ok {
					return "", mcpserver.ErrNotFound
				}
				return text, nil
			}),
		mcpserver.CompleteTemplate(s, uriTemplate, "name", func(_ context.Context, req *mcpserver.CompleteRequest) ([]string, error) {
			return mcpserver.Rank(req.Value(), "garden", "shopping"), nil
		}),
		mcpserver.AddPrompt(s, &mcp.Prompt{Name: "review", Description: "Reviews code."},
			func(_ context.Context, _ *mcpserver.PromptRequest, in ReviewIn) (string, error) {
				return "Please review this: " + in.Code, nil
			}),
	)
	if err != nil {
		log.Fatal(err)
	}

	client := printer{said: make(chan string, 1)}
	link, err := s.Connect(client)
	if err != nil {
		log.Fatal(err)
	}
	defer link.Close()
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	for _, request := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"note://all/garden",` + meta + `}}`,
		`{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"note://all/work",` + meta + `}}`,
	} {
		if err := link.Send(mcp.Outgoing{Frame: []byte(request)}); err != nil {
			log.Fatal(err)
		}
		fmt.Println(<-client.said)
	}
	// Output:
	// {"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":"note://all/garden","mimeType":"text/plain","text":"water the beans"}],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"notes","version":"1"}},"resultType":"complete","ttlMs":0,"cacheScope":"private"}}
	// {"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"resource not found","data":{"uri":"note://all/work"}}}
}
