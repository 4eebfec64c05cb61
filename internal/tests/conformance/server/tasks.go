package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// addTasks adds tools that become tasks, for clients that know them: a task goes on
// when its call has been answered, and the client looks at it from time to time.
func addTasks(s *mcpserver.Server) error {
	return errors.Join(
		mcpserver.AddFunc(s, tool("greet", "Greets, at once."), func(_ context.Context, in struct {
			Name string `json:"name" jsonschema:"whom to greet"`
		}) (string, error) {
			return fmt.Sprintf("Hello, %s!", in.Name), nil
		}),
		mcpserver.AddTool(s, longTool("slow_compute", "Takes as long as it is told.", mcp.TaskOptional), computing),
		mcpserver.AddTool(s, longTool("failing_job", "Fails after a while, in a way that the model can read.", mcp.TaskRequired), failing),
		mcpserver.AddTool(s, longTool("protocol_error_job", "Fails in a way that only programs can read.", mcp.TaskOptional), breaking),
		mcpserver.AddTool(s, longTool("confirm_delete", "Asks before it deletes.", mcp.TaskOptional), deleting),
		mcpserver.AddTool(s, longTool("multi_input", "Asks two things at once.", mcp.TaskOptional), twice),
		mcpserver.AddTool(s, longTool("test_tool_with_task", "Asks first, then becomes a task.", mcp.TaskRequired), escalating),
	)
}

// taskPolicies says what is particular to some of them.
var taskPolicies = map[string]mcpserver.TaskPolicy{
	"test_tool_with_task": {ByHandler: true},
}

// longTool declares a tool that may or must become a task.
func longTool(name, description, support string) *mcp.Tool {
	t := tool(name, description)
	t.Execution = &mcp.ToolExecution{TaskSupport: support}
	return t
}

// computing takes its time; its context ends when the task is cancelled.
func computing(ctx context.Context, req *mcpserver.ToolRequest, in struct {
	Seconds float64 `json:"seconds" jsonschema:"how long it takes"`
	Label   string  `json:"label,omitempty" jsonschema:"what to call it"`
}) (string, error) {
	if err := work(ctx, time.Duration(in.Seconds*float64(time.Second))); err != nil {
		return "", err
	}
	return fmt.Sprintf("Computed %s in %v s", in.Label, in.Seconds), nil
}

// failing fails as tools do: the task is completed, with a result that says so.
func failing(ctx context.Context, _ *mcpserver.ToolRequest, _ nothing) (string, error) {
	if err := work(ctx, time.Second); err != nil {
		return "", err
	}
	return "", errors.New("the job has failed, as it always does")
}

// breaking fails as protocols do: the task itself has failed.
func breaking(ctx context.Context, _ *mcpserver.ToolRequest, _ nothing) (string, error) {
	if err := work(ctx, step); err != nil {
		return "", err
	}
	return "", mcp.Errorf(mcp.CodeInternal, "the job has broken down, as it always does")
}

// deleting asks the user first. Nothing is deleted.
func deleting(ctx context.Context, req *mcpserver.ToolRequest, in struct {
	File string `json:"filename" jsonschema:"what to delete"`
}) (string, error) {
	answer, err := mcpserver.Elicit[struct {
		Confirm bool `json:"confirm" jsonschema:"whether to delete it"`
	}](ctx, req, "confirm", fmt.Sprintf("Delete %s?", in.File))
	switch {
	case err != nil:
		return "", err
	case !answer.Confirm:
		return fmt.Sprintf("%s is kept", in.File), nil
	}
	return fmt.Sprintf("%s is deleted", in.File), nil
}

// twice asks two things at once, which may be answered one after the other.
func twice(ctx context.Context, req *mcpserver.ToolRequest, _ nothing) (string, error) {
	first := mcpserver.FormQuestion("first", form("The first name?", "name"))
	second := mcpserver.FormQuestion("second", form("The second name?", "name"))
	if err := req.Ask(ctx, first, second); err != nil {
		return "", err
	}
	if err := errors.Join(first.Err, second.Err); err != nil { // the user may refuse each
		return "", err
	}
	return fmt.Sprintf("%s and %s", first.Elicited.Content["name"], second.Elicited.Content["name"]), nil
}

// escalating asks while its call is still open, and becomes a task when it knows enough.
func escalating(ctx context.Context, req *mcpserver.ToolRequest, _ nothing) (string, error) {
	name, err := askName(ctx, req)
	if err != nil {
		return "", err
	}
	if err := req.BeginTask(ctx); err != nil {
		return "", err
	}
	if err := work(ctx, step); err != nil {
		return "", err
	}
	return fmt.Sprintf("Done for %s", name), nil
}
