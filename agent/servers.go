package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/actors/watch"
	"github.com/troupe-dev/troupe/agent/internal/sampler"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/jsonx"
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

	defined []mcpclient.Server    // all, as they are defined, without sampling policies
	options mcpclient.HostOptions // of host
	log     *slog.Logger

	// Caches that the tasks of all runs share.
	converted atomic.Pointer[converted]
	warned    sync.Map     // the subjects of warnings that were logged
	warnings  atomic.Int64 // how many those are
	accepted  sync.Map     // the hash of the instructions that models get, by server
}

// converted is the host's catalogue, which the host replaces whole, as tools of loops.
type converted struct {
	from []mcpclient.Tool
	made []loop.Tool
}

// startServers starts the servers that have consent. The host asks for consent itself, before it
// starts a command.
func startServers(ctx context.Context, sys *actors.System, approvals store.Approvals, o *Options, sample func([]mcpclient.Server) (*sampler.Service, error)) (_ *servers, err error) {
	s := &servers{all: slices.Clone(o.Servers), log: sys.Log()}
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

// consented refuses a server of a file without consent (SECA-45). A server
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
	return clip.Text(err.Error(), maxReason)
}

// maxReason bounds the reason of a server's absence, in bytes.
const maxReason = 1 << 10

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
	name := t.Name
	safe := t.Trusted && (t.Tool.Annotations.Idempotent() || t.Tool.Annotations.ReadOnly())
	return loop.Tool{
		Tool:      llm.Tool{Name: name, Description: t.Tool.Description, InputSchema: s.modelSchema(t)},
		Server:    t.Server,
		Origin:    s.origin(t.Server),
		Hash:      hashOf(&t.Tool), // SECA-38
		Source:    s.source(t.Server),
		ReadOnly:  t.Tool.Annotations.ReadOnly(),
		Trusted:   t.Trusted,
		Safe:      safe,
		Taint:     runlog.Taint(taintOf(t.Trusted, t.Tool.Annotations)),
		OpenWorld: t.Tool.Annotations != nil && t.Tool.Annotations.OpenWorldHint != nil && t.Tool.Annotations.OpenWorld(),
		Go:        s.call(name, safe, nil, nil), Dispatches: true, TakeUp: s.takeUp(name, nil, nil),
	}
}

// call makes calls of a server's tool. Sampler and roots are a run's; nil is the servers'.
func (s *servers) call(name string, safe bool, sampler mcpclient.Sampler, roots func(context.Context) ([]mcp.Root, error)) func(context.Context, *loop.Call, func(*mcp.CallToolResult, error)) {
	return func(ctx context.Context, todo *loop.Call, done func(*mcp.CallToolResult, error)) {
		opts, over := s.callOptions(todo, safe, sampler, roots)
		s.host.Start(ctx, name, todo.Arguments, opts).OnDone(func(res *mcp.CallToolResult, err error) {
			over()
			if err != nil {
				res, err = callError(err)
			}
			done(res, err)
		})
	}
}

// takeUp waits for tasks of a server's tool, and sends the next rounds of calls. A task that the
// server does not know any more, or that cannot be asked for, has an unknown outcome.
func (s *servers) takeUp(name string, sampler mcpclient.Sampler, roots func(context.Context) ([]mcp.Root, error)) func(context.Context, *loop.Call, *runlog.CallState) (*mcp.CallToolResult, error) {
	return func(ctx context.Context, todo *loop.Call, was *runlog.CallState) (*mcp.CallToolResult, error) {
		opts, over := s.callOptions(todo, false, sampler, roots)
		defer over()
		if was.Round != nil {
			return s.nextRound(ctx, name, todo, was, opts)
		}
		task, err := s.host.Task(ctx, name, was.Task, opts)
		if err != nil {
			return nil, &loop.UnknownError{Err: err}
		}
		res, err := task.Wait(ctx)
		switch {
		case err == nil:
			return res, nil
		case ctx.Err() != nil && !goesOnElsewhere(context.Cause(ctx)):
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
			defer cancel()
			err = errors.Join(err, task.Cancel(end))
		case answered(err) && !taskGoesOn(err):
			return nil, err
		}
		return nil, &loop.UnknownError{Err: err}
	}
}

// nextRound goes on with a call whose server waits for input. A server that does not take its own
// state any more has not carried out the call: it is begun anew if it may be made twice.
func (s *servers) nextRound(ctx context.Context, name string, todo *loop.Call, was *runlog.CallState, opts *mcpclient.CallOptions) (*mcp.CallToolResult, error) {
	opts.Round = &mcp.InputRequiredResult{InputRequests: was.Round.Requests, RequestState: was.Round.State}
	res, err := s.host.Call(ctx, name, todo.Arguments, opts)
	if errors.Is(err, mcp.ErrInvalidParams) && was.Intent.Safe && todo.Tool().Safe {
		opts.Round = nil
		res, err = s.host.Call(ctx, name, todo.Arguments, opts)
	}
	if err != nil {
		return callError(err)
	}
	return res, nil
}

// goesOnElsewhere reports whether a run that ends here with this cause goes on in another process,
// or later.
func goesOnElsewhere(cause error) bool {
	return errors.Is(cause, ErrSuspended) || errors.Is(cause, store.ErrFenced)
}

// cancelTime bounds the cancelling of a task.
const cancelTime = 2 * time.Second

// callOptions are those of one call. Over is to be called once it has ended.
func (s *servers) callOptions(todo *loop.Call, safe bool, sampler mcpclient.Sampler, roots func(context.Context) ([]mcp.Root, error)) (opts *mcpclient.CallOptions, over func()) {
	over = func() {}
	if sampler == nil {
		sampler, over = s.sampling.For(todo)
	}
	return &mcpclient.CallOptions{
		Meta: mcp.Meta{MetaIdempotencyKey: jsonx.AppendQuote(nil, todo.Key)},
		Safe: safe, Human: &callHuman{todo}, Sampler: sampler, Roots: roots,
		Progress: func(p mcpclient.Progress) {
			total := 0.0
			if p.Total != nil {
				total = *p.Total
			}
			todo.Progress(p.Progress, total, p.Message)
		},
		Keep: true, OnSend: todo.Dispatch, OnTask: func(t *mcpclient.Task) { todo.TaskMade(t.ID()) }, KeepTask: goesOnElsewhere,
		OnRound: func(r *mcp.InputRequiredResult, size int) { todo.RoundMade(r.InputRequests, r.RequestState, size) },
		OnInstance: func(w *mcpclient.InstanceWait) {
			if w == nil {
				todo.WaitsFor("")
			} else {
				todo.WaitsFor(w.String())
			}
		},
	}, over
}

// MetaIdempotencyKey is the key in the _meta of every tools/call of a run whose
// value is the call's idempotency key: a server that sees it twice sees the same
// call twice.
const MetaIdempotencyKey = "dev.troupe/idempotencyKey"

// callError returns the outcome of a failed call. An error that is not an
// [loop.UnknownError] says that the call surely had no effect, or that the server
// itself named the failure (TOOL-10); a result, that the tool ran.
func callError(err error) (*mcp.CallToolResult, error) {
	var output *mcpclient.OutputError
	var long *mcpclient.MessageTooLongError
	switch {
	case errors.As(err, &long) && long.Certain: // the tool ran
		return mcp.ErrorResult("the tool ran, but %s", clip.Text(long.Error(), maxReason)), nil
	case errors.As(err, &output) && output.Result != nil: // of the result itself the model sees nothing (TOOL-16)
		return mcp.ErrorResult("%s", clip.Text(err.Error(), maxReason)), nil
	case !taskGoesOn(err) && (unsent(err) || answered(err)):
		return nil, err
	}
	return nil, &loop.UnknownError{Err: err}
}

// taskGoesOn reports whether the server had made a task of the call whose end is not
// known, or how far it came before it was cancelled. The errors of
// requests about a task must not be taken for answers to the call.
func taskGoesOn(err error) bool {
	return errors.Is(err, mcpclient.ErrTaskUnknown) || errors.Is(err, mcpclient.ErrTaskCancelled) || errors.Is(err, watch.ErrLeft)
}

// unsent reports whether the call surely did not reach the server.
func unsent(err error) bool {
	var (
		lost    *call.LostError
		timeout *call.TimeoutError
		output  *mcpclient.OutputError
		server  *mcpclient.ServerError
	)
	return errors.Is(err, mcpclient.ErrNotSent) ||
		errors.As(err, &lost) && lost.Unsent ||
		errors.As(err, &timeout) && timeout.Unsent ||
		errors.As(err, &output) && output.Result == nil ||
		errors.As(err, &server) && server.Method == "" || // it was not connected
		errors.Is(err, call.ErrBusy) ||
		errors.Is(err, call.ErrTooLong) ||
		errors.Is(err, mcpclient.ErrToolChanged) ||
		errors.Is(err, mcpclient.ErrUnknownTool) ||
		errors.Is(err, mcpclient.ErrUnsupported) ||
		errors.Is(err, mcpclient.ErrNotApproved)
}

// answered reports whether the server has reported the outcome of the call: its error, or
// a question without whose answer it does not go on (MRTR-12, MRTR-13).
func answered(err error) bool {
	var (
		wire  *mcp.Error
		input *mcpclient.InputError
	)
	return errors.As(err, &wire) || errors.As(err, &input) && input.Question != ""
}

// source distinguishes a server from all others of its name: by its definition in a file, and
// else by its command and folder, or its URL.
func (s *servers) source(name string) string {
	for i := range s.all {
		if srv := &s.all[i]; srv.Name == name {
			if srv.Hash != "" {
				return srv.File + " " + srv.Hash
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
			if u, err := url.Parse(srv.URL); srv.URL != "" && err == nil {
				return u.Scheme + "://" + u.Host
			}
			return clip.Text(srv.Command, maxReason)
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
