package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// play does what a scenario asks for; detail is its context, which may be empty.
type play func(ctx context.Context, c *mcpclient.Client, detail json.RawMessage) error

var scenarios = map[string]play{
	"initialize":                          list,
	"request-metadata":                    list,
	"json-schema-ref-no-deref":            list,
	"tools_call":                          calling(call{"add_numbers", `{"a":5,"b":3}`}),
	"elicitation-sep1034-client-defaults": calling(call{"test_client_elicitation_defaults", `{}`}),
	"sse-retry":                           calling(call{"test_reconnection", `{}`}),
	"sep-2322-client-request-state":       calling(call{"test_mrtr_echo_state", `{}`}, call{"test_mrtr_no_state", `{}`}, call{"test_mrtr_unrelated", `{}`}, call{"test_mrtr_no_result_type", `{}`}),
	"http-standard-headers":               firstOfEach,
	"http-custom-headers":                 callsOfContext,
	"http-invalid-tool-headers":           callAll,
	"json-schema-2020-12-preservation":    echoSchema,
	"sep-2640-client-no-prefetch":         listSkills,
	"sep-2640-client-verify-digest":       loadSkills,
	"sep-2640-client-verify-size":         loadSkills,
	"sep-2640-client-verify-frontmatter":  loadSkills,
}

// call is a tool to call and its arguments.
type call struct {
	Name      string
	Arguments string
}

// answering is the person of a scenario: they accept what they are asked.
func answering(scenario string) mcpclient.Human {
	content := map[string]json.RawMessage{} // the library fills in the defaults
	if scenario == "sep-2322-client-request-state" {
		content["confirmed"] = json.RawMessage("true")
	}
	return mcpclient.HumanFunc(func(_ context.Context, ask *mcpclient.Ask) (*mcpclient.Decision, error) {
		if ask.Kind != mcpclient.AskForm {
			return &mcpclient.Decision{Action: mcp.ActionDecline}, nil
		}
		return &mcpclient.Decision{Action: mcp.ActionAccept, Content: content}, nil
	})
}

// list asks for the tools.
func list(ctx context.Context, c *mcpclient.Client, _ json.RawMessage) error {
	_, err := c.ListTools(ctx)
	return err
}

// calling lists the tools and makes the calls one after the other.
func calling(calls ...call) play {
	return func(ctx context.Context, c *mcpclient.Client, _ json.RawMessage) error {
		if _, err := c.ListTools(ctx); err != nil {
			return err
		}
		for _, call := range calls {
			if err := callTool(ctx, c, call.Name, json.RawMessage(call.Arguments)); err != nil {
				return err
			}
		}
		return nil
	}
}

// callTool takes a tool that failed for an error.
func callTool(ctx context.Context, c *mcpclient.Client, name string, args json.RawMessage) error {
	res, err := c.CallTool(ctx, name, args, nil)
	if err != nil {
		return err
	}
	if res.IsError {
		return fmt.Errorf("%s failed: %s", name, res.Content.Text())
	}
	return nil
}

// firstOfEach calls the first tool, reads the first resource and gets the first prompt.
func firstOfEach(ctx context.Context, c *mcpclient.Client, _ json.RawMessage) error {
	tools, err := c.ListTools(ctx)
	if err != nil {
		return err
	}
	if len(tools) == 0 {
		return errors.New("there are no tools")
	}
	if err := callTool(ctx, c, tools[0].Name, json.RawMessage(`{}`)); err != nil {
		return err
	}
	resources, err := c.ListResources(ctx)
	if err != nil {
		return err
	}
	if len(resources) == 0 {
		return errors.New("there are no resources")
	}
	if _, err := c.ReadResource(ctx, resources[0].URI, nil); err != nil {
		return err
	}
	prompts, err := c.ListPrompts(ctx)
	if err != nil {
		return err
	}
	if len(prompts) == 0 {
		return errors.New("there are no prompts")
	}
	_, err = c.GetPrompt(ctx, prompts[0].Name, nil, nil)
	return err
}

// callsOfContext makes the calls that the context lists.
func callsOfContext(ctx context.Context, c *mcpclient.Client, detail json.RawMessage) error {
	var context struct {
		ToolCalls []struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"toolCalls"`
	}
	if err := mcp.Unmarshal(detail, &context); err != nil {
		return fmt.Errorf("reading the context: %w", err)
	}
	if len(context.ToolCalls) == 0 {
		return errors.New("the context has no calls")
	}
	if err := list(ctx, c, nil); err != nil {
		return err
	}
	for _, call := range context.ToolCalls {
		if err := callTool(ctx, c, call.Name, call.Arguments); err != nil {
			return err
		}
	}
	return nil
}

// callAll calls every tool that the library offers.
func callAll(ctx context.Context, c *mcpclient.Client, _ json.RawMessage) error {
	tools, err := c.ListTools(ctx)
	if err != nil {
		return err
	}
	for _, tool := range tools {
		if err := callTool(ctx, c, tool.Name, json.RawMessage(`{"region":"us-west1"}`)); err != nil {
			return err
		}
	}
	return nil
}

// echoSchema sends back the schema of one tool as the library gives it.
func echoSchema(ctx context.Context, c *mcpclient.Client, _ json.RawMessage) error {
	const name = "json_schema_2020_12_tool"
	tools, err := c.ListTools(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(tools, func(t mcp.Tool) bool { return t.Name == name })
	if i < 0 {
		return fmt.Errorf("there is no tool %s", name)
	}
	args, err := mcp.Marshal(map[string]json.RawMessage{"schema": tools[i].InputSchema})
	if err != nil {
		return err
	}
	return callTool(ctx, c, "json_schema_echo", args)
}

// listSkills lists the skills, and no more: none of their files is read (SKILL-16).
func listSkills(ctx context.Context, c *mcpclient.Client, _ json.RawMessage) error {
	skills, err := c.ListSkills(ctx)
	if err == nil && len(skills) == 0 {
		err = errors.New("there are no skills")
	}
	return err
}

// loadSkills loads every skill and reads all its files. These have been tampered with:
// it fails if the library does not see it.
func loadSkills(ctx context.Context, c *mcpclient.Client, _ json.RawMessage) error {
	skills, err := c.ListSkills(ctx)
	if err != nil {
		return err
	}
	for i := range skills {
		loaded, err := c.LoadSkill(ctx, &skills[i])
		if err != nil {
			return err
		}
		for _, file := range loaded.Entry.Resources {
			if _, err := loaded.Read(ctx, file.URI); err != nil {
				return err
			}
		}
	}
	return nil
}
