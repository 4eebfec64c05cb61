// tasks.go: tool calls that become tasks.

package mcpserver

import (
	"bytes"
	"context"
	"errors"

	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/actors/watch"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/clients"
	"github.com/troupe-dev/troupe/mcpserver/internal/offered"
	"github.com/troupe-dev/troupe/mcpserver/internal/tasks"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// serverTasks are the tasks of a server.
type serverTasks struct {
	*tasks.Store
	server *Server
	opts   TaskOptions
}

func newTasks(s *Server, durable bool) *serverTasks {
	ts := &serverTasks{server: s}
	if s.opts.Tasks != nil {
		ts.opts = *s.opts.Tasks
		s.asTasks.Store(true)
	}
	ts.Store = tasks.New(tasks.Options{
		Served: watch.ServedOptions{
			Spawn: s.spawnChild, Working: ts.opts.Working, Limit: ts.opts.Limit, MaxBytes: ts.opts.MaxBytes,
			TTL: ts.opts.TTL, MaxTTL: ts.opts.MaxTTL, Poll: ts.opts.Poll, Logger: s.log,
		},
		Records: s.records, Durable: durable, Notices: s.notices, Closed: s.closed.Load,
		Go: func(name string, f func()) { s.sys.Go(name, f) },
	})
	return ts
}

// maxRecordBytes bounds the records of a server without a store.
const maxRecordBytes = 64 << 20

// recordsIn returns the records of the server, and whether they outlive the process.
func recordsIn(given store.Records) (records store.Records, durable bool) {
	if given != nil {
		return given, true
	}
	return memstore.New(&memstore.Options{MaxBytes: maxRecordBytes}), false
}

// declareTasks adds the capabilities of tasks that revision v has. Without a principal there is no list
// (TASK-17), and a legacy capability is not shown to modern clients (XTASK-19).
func (s *Server) declareTasks(caps *mcp.ServerCapabilities, v mcp.Version, p *Principal) {
	switch {
	case !s.hasTasks():
	case v.Has(mcp.FeatureCoreTasks):
		caps.Tasks = &mcp.TasksCapability{Cancel: mcp.Present, Requests: &mcp.TaskRequests{Tools: &mcp.TaskToolRequests{Call: mcp.Present}}}
		if ownerOf(p) != "" {
			caps.Tasks.List = mcp.Present
		}
	case v.Era() == mcp.EraModern:
		caps.Extensions = clients.WithExtension(caps.Extensions, mcp.ExtensionTasks)
	}
}

// ownerOf names the principal that owns a task; "" is none.
func ownerOf(p *Principal) string {
	if p == nil {
		return ""
	}
	return p.ID
}

// asTask returns the work of a tool call: the tool, or the start of a task.
func asTask(s *session, a *arrival, t *tool) (work, error) {
	ts := s.server.tasks
	switch {
	case a.version.Era() == mcp.EraModern:
		if t.TaskSupport() == mcp.TaskForbidden {
			return t, nil
		}
		return ts.modernTask(a, t)
	case !a.version.Has(mcp.FeatureCoreTasks), !s.server.hasTasks(): // TASK-02
		return t, nil
	}
	switch support := t.TaskSupport(); {
	case a.Task == nil && support == mcp.TaskRequired:
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "the tool %q can only be called as a task", t.name())
	case a.Task == nil:
		return t, nil
	case support == mcp.TaskForbidden:
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "the tool %q cannot be called as a task", t.name())
	}
	var wish *mcp.TaskOptions
	if err := jsonx.Unmarshal(a.Task, &wish); err != nil || wish == nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "task is not an object of options")
	}
	return &taskStart{tool: t, ttl: wish.TTL}, nil
}

// modernTask returns the work of a tool call of 2026-07-28: a task if the tool may be one
// and the client takes it. A legacy task parameter changes nothing (XTASK-19), and a call
// that has begun before the client took tasks remains a call (XTASK-05).
func (ts *serverTasks) modernTask(a *arrival, t *tool) (work, error) {
	err := a.client.TakesTasks()
	switch {
	case err != nil && t.TaskSupport() == mcp.TaskRequired:
		return nil, err
	case err != nil || ts.opts.Tools[t.name()].ByHandler || a.RequestState != nil:
		return t, nil
	}
	return &taskStart{tool: t}, nil
}

// taskStart is the work of a tool call that becomes a task at once.
type taskStart struct {
	*tool
	ttl *int64 // what the client wants, in milliseconds
}

func (w *taskStart) asks() bool            { return true }
func (w *taskStart) speed() *offered.Speed { return nil }

// run makes the task and answers with it (TASK-03, XTASK-02).
func (w *taskStart) run(r *request) error {
	t, err := r.session.server.tasks.begin(r, w.tool, w.ttl, func(to *request) { to.Run() })
	if err != nil {
		return err
	}
	r.session.server.log.Info("a tool call is a task", "task", t.ID(), "tool", w.name(), "principal", t.Owner, "session", r.session.ref.Path(), "id", t.request.ID().String()) // TASK-21
	return r.respond(t.creation())
}

// creation returns the result for a call that has become a task.
func (t *callTask) creation() any {
	if t.request.version.Era() == mcp.EraModern {
		c := t.Created()
		return &mcp.ExtensionTask{
			TaskID: c.TaskID, Status: c.Status, CreatedAt: c.CreatedAt, LastUpdatedAt: c.LastUpdatedAt,
			TTLMs: c.TTL, PollIntervalMs: c.PollInterval, ResultType: mcp.ResultTask,
		}
	}
	result := &mcp.CreateTaskResult{Task: t.Created(), Meta: mcp.Meta{}}
	_ = result.Meta.Set(mcp.MetaRelatedTask, mcp.RelatedTask{TaskID: t.ID()}) // it is a string
	if t.policy.Immediate != "" {
		_ = result.Meta.Set(mcp.MetaImmediateResponse, t.policy.Immediate)
	}
	return result
}

// callTask is a tool call that has become a task.
type callTask struct {
	*tasks.Task
	policy  TaskPolicy
	request *request // of the handler
}

// begin makes a task of the call r, with a request of its own for the handler, which start
// must bring to its end. When begin returns, the task can be found and is durable (XTASK-04).
func (ts *serverTasks) begin(r *request, w *tool, ttl *int64, start func(to *request)) (*callTask, error) {
	common, err := ts.server.shared() // where calls do not end with the client's connection
	if err != nil {
		return nil, err
	}
	t := &callTask{policy: ts.opts.Tools[w.name()]}
	to := &request{
		session: r.session, work: w, version: r.version, client: r.client, principal: r.principal,
		arguments: bytes.Clone(r.arguments), optional: &optional{meta: r.meta.Clone()},
	}
	var from tasks.Session
	if r.version.Era() == mcp.EraLegacy {
		from, to.token = r.session, r.token // PROG-06; none in 2026-07-28 (XTASK-15)
	}
	t.Task, t.request = ts.New(ownerOf(r.principal), from), to
	to.port, to.task = t.Task, t.Task
	id := r.ID()
	if n := r.invocation.Load(); id.IsZero() && n != nil { // of a handler apart from the request inside of a middleware
		id = n.current().ID()
	}
	if err := common.calls.Begin(&to.Call, to, inbound.Request{ID: id, Method: mcp.MethodCallTool, Unlisted: true, Deadline: -1}); err != nil {
		return nil, err
	}
	if ttl == nil && t.policy.TTL > 0 {
		ms := t.policy.TTL.Milliseconds()
		ttl = &ms
	}
	err = t.Begin(r.context(), tasks.Work{
		TTL: ttl, Bytes: int64(3*len(to.arguments) + to.meta.Size()), Handler: &to.Call, Start: func() { start(to) },
	})
	if err != nil {
		to.Finish(err)
		return nil, err
	}
	return t, nil
}

// ErrNoTask is returned by [ToolRequest.BeginTask] for a call that cannot become a
// task.
var ErrNoTask = errors.New("mcpserver: the call cannot become a task")

// BeginTask makes the call a task, for tools whose [TaskPolicy] leaves that to the handler:
// the client gets the task as its result, and the handler goes on. Questions from here on
// wait until the client polls the task. BeginTask does nothing if the call is a task
// already, or if the client takes none; if a tool requires tasks, the server has refused
// such a client before the handler ran.
//
// Unless the call is over, the error is [ErrNoTask], or that there are too many tasks: the
// handler may go on without one.
func (t *ToolRequest) BeginTask(ctx context.Context) error {
	r := t.live()
	w, ok := r.job().(*tool)
	if !ok || w.TaskSupport() == mcp.TaskForbidden {
		return ErrNoTask
	}
	if r.task != nil || r.version.Era() != mcp.EraModern || r.client.TakesTasks() != nil {
		return nil
	}
	n := t.r.invocation.Load() // the handler's: a retry may not know of it yet
	if n == nil {
		return ErrNoTask
	}
	made, err := r.session.server.tasks.begin(r, w, nil, func(*request) {})
	if err != nil {
		return err
	}
	r.session.server.log.Info("a tool call has become a task", "task", made.ID(), "tool", w.name(), "principal", made.Owner) // TASK-21
	result, err := mcp.MarshalResult(made.creation(), r.version)
	if err == nil {
		err = n.handOver(r.session.server.identity.Finish(result, r.version), made.request)
	}
	if err != nil { // the call is over
		made.Cancel()
		made.request.Finish(err) // it never ran
	}
	return err
}
