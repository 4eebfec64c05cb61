package main

import (
	"context"
	"errors"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// watched is a resource that clients may subscribe to.
const watched = "test://watched-resource"

// addResources adds resources, and a template of more. A text that is returned is the
// text of the resource, bytes are its blob.
func addResources(s *mcpserver.Server) error {
	return errors.Join(
		mcpserver.AddResourceFunc(s, &mcp.Resource{
			URI: "test://static-text", Name: "static-text", Description: "A text that is always the same.", MIMEType: "text/plain",
		}, func(context.Context) (string, error) {
			return "This is the content of the static text resource.", nil
		}),
		mcpserver.AddResourceFunc(s, &mcp.Resource{
			URI: "test://static-binary", Name: "static-binary", Description: "An image that is always the same.", MIMEType: "image/png",
		}, func(context.Context) ([]byte, error) {
			return pixel, nil
		}),
		mcpserver.AddResourceFunc(s, &mcp.Resource{
			URI: watched, Name: "watched-resource", Description: "A text that clients may subscribe to.", MIMEType: "text/plain",
		}, func(context.Context) (string, error) {
			return "Watched resource content", nil
		}),
		mcpserver.AddTemplateFunc(s, &mcp.ResourceTemplate{
			URITemplate: "test://template/{id}/data", Name: "data-by-id", Description: "The data of an id.", MIMEType: "application/json",
		}, func(_ context.Context, vars mcpserver.Vars) (string, error) {
			data, err := mcp.Marshal(struct {
				ID           string `json:"id"`
				TemplateTest bool   `json:"templateTest"`
				Data         string `json:"data"`
			}{vars.Get("id"), true, "Data for ID: " + vars.Get("id")})
			return string(data), err
		}),
	)
}
