package agent

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// servers joins a host of MCP servers with the loops that use their tools.
type servers struct {
	all  []mcpclient.Server
	host *mcpclient.Host

	mu   sync.Mutex
	from []mcpclient.Tool // what tools were made of: the host's catalogue, which it replaces whole
	made []loop.Tool
}

// startServers starts those that may be. The host asks for consent itself, before it
// starts a command.
func startServers(ctx context.Context, sys *actors.System, approvals store.Approvals, o *Options) (*servers, error) {
	s := &servers{all: slices.Clone(o.Servers)}
	for i := range s.all {
		if err := trust(ctx, approvals, &s.all[i]); err != nil {
			return nil, err
		}
	}
	var h mcpclient.HostOptions
	if o.Host != nil {
		h = *o.Host
	}
	h.Consent = func(ctx context.Context, srv mcpclient.Server) error {
		return consented(ctx, approvals, o.Consent, &srv)
	}
	var err error
	s.host, err = mcpclient.NewHost(sys, s.all, &h)
	return s, err
}

// trust takes over what the user has said of a server when approving it (SECA-40).
func trust(ctx context.Context, approvals store.Approvals, s *mcpclient.Server) error {
	if s.File == "" || s.Hash == "" || s.Trusted {
		return nil
	}
	a, ok, err := approvals.Approved(ctx, s.File, s.Name, s.Hash)
	if err != nil {
		return fmt.Errorf("looking for the approval of %s: %w", s.Name, err)
	}
	s.Trusted = ok && a.Trusted
	return nil
}

// consented refuses a server of a file that nobody has agreed to (SECA-45). A server
// that the program itself defines is consent.
func consented(ctx context.Context, approvals store.Approvals, ask func(context.Context, mcpclient.Server) error, s *mcpclient.Server) error {
	if s.File == "" {
		return nil
	}
	if s.Hash != "" {
		if _, ok, err := approvals.Approved(ctx, s.File, s.Name, s.Hash); err != nil {
			return fmt.Errorf("looking for its approval: %w", err)
		} else if ok {
			return nil
		}
	}
	if ask == nil {
		return errNoConsent
	}
	return ask(ctx, *s)
}

var errNoConsent = errors.New("nobody has agreed to this definition of it")

func (s *servers) has(name string) bool { return slices.Contains(s.names(), name) }

func (s *servers) names() []string {
	names := make([]string, len(s.all))
	for i := range s.all {
		names[i] = s.all[i].Name
	}
	return names
}

func (s *servers) close(ctx context.Context) error {
	if s.host == nil {
		return nil
	}
	if err := s.host.Shutdown(ctx); err != nil {
		return fmt.Errorf("stopping the servers: %w", err)
	}
	return nil
}

// toolbox is the [loop.Tools] of one run.
type toolbox struct {
	own     []loop.Tool
	servers *servers
	use     []string // nil means all
	listed  bool     // List was called; it is never called twice at once
}

// List implements [loop.Tools]: functions of the program first, then the servers'
// tools in the host's order. The first time it waits for servers that still connect;
// later only shortly, for a run has better to do than to wait for one that hangs.
func (t *toolbox) List(ctx context.Context) ([]loop.Tool, []Absent) {
	tools := slices.Clone(t.own)
	if len(t.servers.all) == 0 || t.use != nil && len(t.use) == 0 {
		return tools, nil
	}
	if t.listed {
		limit, cancel := context.WithTimeout(ctx, relistTime)
		defer cancel()
		ctx = limit
	}
	t.listed = true
	for _, tool := range t.servers.tools(ctx) {
		if t.uses(tool.Server) {
			tools = append(tools, tool)
		}
	}
	return tools, t.absent()
}

// relistTime bounds the wait for changed lists between two turns.
const relistTime = 2 * time.Second

// absent names the servers that should have tools here and have none.
func (t *toolbox) absent() []Absent {
	var absent []Absent
	for _, s := range t.servers.host.Servers() {
		if s.Disabled || s.Tools > 0 || !t.uses(s.Name) {
			continue
		}
		switch {
		case s.ListErr != nil:
			absent = append(absent, Absent{Server: s.Name, Reason: reasonOf(s.ListErr)})
		case s.Err != nil:
			absent = append(absent, Absent{Server: s.Name, Reason: reasonOf(s.Err)})
		case s.Info == nil:
			absent = append(absent, Absent{Server: s.Name, Reason: "it is still connecting"})
		}
	}
	return absent
}

func (t *toolbox) uses(server string) bool { return t.use == nil || slices.Contains(t.use, server) }

// reasonOf is an error of a server as events and journal have it, without the
// server's name.
func reasonOf(err error) string {
	if server, ok := errors.AsType[*mcpclient.ServerError](err); ok {
		err = server.Err
	}
	return clip(err.Error())
}

// maxReason bounds the reason of a server's absence, in bytes.
const maxReason = 1 << 10

func clip(s string) string {
	if len(s) > maxReason {
		s = s[:maxReason]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// tools converts the host's catalogue. It is asked for before every turn of every run
// and changes rarely, so the last conversion is kept.
func (s *servers) tools(ctx context.Context) []loop.Tool {
	found, err := s.host.Tools(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil: // out of time, or closed: what was known last
	case len(found) == 0:
		s.from, s.made = nil, nil
	case len(found) != len(s.from) || &found[0] != &s.from[0]:
		s.from, s.made = found, make([]loop.Tool, len(found))
		for i := range found {
			s.made[i] = s.tool(&found[i])
		}
	}
	return s.made
}

// tool makes a server's tool one of the loop's.
func (s *servers) tool(t *mcpclient.Tool) loop.Tool {
	name := t.Name
	safe := t.Trusted && t.Tool.Annotations.Idempotent()
	return loop.Tool{
		Tool:     llm.Tool{Name: name, Description: t.Tool.Description, InputSchema: t.Tool.InputSchema},
		Server:   t.Server,
		Origin:   s.origin(t.Server),
		Hash:     hashOf(&t.Tool), // SECA-38
		ReadOnly: t.Tool.Annotations.ReadOnly(),
		Trusted:  t.Trusted,
		Do: func(ctx context.Context, todo *loop.Call) (*mcp.CallToolResult, error) {
			meta := make(mcp.Meta)
			if err := meta.Set(MetaIdempotencyKey, todo.Key); err != nil {
				return nil, err
			}
			res, err := s.host.Call(ctx, name, todo.Arguments, &mcpclient.CallOptions{
				Meta: meta, Safe: safe, Progress: func(p mcpclient.Progress) { todo.Progress(progressOf(p)) }})
			if err != nil {
				return nil, callError(err)
			}
			return res, nil
		},
	}
}

// MetaIdempotencyKey is the key in the _meta of every tools/call of a run whose
// value is the call's idempotency key: a server that sees it twice sees the same
// call twice.
const MetaIdempotencyKey = "dev.troupe/idempotencyKey"

func progressOf(p mcpclient.Progress) loop.Progress {
	out := loop.Progress{Done: p.Progress, Message: p.Message}
	if p.Total != nil {
		out.Total = *p.Total
	}
	return out
}

// callError tells a call that surely had no effect, or whose server said what went
// wrong, from one of which nobody knows.
func callError(err error) error {
	var (
		wire    *mcp.Error
		lost    *call.LostError
		timeout *call.TimeoutError
		server  *mcpclient.ServerError
	)
	switch {
	case errors.As(err, &wire),
		errors.As(err, &lost) && lost.Unsent,
		errors.As(err, &timeout) && timeout.Unsent,
		errors.Is(err, call.ErrBusy),
		errors.Is(err, mcpclient.ErrUnknownTool),
		errors.Is(err, mcpclient.ErrUnsupported),
		errors.Is(err, mcpclient.ErrNotApproved),
		errors.As(err, &server) && server.Method == "": // it was not connected
		return err
	}
	return &loop.UnknownError{Err: err}
}

// origin is where a server is, without what may be secret in its arguments.
func (s *servers) origin(name string) string {
	for i := range s.all {
		if srv := &s.all[i]; srv.Name == name {
			if u, err := url.Parse(srv.URL); srv.URL != "" && err == nil {
				return u.Scheme + "://" + u.Host
			}
			return clip(srv.Command)
		}
	}
	return ""
}
