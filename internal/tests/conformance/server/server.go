package main

import (
	"errors"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// newServer returns the fixture with all it has.
func newServer(opts *mcpserver.Options) (*mcpserver.Server, error) {
	opts.Instructions = "A server of the conformance tests: each tool shows one thing."
	s, err := mcpserver.New(mcp.Implementation{Name: "troupe-conformance", Version: "1.0.0"}, opts)
	if err != nil {
		return nil, err
	}
	for _, add := range []func(*mcpserver.Server) error{
		addContents, addRunning, addSchemas, addChanges, addAsking, addRounds, addTasks, addResources, addPrompts, addSkills,
	} {
		if err := add(s); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// nothing is what tools take that need no arguments.
type nothing struct{}

// tool is how a tool without a schema of its own is declared.
func tool(name, description string) *mcp.Tool {
	return &mcp.Tool{Name: name, Description: description}
}
