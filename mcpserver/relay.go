// relay.go: what a program passes on from other servers, as it is: a gateway.

package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/troupe-dev/troupe/internal/mirror"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/registry"
)

// RelayTool adds a tool of another server, or puts it in the place of the one that has
// its name; clients are told of either, and calls under way go on. Arguments and
// results are that server's and the client's affair: they are passed as they are, and
// neither is held to the tool's schemas, which the definition must have. An [*mcp.Error]
// of the handler that is not wrapped is a protocol error, any other a result with
// isError.
//
// An error changes nothing.
func RelayTool(s *Server, def *mcp.Tool, call func(ctx context.Context, req *ToolRequest) (*mcp.CallToolResult, error)) error {
	if def == nil {
		return errors.New("relaying a tool: it is nil")
	}
	own := *def
	t := &tool{def: &own, takes: true}
	var err error
	if t.mirror, err = mirror.NewPlan(own.InputSchema); err != nil {
		return fmt.Errorf("relaying the tool %q: %w", own.Name, err)
	}
	err = errors.Join(own.Validate(), registry.CheckDescribed(own.Icons, nil), checkTaskSupport(&own))
	if !validName(own.Name) {
		err = errors.Join(err, errors.New("a name is 1 to 128 of A-Z a-z 0-9 _ . - (TOOL-04)"))
	}
	if !isObjectSchema(own.InputSchema) {
		err = errors.Join(err, errors.New("the input schema is not of type object (TOOL-03)"))
	}
	if err != nil {
		return fmt.Errorf("relaying the tool %q: %w", own.Name, err)
	}
	t.call = func(r *request) error {
		r.enter()
		out, err := call(r.context(), &ToolRequest{Request{r}})
		r.leave()
		if err != nil {
			return r.failed(t, err)
		}
		return r.result(t, out)
	}
	s.tools.Put(t)
	if t.taskSupport() != mcp.TaskForbidden {
		s.tasks.declared.Store(true)
	}
	return nil
}

// RelayResource is [RelayTool] for a resource; its handler is as with [AddResource].
func RelayResource(s *Server, def *mcp.Resource, read func(ctx context.Context, req *ResourceRequest) (*mcp.ReadResourceResult, error)) error {
	if def == nil {
		return errors.New("relaying a resource: it is nil")
	}
	own := *def
	err := errors.Join(own.Validate(), registry.CheckURI(own.URI), registry.CheckDescribed(own.Icons, own.Annotations))
	if own.Size != nil && *own.Size < 0 {
		err = errors.Join(err, errors.New("its size is negative"))
	}
	if err != nil {
		return fmt.Errorf("relaying the resource %.200q: %w", own.URI, err)
	}
	s.resources.Put(&resource{def: &own, supply: relayed(own.MIMEType, read)})
	return nil
}

// relayed is the supply of what another server reads.
func relayed(mimeType string, read func(context.Context, *ResourceRequest) (*mcp.ReadResourceResult, error)) supply {
	return supply{mimeType, true, new(speed), func(r *request, _ *reading) (*mcp.ReadResourceResult, error) {
		return read(r.context(), &ResourceRequest{Request{r}})
	}}
}

// RelayTemplate is [RelayTool] for a resource template. Suggest completes all of its
// variables, nil none; see [CompleteTemplate].
func RelayTemplate(s *Server, def *mcp.ResourceTemplate, read func(ctx context.Context, req *ResourceRequest) (*mcp.ReadResourceResult, error),
	suggest func(ctx context.Context, req *CompleteRequest) (*mcp.Completion, error)) error {
	t, err := newTemplate(def)
	if err != nil {
		return err
	}
	t.supply = relayed(t.def.MIMEType, read)
	if suggest != nil {
		t.completers = make(completers)
		for _, name := range t.parsed.Names() {
			t.completers[name] = completerOf(suggest)
		}
		s.suggests.Store(true)
	}
	s.templates.Put(t)
	return nil
}

// RelayPrompt is [RelayTool] for a prompt: its handler is as with [AddPrompt], so that
// arguments are strings, and those that are required are there. Suggest completes all
// of them, nil none; see [CompletePrompt].
func RelayPrompt(s *Server, def *mcp.Prompt, get func(ctx context.Context, req *PromptRequest, args map[string]string) (*mcp.GetPromptResult, error),
	suggest func(ctx context.Context, req *CompleteRequest) (*mcp.Completion, error)) error {
	p, err := newPrompt(def, reflect.TypeFor[map[string]string]())
	if err != nil {
		return err
	}
	p.takes = true
	p.get = func(r *request, args map[string]string) (*mcp.GetPromptResult, error) {
		r.enter()
		out, err := get(r.context(), &PromptRequest{Request{r}}, args)
		r.leave()
		return out, err
	}
	if suggest != nil {
		p.completers = make(completers)
		for _, a := range p.def.Arguments {
			p.completers[a.Name] = completerOf(suggest)
		}
		s.suggests.Store(true)
	}
	s.prompts.Put(p)
	return nil
}

// RelayOthers reads the resources that are not listed here and that no template is
// for: links in results need not be to what a server lists. The handler is as with
// [AddResource]. It replaces the one before; nil is none.
func (s *Server) RelayOthers(read func(ctx context.Context, req *ResourceRequest) (*mcp.ReadResourceResult, error)) {
	if read == nil {
		s.others.Store(nil)
		return
	}
	other := relayed("", read)
	s.others.Store(&other)
}

// LogLevel returns the lowest level of log messages that the client wants with this
// request; "" is none at all.
func (q *Request) LogLevel() mcp.LogLevel {
	r := q.live()
	return r.logLevel()
}
