// gatewaycalls.go: a client's requests as requests to the servers behind.

package expose

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// requester is a call of a client, with what a server behind may need to know of it.
type requester interface {
	caller
	Meta() mcp.Meta
	LogLevel() mcp.LogLevel
}

// relay carries out a client's call at a server, in an errand: what the server asks
// meanwhile is put to the client.
func relay[T any](ctx context.Context, g *gateway, req requester, server string, do func(context.Context, *mcpclient.Client, *mcpclient.CallOptions) (T, error)) (T, error) {
	meta, level, modern := passedOn(req.Meta()), req.LogLevel(), req.Client().Version.Era() == mcp.EraModern
	return runErrand(ctx, g.up, req, func(ctx context.Context, e *errand) (T, error) {
		var none T
		c, err := g.client(server)
		if err != nil {
			return none, err
		}
		o := e.callOptions()
		o.Meta, o.LogLevel = meta, level
		if modern {
			g.needLevel(ctx, server, level)
		}
		g.begin(server, e)
		defer g.end(server, e)
		out, err := do(ctx, c, o)
		if err != nil && ctx.Err() != nil {
			return none, context.Cause(ctx)
		}
		return out, err
	})
}

// passedOn returns what of a request's _meta is meant for the server behind: all but
// what is particular to a connection.
func passedOn(meta mcp.Meta) mcp.Meta {
	own := make(mcp.Meta, len(meta))
	for key, value := range meta {
		if key != mcp.MetaProgressToken && !strings.HasPrefix(key, reservedMeta) {
			own[key] = value
		}
	}
	return own
}

// passedBack does that for the _meta of a result.
func passedBack(meta mcp.Meta) mcp.Meta {
	if meta == nil {
		return nil
	}
	own := make(mcp.Meta, len(meta))
	for key, value := range meta {
		switch key { // who it is, and tasks and streams that only we know
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

// reservedMeta begins the keys of the protocol itself.
const reservedMeta = "io.modelcontextprotocol/"

// callTool returns the handler of a tool. The result is the server's, with the URIs of
// the front; what the server refuses is refused with its own words and code.
func (g *gateway) callTool(t target) func(context.Context, *mcpserver.ToolRequest) (*mcp.CallToolResult, error) {
	return func(ctx context.Context, req *mcpserver.ToolRequest) (*mcp.CallToolResult, error) {
		args := slices.Clone(req.Arguments())
		v := req.Client().Version
		return relay(ctx, g, req, t.server, func(ctx context.Context, c *mcpclient.Client, o *mcpclient.CallOptions) (*mcp.CallToolResult, error) {
			o.AnyOutput = true // whether it fits is for the client to see, as without us
			res, err := c.CallTool(ctx, t.own, args, o)
			if err != nil {
				return nil, toolFailure(v, err)
			}
			own := *res
			own.Content = g.rewriter(t.server).blocks(res.Content)
			own.Meta = passedBack(res.Meta)
			return &own, nil
		})
	}
}

// rewriter returns what rewrites one result of a server.
func (g *gateway) rewriter(server string) *rewriter {
	return newRewriter(g.book.Load(), &g.links, server)
}

// readResource returns the handler of a listed resource.
func (g *gateway) readResource(t target) func(context.Context, *mcpserver.ResourceRequest) (*mcp.ReadResourceResult, error) {
	return func(ctx context.Context, req *mcpserver.ResourceRequest) (*mcp.ReadResourceResult, error) {
		return g.read1(ctx, req, t)
	}
}

// readTemplate returns the handler of a template's resources. Plain says that it goes as
// the server has it.
func (g *gateway) readTemplate(server string, plain bool) func(context.Context, *mcpserver.ResourceRequest) (*mcp.ReadResourceResult, error) {
	return func(ctx context.Context, req *mcpserver.ResourceRequest) (*mcp.ReadResourceResult, error) {
		own := req.URI()
		if !plain {
			_, own, _ = g.book.Load().named(own)
		}
		return g.read1(ctx, req, target{server, own})
	}
}

// readOther reads what is in no list: it came with a result, or names its server.
func (g *gateway) readOther(ctx context.Context, req *mcpserver.ResourceRequest) (*mcp.ReadResourceResult, error) {
	t, ok := g.find(req.URI())
	if !ok {
		return nil, mcpserver.ErrNotFound
	}
	return g.read1(ctx, req, t)
}

// find returns what a client's URI stands for. One that nobody is known for goes to the
// only server there is, and to none of several: it might tell them each other's secrets.
func (g *gateway) find(uri string) (target, bool) {
	book := g.book.Load()
	if server, own, ok := book.named(uri); ok {
		return target{server, own}, true
	}
	if !isPlainURI(uri) {
		return target{}, false
	}
	matches := maxMatches
	server := book.owner(uri, &matches)
	if server == "" {
		server = g.links.owner(uri)
	}
	if server == "" && len(book.prefixes) == 1 {
		for only := range book.prefixes {
			server = only
		}
	}
	return target{server, uri}, server != ""
}

// read1 reads a resource of a server.
func (g *gateway) read1(ctx context.Context, req *mcpserver.ResourceRequest, t target) (*mcp.ReadResourceResult, error) {
	uri := req.URI()
	return relay(ctx, g, req, t.server, func(ctx context.Context, c *mcpclient.Client, o *mcpclient.CallOptions) (*mcp.ReadResourceResult, error) {
		o.Fresh = true // the client keeps it itself, for as long as the server says
		res, err := c.ReadResource(ctx, t.own, o)
		if errors.Is(err, mcpclient.ErrNotFound) {
			return nil, mcpserver.ErrNotFound // told in the way of the client's revision
		}
		if err != nil {
			return nil, failure(err)
		}
		own := *res
		w := g.rewriter(t.server)
		own.Contents = make([]mcp.ResourceContents, len(res.Contents))
		for i, one := range res.Contents {
			if one.URI == t.own {
				one.URI = uri
			} else {
				one.URI = w.uri(one.URI)
			}
			own.Contents[i] = one
		}
		own.Meta = passedBack(res.Meta)
		return &own, nil
	})
}

// getPrompt returns the handler of a prompt.
func (g *gateway) getPrompt(t target) func(context.Context, *mcpserver.PromptRequest, map[string]string) (*mcp.GetPromptResult, error) {
	return func(ctx context.Context, req *mcpserver.PromptRequest, args map[string]string) (*mcp.GetPromptResult, error) {
		return relay(ctx, g, req, t.server, func(ctx context.Context, c *mcpclient.Client, o *mcpclient.CallOptions) (*mcp.GetPromptResult, error) {
			res, err := c.GetPrompt(ctx, t.own, args, o)
			if err != nil {
				return nil, failure(err)
			}
			own, w := *res, g.rewriter(t.server)
			own.Messages = make([]mcp.PromptMessage, len(res.Messages))
			for i, m := range res.Messages {
				m.Content = w.block(m.Content)
				own.Messages[i] = m
			}
			own.Meta = passedBack(res.Meta)
			return &own, nil
		})
	}
}

// suggest returns what completes the arguments of a prompt or template, nil if the
// server does not.
func (g *gateway) suggest(completes bool, server string, ref mcp.CompletionRef) func(context.Context, *mcpserver.CompleteRequest) (*mcp.Completion, error) {
	if !completes {
		return nil
	}
	return func(ctx context.Context, req *mcpserver.CompleteRequest) (*mcp.Completion, error) {
		c, err := g.client(server)
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

// failure is what a client is told of a request that a server has not carried out: the
// server's own error, as without us, and else what has become of the server.
func failure(err error) error {
	if wire, ok := errors.AsType[*mcp.Error](err); ok {
		return &mcp.Error{Code: wire.Code, Message: wire.Message, Data: wire.Data}
	}
	return mcp.Errorf(mcp.CodeInternal, "%s", err.Error())
}

// toolFailure is that for a tool: what has become of the server is for the model to read
// (TOOL-09).
func toolFailure(v mcp.Version, err error) error {
	wire, ok := errors.AsType[*mcp.Error](err)
	if !ok {
		return err
	}
	// Of a client that has not declared pages, and may know the error nevertheless
	// (URL-40). In other revisions it says nothing.
	pages, needed := wire.URLElicitations()
	if !needed || v.Has(mcp.FeatureElicitationIDs) {
		return failure(err)
	}
	text := make([]string, len(pages))
	for i, p := range pages {
		text[i] = fmt.Sprintf("%s: %s", p.Message, p.URL)
	}
	return fmt.Errorf("%s. Open this page, then call the tool again: %s", wire.Message, strings.Join(text, "; "))
}

// begin notes that an errand has a call at a server, to which what the server logs
// belongs; end that it has none any more.
func (g *gateway) begin(server string, e *errand) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls[server] = append(g.calls[server], e)
}

func (g *gateway) end(server string, e *errand) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if rest := without(slices.Clone(g.calls[server]), e); len(rest) > 0 {
		g.calls[server] = rest
	} else {
		delete(g.calls, server)
	}
}

// notification sees what a server says, in order and before the outcome of the call that
// it is about. It does not block.
func (g *gateway) notification(server, method string, params json.RawMessage) {
	switch method {
	case mcp.NotificationMessage:
		if p := new(mcp.LogParams); jsonx.Unmarshal(params, p) == nil && p.Validate() == nil {
			g.logged(server, p)
		}
	case mcp.NotificationListenAcknowledged:
		if p := new(mcp.ListenParams); jsonx.Unmarshal(params, p) == nil && p.Validate() == nil {
			g.announced(server, p.Notifications)
		}
	}
}

// logged passes on what a server logs.
func (g *gateway) logged(server string, p *mcp.LogParams) {
	g.mu.Lock()
	known, calls := g.lanes[server] != nil, g.calls[server]
	g.mu.Unlock()
	if !known {
		return
	}
	logger := server // several may have a logger of one name
	if p.Logger != "" {
		logger += "/" + p.Logger
	}
	switch {
	case len(calls) == 0:
		g.up.logApart(p.Level, logger, p.Data)
	case len(calls) > 1 && g.up.shared(): // whose it is nobody knows (SECA-6)
	default: // they are all this client's; the newest is the best guess
		calls[len(calls)-1].log(p.Level, logger, p.Data)
	}
}

// level notes which log messages a legacy client wants, and has the servers told.
func (g *gateway) level(lowest mcp.LogLevel) {
	g.mu.Lock()
	g.wanted = lowest
	order := slices.Clone(g.order)
	g.mu.Unlock()
	for _, server := range order {
		g.tell(server, newLevel)
	}
}

// wantedLevel returns what the client wants to hear, "" if it has not said.
func (g *gateway) wantedLevel() mcp.LogLevel {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wanted
}

// needLevel has a legacy server log what a client of 2026-07-28 wants with one request:
// such a server has one level for all of them, which is the lowest (LOG-03, LOG-05).
func (g *gateway) needLevel(ctx context.Context, server string, level mcp.LogLevel) {
	g.mu.Lock()
	l := g.lanes[server]
	enough := l == nil || level == "" || l.level != "" && level.AtLeast(l.level)
	if !enough && (g.wanted == "" || g.wanted.AtLeast(level)) {
		g.wanted = level // for the servers that are started anew, and those that come
	}
	g.mu.Unlock()
	if !enough {
		g.setLevel(ctx, l, level)
	}
}

// setLevel tells a legacy server. Those of 2026-07-28 are told with each call.
func (g *gateway) setLevel(ctx context.Context, l *lane, level mcp.LogLevel) {
	g.mu.Lock()
	same := level == "" || l.level == level
	g.mu.Unlock()
	if same {
		return
	}
	c, err := g.client(l.server)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	if err := c.SetLogLevel(ctx, level); err != nil && !errors.Is(err, mcpclient.ErrUnsupported) {
		g.log.Warn("a server does not take the log level", "server", l.server, "level", level, "error", err)
		return
	}
	g.mu.Lock()
	l.level = level
	g.mu.Unlock()
}
