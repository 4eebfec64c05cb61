// Package gatewayhook is the door from agent/expose into mcpserver: functions that a gateway needs of
// a server and no other program does. It is no part of the public API of mcpserver, which
// registers the functions when it is linked.
package gatewayhook

import (
	"context"
	"net/http"

	"github.com/troupe-dev/troupe/mcp"
)

// Hooks are the functions. The type parameters are the types of those names in mcpserver, which
// this package cannot import.
type Hooks[Options, Server, Principal, ToolRequest, ResourceRequest, PromptRequest, CompleteRequest, Question any] struct {
	// LetMiddlewareWait lets a Middleware wait before it goes on: the lists, resources/subscribe and
	// unsubscribe are then calls as tools/call is, each with a goroutine of its own, and
	// the tool, prompt or resource of a call is looked up only when the Middleware goes
	// on: it may be added until then. Requests of one pipe are no longer answered in the
	// order of their arrival. Only initialize, server/discover, ping, logging/setLevel and the
	// beginning of subscriptions/listen and tasks/* stay on the goroutine that reads.
	LetMiddlewareWait func(o *Options)

	// RelayTool adds a tool of another server, or replaces the one with its name; clients are
	// notified of either, and calls under way go on. Arguments and results pass unchecked: they
	// are the affair of the other server and the client. The definition must have an input
	// schema. An unwrapped [*mcp.Error] of the handler is a protocol error, any other error a
	// result with isError. An error of RelayTool changes nothing.
	RelayTool func(s *Server, def *mcp.Tool, call func(context.Context, *ToolRequest) (*mcp.CallToolResult, error)) error
	// RelayResource is RelayTool for a resource; its handler is as with AddResource.
	RelayResource func(s *Server, def *mcp.Resource, read func(context.Context, *ResourceRequest) (*mcp.ReadResourceResult, error)) error
	// RelayTemplate is RelayTool for a resource template. Suggest completes all of its
	// variables, nil none.
	RelayTemplate func(s *Server, def *mcp.ResourceTemplate, read func(context.Context, *ResourceRequest) (*mcp.ReadResourceResult, error),
		suggest func(context.Context, *CompleteRequest) (*mcp.Completion, error)) error
	// RelayPrompt is RelayTool for a prompt: its arguments are strings, and required ones are
	// present. Suggest completes all of them, nil none.
	RelayPrompt func(s *Server, def *mcp.Prompt, get func(context.Context, *PromptRequest, map[string]string) (*mcp.GetPromptResult, error),
		suggest func(context.Context, *CompleteRequest) (*mcp.Completion, error)) error
	// RelayOthers sets the reader of resources that are neither listed nor of a template: links
	// in results need not be to listed resources. Nil removes it.
	RelayOthers func(s *Server, read func(context.Context, *ResourceRequest) (*mcp.ReadResourceResult, error))

	// RelayedForm returns a question as FormQuestion does that is sent unchanged, even if it seems to
	// ask for a secret: the client warns of that, and knows who asks.
	RelayedForm func(key string, p *mcp.ElicitParams) *Question
	// ConsentQuestion returns a question as URLQuestion does that has its answer once the person has
	// agreed, while the page may take its time. The URL is sent unchanged. The gateway calls
	// CompleteElicitation with the question's ElicitationID when the page is done.
	ConsentQuestion func(key, message, url string) *Question
	// ElicitationID returns the id by which the client of 2025-11-25 knows the page of a
	// question; empty before it was asked, and for other questions.
	ElicitationID func(q *Question) string

	// Admit does with a request what the server's Handler does before it reads the message: it
	// checks the origin, authenticates the sender, and reads the body of a POST; body is nil for
	// other methods. With ok false the request was answered. The body must not be used after
	// release.
	Admit func(s *Server, w http.ResponseWriter, r *http.Request) (p *Principal, body []byte, release func(), ok bool)
	// IsModern reports whether a message over HTTP is one of 2026-07-28.
	IsModern func(r *http.Request, m *mcp.Message) bool
	// InUse reports whether a client has an event stream open over HTTP, or a request in flight
	// in a legacy session over HTTP.
	InUse func(s *Server) bool
}

var registered any

// Register sets the hooks. Package mcpserver calls it when it is initialized.
func Register(hooks any) { registered = hooks }

// Get returns the hooks. H is the type that mcpserver has registered; any other panics.
func Get[H any]() H { return registered.(H) }
