// calls.go: a client's requests as requests to backends.

package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/agent/expose/internal/hook"
	"github.com/troupe-dev/troupe/agent/expose/internal/relay"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// call is a call of a client, with the parts that a backend may need.
type call interface {
	relay.Call
	Meta() mcp.Meta
	LogLevel() mcp.LogLevel
}

// forward carries out a client's call at a backend, in an operation: the client answers the
// backend's questions meanwhile.
func forward[T any](ctx context.Context, g *Gateway, req call, server string, do func(context.Context, *mcpclient.Client, *mcpclient.CallOptions) (T, error)) (T, error) {
	meta, level, modern := relay.ForwardedMeta(req.Meta()), req.LogLevel(), req.Client().Version.Era() == mcp.EraModern
	return relay.Run(ctx, g.client, req, func(ctx context.Context, op *relay.Operation) (T, error) {
		var none T
		c, err := g.backend(server)
		if err != nil {
			return none, err
		}
		o := op.CallOptions()
		o.Meta, o.LogLevel = meta, level
		if modern {
			g.needLevel(ctx, server, level)
		}
		defer g.track(server, op)()
		out, err := do(ctx, c, o)
		if err != nil && ctx.Err() != nil {
			return none, context.Cause(ctx)
		}
		return out, err
	})
}

// resultMeta returns a result's _meta without the keys that belong to the backend's connection:
// its identity, and tasks and streams that only the gateway knows.
func resultMeta(meta mcp.Meta) mcp.Meta {
	own := make(mcp.Meta, len(meta))
	for key, value := range meta {
		switch key {
		case mcp.MetaServerInfo, mcp.MetaRelatedTask, mcp.MetaSubscriptionID:
		default:
			own[key] = value
		}
	}
	if len(own) == 0 {
		return nil
	}
	return own
}

// callTool returns the handler of a tool. The result is the backend's, with the URIs of the
// front; an error keeps the backend's words and code.
func (g *Gateway) callTool(t target) func(context.Context, *mcpserver.ToolRequest) (*mcp.CallToolResult, error) {
	return func(ctx context.Context, req *mcpserver.ToolRequest) (*mcp.CallToolResult, error) {
		args := slices.Clone(req.Arguments())
		v := req.Client().Version
		res, err := forward(ctx, g, req, t.server, func(ctx context.Context, c *mcpclient.Client, o *mcpclient.CallOptions) (*mcp.CallToolResult, error) {
			o.AnyOutput = true // the client checks it, as it does without a gateway
			res, err := c.CallTool(ctx, t.own, args, o)
			if err != nil {
				return toolFailure(v, err)
			}
			own := *res
			own.Content = g.uris.rewriter(t.server).blocks(res.Content)
			own.Meta = resultMeta(res.Meta)
			return &own, nil
		})
		if errors.Is(err, relay.ErrUnknown) {
			return mcpclient.UnknownResult(err), nil
		}
		return res, err
	}
}

// readResource returns the handler of a listed resource.
func (g *Gateway) readResource(t target) func(context.Context, *mcpserver.ResourceRequest) (*mcp.ReadResourceResult, error) {
	return func(ctx context.Context, req *mcpserver.ResourceRequest) (*mcp.ReadResourceResult, error) {
		return g.readAt(ctx, req, t)
	}
}

// readTemplate returns the handler of a template's resources. Plain is true if their URIs are
// the backend's own.
func (g *Gateway) readTemplate(server string, plain bool) func(context.Context, *mcpserver.ResourceRequest) (*mcp.ReadResourceResult, error) {
	return func(ctx context.Context, req *mcpserver.ResourceRequest) (*mcp.ReadResourceResult, error) {
		own := req.URI()
		if !plain {
			_, own, _ = g.uris.book.Load().named(own)
		}
		return g.readAt(ctx, req, target{server, own})
	}
}

// readUnlisted reads a resource that is in no list: its URI came with a result, or names its
// backend.
func (g *Gateway) readUnlisted(ctx context.Context, req *mcpserver.ResourceRequest) (*mcp.ReadResourceResult, error) {
	t, ok := g.uris.find(req.URI())
	if !ok {
		return nil, mcpserver.ErrNotFound
	}
	return g.readAt(ctx, req, t)
}

func (g *Gateway) readAt(ctx context.Context, req *mcpserver.ResourceRequest, t target) (*mcp.ReadResourceResult, error) {
	uri := req.URI()
	return forward(ctx, g, req, t.server, func(ctx context.Context, c *mcpclient.Client, o *mcpclient.CallOptions) (*mcp.ReadResourceResult, error) {
		o.Fresh = true // the client caches it, for the time that the backend sets
		res, err := c.ReadResource(ctx, t.own, o)
		if errors.Is(err, mcpclient.ErrNotFound) {
			return nil, mcpserver.ErrNotFound // which each revision expresses in its own way
		}
		if err != nil {
			return nil, failure(err)
		}
		own, w := *res, g.uris.rewriter(t.server)
		own.Contents = slices.Clone(res.Contents)
		for i := range own.Contents {
			if one := &own.Contents[i]; one.URI == t.own {
				one.URI = uri
			} else {
				one.URI = w.uri(one.URI)
			}
		}
		own.Meta = resultMeta(res.Meta)
		return &own, nil
	})
}

// getPrompt returns the handler of a prompt.
func (g *Gateway) getPrompt(t target) func(context.Context, *mcpserver.PromptRequest, map[string]string) (*mcp.GetPromptResult, error) {
	return func(ctx context.Context, req *mcpserver.PromptRequest, args map[string]string) (*mcp.GetPromptResult, error) {
		return forward(ctx, g, req, t.server, func(ctx context.Context, c *mcpclient.Client, o *mcpclient.CallOptions) (*mcp.GetPromptResult, error) {
			res, err := c.GetPrompt(ctx, t.own, args, o)
			if err != nil {
				return nil, failure(err)
			}
			own, w := *res, g.uris.rewriter(t.server)
			own.Messages = slices.Clone(res.Messages)
			for i := range own.Messages {
				own.Messages[i].Content = w.block(own.Messages[i].Content)
			}
			own.Meta = resultMeta(res.Meta)
			return &own, nil
		})
	}
}

// suggest returns the handler that completes the arguments of a prompt or template, nil if the
// backend has no completions.
func (g *Gateway) suggest(completes bool, server string, ref mcp.CompletionRef) func(context.Context, *mcpserver.CompleteRequest) (*mcp.Completion, error) {
	if !completes {
		return nil
	}
	return func(ctx context.Context, req *mcpserver.CompleteRequest) (*mcp.Completion, error) {
		c, err := g.backend(server)
		if err != nil {
			return nil, failure(err)
		}
		p := &mcp.CompleteParams{Ref: ref, Argument: mcp.CompletionArgument{Name: req.Argument(), Value: req.Value()}}
		if chosen := req.Chosen(); len(chosen) > 0 {
			p.Context = &mcp.CompletionContext{Arguments: chosen}
		}
		out, err := c.Complete(ctx, p)
		switch {
		case errors.Is(err, mcpclient.ErrUnsupported):
			return &mcp.Completion{Values: []string{}}, nil
		case err != nil && ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			return nil, failure(err)
		}
		return out, nil
	}
}

// failure is the error that a client gets for a request that a backend did not carry out: the
// backend's own error if there is one, else the failure of the backend.
func failure(err error) error {
	if wire, ok := errors.AsType[*mcp.Error](err); ok && !lacksLogin(err) {
		return &mcp.Error{Code: wire.Code, Message: wire.Message, Data: wire.Data}
	}
	return mcp.Errorf(mcp.CodeInternal, "%s", err.Error())
}

// lacksLogin reports whether a backend wants a login that its principal does not have: the words of the
// refusal say nothing of that, see [auth.LoginError].
func lacksLogin(err error) bool {
	_, ok := errors.AsType[interface {
		error
		Elsewhere() (resource string, scopes []string, ok bool)
	}](err)
	return ok
}

// toolFailure is what a client gets for a tool call without a result: the model reads the failure of
// a backend (TOOL-09), and that a call may have had its effect where that is so.
func toolFailure(v mcp.Version, err error) (*mcp.CallToolResult, error) {
	if mcpclient.OutcomeOf(err) == mcpclient.OutcomeUnknown {
		return mcpclient.UnknownResult(err), nil
	}
	wire, ok := errors.AsType[*mcp.Error](err)
	if !ok || lacksLogin(err) {
		return nil, err
	}
	// A client that does not declare URL mode may know the error all the same (URL-40). In
	// other revisions the error means nothing.
	pages, needed := wire.URLElicitations()
	if !needed || v.Has(mcp.FeatureElicitationIDs) {
		return nil, failure(err)
	}
	text := make([]string, len(pages))
	for i, p := range pages {
		text[i] = fmt.Sprintf("%s: %s", p.Message, p.URL)
	}
	return nil, fmt.Errorf("%s. Open this page, then call the tool again: %s", wire.Message, strings.Join(text, "; "))
}

// Attach makes s the server that is kept in step.
func (g *Gateway) Attach(s *mcpserver.Server) {
	g.server = s
	hook.Server.RelayOthers(s, g.readUnlisted)
}
