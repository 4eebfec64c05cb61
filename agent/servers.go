package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/agent/internal/sampler"
	"github.com/troupe-dev/troupe/agent/internal/servercall"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/consent"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/internal/schema"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// servers joins a host of MCP servers with the loops that use their tools.
type servers struct {
	all      []mcpclient.Server
	host     *mcpclient.Host
	sampling *sampler.Service // nil if servers may not ask a model of the runtime's

	polls   []string              // patterns of tools that poll
	defined []mcpclient.Server    // all, as they are defined, without sampling policies
	options mcpclient.HostOptions // of host
	log     *slog.Logger

	// Caches that the tasks of all runs share.
	converted atomic.Pointer[converted]
	inputs    *inputSchemas // shared with the servers of tenants, which mostly list the same
	warned    sync.Map      // the subjects of warnings that were logged
	warnings  atomic.Int64  // how many those are
	accepted  sync.Map      // the hash of the instructions that models get, by server
}

// converted is the host's catalogue, which the host replaces whole, as tools of loops.
type converted struct {
	from []mcpclient.Tool
	made []loop.Tool
}

// startServers starts the servers that have consent. The host asks for consent itself, before it
// starts a command.
func startServers(ctx context.Context, sys *actors.System, approvals store.Approvals, o *Options, sample func([]mcpclient.Server) (*sampler.Service, error)) (_ *servers, err error) {
	s := &servers{all: slices.Clone(o.Servers), log: sys.Log(), polls: slices.Clone(o.Polls), inputs: newInputSchemas()}
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
	if h.Human == nil {
		h.Human = mcpclient.DeclineAll
	}
	s.defined = slices.Clone(s.all)
	if o.Sampling != nil {
		if s.sampling, err = sample(s.all); err != nil {
			return nil, err
		}
		s.sampling.Instructions = s.instructions
		h.Sampler, h.SamplingTools, h.SamplingContext, h.SampleFreely = s.sampling, true, false, false
	}
	if _, said := h.Extensions[mcp.ExtensionTasks]; !said { // calls wait for tasks by themselves
		h.Extensions = maps.Clone(h.Extensions)
		if h.Extensions == nil {
			h.Extensions = make(map[string]json.RawMessage)
		}
		h.Extensions[mcp.ExtensionTasks] = json.RawMessage("{}")
	}
	if h.Pins == nil && o.Store != nil {
		h.Pins = Pins(o.Store, s.all)
	}
	if h.Pins == nil {
		h.Pins = new(mcpclient.MemoryPins)
	}
	s.options = h
	s.host, err = mcpclient.NewHost(sys, s.all, &h)
	return s, err
}

// trust takes over the trust that the user gave a server with its approval (SECA-40).
func trust(ctx context.Context, approvals store.Approvals, s *mcpclient.Server) error {
	if s.Trusted {
		return nil
	}
	a, ok, err := consent.Of(ctx, approvals, s)
	s.Trusted = ok && a.Trusted
	return err
}

// consented refuses a server of a file without consent (SECA-45). A server
// that the program itself defines is consent.
func consented(ctx context.Context, approvals store.Approvals, ask func(context.Context, mcpclient.Server) error, s *mcpclient.Server) error {
	if s.File == "" {
		return nil
	}
	if _, ok, err := consent.Of(ctx, approvals, s); err != nil || ok {
		return err
	}
	if ask == nil {
		return errNoConsent
	}
	return ask(ctx, *s)
}

var errNoConsent = errors.New("this definition of it has not been approved")

// forget notes that a run makes no more calls.
func (s *servers) forget(run string) {
	if s != nil && s.host != nil {
		s.host.ForgetOwner(run)
	}
}

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

// reasonOf is an error of a server as events and journal have it, without the
// server's name.
func reasonOf(err error) string {
	if server, ok := errors.AsType[*mcpclient.ServerError](err); ok {
		err = server.Err
	}
	return clip.Text(err.Error(), servercall.MaxReason)
}

// tools converts the host's catalogue. It is asked for before every turn of every run
// and changes rarely, so the last conversion is kept.
//
// Only those of the servers that are named are waited for; all, if none are.
func (s *servers) tools(ctx context.Context, of ...string) []loop.Tool {
	found, err := s.host.ToolsOf(ctx, of...)
	last := s.converted.Load()
	switch {
	case err != nil: // out of time, or closed: the last known ones
	case len(found) == 0:
		last = nil
		s.converted.Store(nil)
	case last == nil || len(found) != len(last.from) || &found[0] != &last.from[0]:
		last = &converted{from: found, made: make([]loop.Tool, 0, len(found))}
		for i := range found {
			if !found[i].AppOnly { // APP-05
				last.made = append(last.made, s.tool(&found[i]))
			}
		}
		s.converted.Store(last)
	}
	if last == nil {
		return nil
	}
	return last.made
}

// modelSchema makes the schema of a tool's arguments one that models take. What it loses
// is logged once for each tool.
func (s *servers) modelSchema(t *mcpclient.Tool) json.RawMessage {
	raw, skipped, err := schema.ForModel(t.Tool.InputSchema)
	if err == nil && len(skipped) > 0 {
		err = skipped[0]
	}
	if err != nil {
		s.warnOnce("schema of "+t.Name, "a part of a tool's input schema is not valid; models are told the rest", "server", t.Server, "tool", t.Name, "first", err)
	}
	return raw
}

// tool makes a server's tool one of the loop's.
func (s *servers) tool(t *mcpclient.Tool) loop.Tool {
	calls := s.calls(nil, nil)
	safe := t.Trusted && (t.Tool.Annotations.Idempotent() || t.Tool.Annotations.ReadOnly())
	hash := hashOf(&t.Tool) // SECA-38
	return loop.Tool{
		Tool:      llm.Tool{Name: t.Name, Description: t.Tool.Description, InputSchema: s.modelSchema(t)},
		Server:    t.Server,
		Origin:    s.origin(t.Server),
		Hash:      hash,
		Pin:       t.Hash,
		Source:    s.source(t.Server),
		ReadOnly:  t.Tool.Annotations.ReadOnly(),
		Trusted:   t.Trusted,
		Safe:      safe,
		Polls:     fitsAny(s.polls, t.Name),
		Taint:     runlog.Taint(taintOf(t.Trusted, t.Tool.Annotations)),
		OpenWorld: t.Tool.Annotations != nil && t.Tool.Annotations.OpenWorldHint != nil && t.Tool.Annotations.OpenWorld(),
		Validate:  s.inputs.check(t, hash),
		Go:        calls.Start(t.Name, safe), Dispatches: true, TakeUp: calls.TakeUp(t.Name),
	}
}

// calls returns the calls of runs. Sampler and roots are a run's; nil is the servers'.
func (s *servers) calls(sampler mcpclient.Sampler, roots func(context.Context) ([]mcp.Root, error)) servercall.Calls {
	return servercall.Calls{Host: s.host, Sampling: s.sampling, Sampler: sampler, Roots: roots}
}

// MetaIdempotencyKey is the key in the _meta of every tools/call of a run whose
// value is the call's idempotency key: a server that sees it twice sees the same
// call twice.
const MetaIdempotencyKey = servercall.MetaIdempotencyKey

// source distinguishes a server from all others of its name: by its definition in a file, and
// else by its command and folder, or its URL.
func (s *servers) source(name string) string {
	for i := range s.all {
		if srv := &s.all[i]; srv.Name == name {
			if srv.Hash != "" {
				return srv.File + " " + cmp.Or(srv.EarlierHash, srv.Hash) // what else its own consent is bound to is not a tool's
			}
			return pinSource(srv)
		}
	}
	return ""
}

// origin is where a server is, without the parts of its arguments that may be secret.
func (s *servers) origin(name string) string {
	for i := range s.all {
		if srv := &s.all[i]; srv.Name == name {
			return clip.Text(cmp.Or(srv.Origin(), srv.Command), servercall.MaxReason)
		}
	}
	return ""
}

// instructions returns the instructions of a server.
func (s *servers) instructions(server string) string {
	c, err := s.host.Client(server)
	if err != nil {
		return ""
	}
	info := c.Status().Info
	if info == nil {
		return ""
	}
	return info.Instructions
}

// warnOnce logs a warning the first time that there is one about a subject.
func (s *servers) warnOnce(subject, text string, args ...any) {
	if s.warnings.Load() >= maxWarned {
		return
	}
	if _, again := s.warned.LoadOrStore(subject, nil); !again {
		s.warnings.Add(1)
		s.log.Warn(text, args...)
	}
}

// maxWarned bounds the warnings.
const maxWarned = 10_000
