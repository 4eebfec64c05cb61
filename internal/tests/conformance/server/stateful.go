package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// remembered is what the handler below keeps while the user thinks. The client carries
// it, sealed: it can neither read nor change it.
const remembered = "asked once"

// stateful does by hand what the other handlers leave to the library: it says what it
// needs and ends, and is called again with the answer and its state.
func stateful(_ context.Context, req *mcpserver.ToolRequest, _ nothing) (string, error) {
	raw, answered := req.Responses()["confirm"]
	if !answered {
		question, err := mcp.NewInputRequest(mcp.MethodElicit, &mcp.ElicitParams{
			Message: "Please confirm", RequestedSchema: []byte(`{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`),
		})
		if err != nil {
			return "", err
		}
		return "", &mcpserver.InputRequired{Requests: mcp.InputRequests{"confirm": question}, State: remembered}
	}
	if req.State() != remembered {
		return "", errors.New("the state is not what it was")
	}
	var answer mcp.ElicitResult
	if err := mcp.Unmarshal(raw, &answer); err != nil {
		return "", err
	}
	if answer.Action != mcp.ActionAccept {
		return "", fmt.Errorf("the user did not confirm: %s", answer.Action)
	}
	return "state-ok", nil
}
