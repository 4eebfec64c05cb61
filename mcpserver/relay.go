// relay.go: entries of other servers, which a gateway passes on.

package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/troupe-dev/troupe/internal/gatewayhook"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/offered"
	"github.com/troupe-dev/troupe/mcpserver/internal/registry"
	"github.com/troupe-dev/troupe/mcpserver/internal/web"
)

func init() {
	gatewayhook.Register(&gatewayhook.Hooks[Options, Server, Principal, ToolRequest, ResourceRequest, PromptRequest, CompleteRequest, Question]{
		LetMiddlewareWait: func(o *Options) { o.middlewareWaits = true },
		RelayTool:         relayTool, RelayResource: relayResource, RelayTemplate: relayTemplate, RelayPrompt: relayPrompt, RelayOthers: relayOthers,
		RelayedForm: relayedForm, ConsentQuestion: consentQuestion, ElicitationID: elicitationID,
		Admit: admitHTTP, IsModern: web.IsModern, InUse: func(s *Server) bool { return s.web.InUse() },
	})
}

// relayTool is gatewayhook.Hooks.RelayTool.
func relayTool(s *Server, def *mcp.Tool, call func(ctx context.Context, req *ToolRequest) (*mcp.CallToolResult, error)) error {
	checked, err := offered.RelayTool(def)
	if err != nil {
		return err
	}
	t := &tool{Tool: checked, takes: true}
	t.call = func(r *request) error {
		r.enter()
		out, err := call(r.context(), &ToolRequest{Request{r}})
		r.leave()
		if err != nil {
			return t.failed(r, err)
		}
		return t.respond(r, out)
	}
	s.tools.Put(t)
	if t.TaskSupport() != mcp.TaskForbidden {
		s.asTasks.Store(true)
	}
	return nil
}

// relayResource is gatewayhook.Hooks.RelayResource.
func relayResource(s *Server, def *mcp.Resource, read func(ctx context.Context, req *ResourceRequest) (*mcp.ReadResourceResult, error)) error {
	if def == nil {
		return errors.New("relaying a resource: the definition is nil")
	}
	own := *def
	err := errors.Join(own.Validate(), registry.CheckURI(own.URI), registry.CheckDescribed(own.Icons, own.Annotations))
	if own.Size != nil && *own.Size < 0 {
		err = errors.Join(err, errors.New("the size is negative"))
	}
	if err != nil {
		return fmt.Errorf("relaying the resource %.200q: %w", own.URI, err)
	}
	s.resources.Put(&resource{def: &own, supply: relayed(own.MIMEType, read)})
	return nil
}

// relayed is the supply of a resource of another server.
func relayed(mimeType string, read func(context.Context, *ResourceRequest) (*mcp.ReadResourceResult, error)) supply {
	return supply{mimeType, true, nil, new(offered.Speed), func(r *request, _ *reading) (*mcp.ReadResourceResult, error) {
		return read(r.context(), &ResourceRequest{Request{r}})
	}}
}

// relayTemplate is gatewayhook.Hooks.RelayTemplate.
func relayTemplate(s *Server, def *mcp.ResourceTemplate, read func(ctx context.Context, req *ResourceRequest) (*mcp.ReadResourceResult, error),
	suggest func(ctx context.Context, req *CompleteRequest) (*mcp.Completion, error)) error {
	checked, err := offered.NewTemplate(def)
	if err != nil {
		return err
	}
	t := &template{Template: checked, supply: relayed(def.MIMEType, read)}
	if suggest != nil {
		t.completers = make(completers)
		for _, name := range t.Variables() {
			t.completers[name] = completerOf(suggest)
		}
		s.suggests.Store(true)
	}
	s.templates.Put(t)
	return nil
}

// relayPrompt is gatewayhook.Hooks.RelayPrompt.
func relayPrompt(s *Server, def *mcp.Prompt, get func(ctx context.Context, req *PromptRequest, args map[string]string) (*mcp.GetPromptResult, error),
	suggest func(ctx context.Context, req *CompleteRequest) (*mcp.Completion, error)) error {
	checked, err := offered.NewPrompt(def, reflect.TypeFor[map[string]string]())
	if err != nil {
		return err
	}
	p := &prompt{Prompt: checked, takes: true, pace: new(offered.Speed)}
	p.get = func(r *request, args map[string]string) (*mcp.GetPromptResult, error) {
		r.enter()
		out, err := get(r.context(), &PromptRequest{Request{r}}, args)
		r.leave()
		return out, err
	}
	if suggest != nil {
		p.completers = make(completers)
		for _, a := range p.Def.Arguments {
			p.completers[a.Name] = completerOf(suggest)
		}
		s.suggests.Store(true)
	}
	s.prompts.Put(p)
	return nil
}

// relayOthers is gatewayhook.Hooks.RelayOthers.
func relayOthers(s *Server, read func(ctx context.Context, req *ResourceRequest) (*mcp.ReadResourceResult, error)) {
	if read == nil {
		s.others.Store(nil)
		return
	}
	other := relayed("", read)
	s.others.Store(&other)
}

// relayedForm is gatewayhook.Hooks.RelayedForm. The client warns of secrets (SECA-31).
func relayedForm(key string, p *mcp.ElicitParams) *Question {
	q := FormQuestion(key, p)
	q.q.Relayed = true
	return q
}

// consentQuestion is gatewayhook.Hooks.ConsentQuestion (URL-30).
func consentQuestion(key, message, url string) *Question {
	q := URLQuestion(key, message, url)
	q.q.Page.Consent = true
	return q
}

// elicitationID is gatewayhook.Hooks.ElicitationID.
func elicitationID(q *Question) string {
	if q.q.Page == nil {
		return ""
	}
	return q.q.Page.ID
}
