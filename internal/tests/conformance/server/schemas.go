package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// contact is an input schema with much of what JSON Schema 2020-12 has. Clients see it
// as it is in the file.
//
//go:embed testdata/contact.json
var contact json.RawMessage

// region is an input schema one of whose properties travels as a header too, so that
// a router of the request does not read its body (SEP-2243).
var region = json.RawMessage(`{
	"type": "object",
	"properties": {
		"region": {"type": "string", "description": "where to look", "x-mcp-header": "Region"},
		"level": {"type": "integer", "description": "how closely"}
	},
	"required": ["region"]
}`)

// addSchemas adds tools that bring their own schemas.
func addSchemas(s *mcpserver.Server) error {
	schemas := &mcp.Tool{Name: "json_schema_2020_12_tool", Description: "Takes a person's address, by phone or by mail.", InputSchema: contact}
	headers := &mcp.Tool{Name: "test_x_mcp_header", Description: "Takes an argument that is a header as well.", InputSchema: region}
	return errors.Join(
		mcpserver.AddFunc(s, schemas, func(_ context.Context, in map[string]json.RawMessage) (string, error) {
			return fmt.Sprintf("Got %d properties.", len(in)), nil
		}),
		mcpserver.AddFunc(s, headers, func(_ context.Context, in struct {
			Region string `json:"region"`
			Level  int    `json:"level,omitzero"`
		}) (string, error) {
			return fmt.Sprintf("Region %q at level %d.", in.Region, in.Level), nil
		}),
	)
}
