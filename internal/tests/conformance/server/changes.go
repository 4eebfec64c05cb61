package main

import (
	"context"
	"errors"
	"sync"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// addChanges adds tools that change what the server offers. Clients that listen are told.
func addChanges(s *mcpserver.Server) error {
	return errors.Join(
		mcpserver.AddFunc(s, tool("test_trigger_tool_change", "Adds a tool, or removes it again."), toggle(
			func() error {
				return mcpserver.AddFunc(s, tool("test_changing_tool", "Comes and goes."), func(context.Context, nothing) (string, error) {
					return "I am here for now.", nil
				})
			},
			func() { s.RemoveTools("test_changing_tool") },
		)),
		mcpserver.AddFunc(s, tool("test_trigger_prompt_change", "Adds a prompt, or removes it again."), toggle(
			func() error {
				return mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: "test_changing_prompt", Description: "Comes and goes."}, func(context.Context, nothing) (string, error) {
					return "I am here for now.", nil
				})
			},
			func() { s.RemovePrompts("test_changing_prompt") },
		)),
		mcpserver.AddFunc(s, tool("test_trigger_resource_update", "Says that a watched resource has changed."), func(context.Context, nothing) (string, error) {
			s.ResourceUpdated(watched)
			return "Updated", nil
		}),
	)
}

// toggle returns a handler that adds something, and removes it the next time.
func toggle(add func() error, remove func()) func(context.Context, nothing) (string, error) {
	var (
		mu    sync.Mutex // the handler may run twice at once
		there bool
	)
	return func(context.Context, nothing) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if there {
			remove()
			there = false
			return "Removed", nil
		}
		if err := add(); err != nil {
			return "", err
		}
		there = true
		return "Added", nil
	}
}
