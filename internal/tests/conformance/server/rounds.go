package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// prefix is what the suite's names of tools that ask in rounds have in common.
const prefix = "test_input_required_result_"

// addRounds adds tools that the suite uses to look at the rounds of 2026-07-28. The
// handlers know nothing of rounds, but for the one that wants to.
func addRounds(s *mcpserver.Server) error {
	return errors.Join(
		mcpserver.AddTool(s, tool(prefix+"elicitation", "Asks the user for a name."), func(ctx context.Context, req *mcpserver.ToolRequest, _ nothing) (string, error) {
			name, err := askName(ctx, req)
			return fmt.Sprintf("Hello, %s!", name), err
		}),
		mcpserver.AddTool(s, tool(prefix+"sampling", "Asks the client's model."), func(ctx context.Context, req *mcpserver.ToolRequest, _ nothing) (string, error) {
			return sample(ctx, req, "capital_question", "What is the capital of France?", 100)
		}),
		mcpserver.AddTool(s, tool(prefix+"list_roots", "Asks for the client's roots."), func(ctx context.Context, req *mcpserver.ToolRequest, _ nothing) (string, error) {
			roots, err := req.Roots(ctx, "client_roots")
			return "Roots: " + uris(roots), err
		}),
		mcpserver.AddTool(s, tool(prefix+"multiple_inputs", "Asks three things at once."), several),
		mcpserver.AddTool(s, tool(prefix+"multi_round", "Asks one thing, then another."), stepwise),
		mcpserver.AddTool(s, tool(prefix+"tampered_state", "Asks the user, and must not be fooled."), func(ctx context.Context, req *mcpserver.ToolRequest, _ nothing) (string, error) {
			ok, err := confirm(ctx, req, "Please confirm")
			return fmt.Sprintf("Confirmed: %t", ok), err
		}),
		mcpserver.AddTool(s, tool(prefix+"request_state", "Asks the user, and keeps its own state meanwhile."), stateful),
		mcpserver.AddTool(s, tool(prefix+"capabilities", "Asks whatever the client can answer."), whatever),
	)
}

// askName asks the user for a name: the fields of the type are those of the form.
func askName(ctx context.Context, req *mcpserver.ToolRequest) (string, error) {
	in, err := mcpserver.Elicit[struct {
		Name string `json:"name" jsonschema:"your name"`
	}](ctx, req, "user_name", "What is your name?")
	return in.Name, err
}

// confirm asks the user for a yes.
func confirm(ctx context.Context, req *mcpserver.ToolRequest, message string) (bool, error) {
	in, err := mcpserver.Elicit[struct {
		OK bool `json:"ok" jsonschema:"whether that is so"`
	}](ctx, req, "confirm", message)
	return in.OK, err
}

func uris(roots []mcp.Root) string {
	var all []string
	for _, r := range roots {
		all = append(all, r.URI)
	}
	return strings.Join(all, ", ")
}

// several asks three things in one round.
func several(ctx context.Context, req *mcpserver.ToolRequest, _ nothing) (string, error) {
	name := mcpserver.FormQuestion("user_name", form("What is your name?", "name"))
	greeting := mcpserver.SampleQuestion("greeting", askModel("Generate a greeting", 50))
	roots := mcpserver.RootsQuestion("client_roots")
	if err := req.Ask(ctx, name, greeting, roots); err != nil {
		return "", err
	}
	if err := errors.Join(name.Err, greeting.Err, roots.Err); err != nil { // each may be refused
		return "", err
	}
	return fmt.Sprintf("%s %s of %s", greeting.Sampled.Content.Text(), name.Elicited.Content["name"], uris(roots.Roots)), nil
}

// form is a form with one field for a text.
func form(message, field string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Message: message, RequestedSchema: fmt.Appendf(nil, `{"type":"object","properties":{%[1]q:{"type":"string"}},"required":[%[1]q]}`, field)}
}

// stepwise asks the second thing when it knows the first.
func stepwise(ctx context.Context, req *mcpserver.ToolRequest, _ nothing) (string, error) {
	first, err := mcpserver.Elicit[struct {
		Name string `json:"name" jsonschema:"your name"`
	}](ctx, req, "step1", "Step 1: What is your name?")
	if err != nil {
		return "", err
	}
	second, err := mcpserver.Elicit[struct {
		Color string `json:"color" jsonschema:"the color you like best"`
	}](ctx, req, "step2", "Step 2: What is your favorite color?")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s likes %s.", first.Name, second.Color), nil
}

// whatever asks what the client can answer, and nothing else.
func whatever(ctx context.Context, req *mcpserver.ToolRequest, _ nothing) (string, error) {
	can := req.Client().Capabilities
	switch {
	case can.Sampling != nil:
		return sample(ctx, req, "greeting", "Generate a greeting", 50)
	case can.ElicitForm():
		name, err := askName(ctx, req)
		return fmt.Sprintf("Hello, %s!", name), err
	case can.Roots != nil:
		roots, err := req.Roots(ctx, "client_roots")
		return "Roots: " + uris(roots), err
	}
	return "The client can answer nothing.", nil
}
