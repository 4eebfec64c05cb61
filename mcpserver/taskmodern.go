// taskmodern.go: the Tasks extension of 2026-07-28: the server decides which calls
// become tasks, and the client asks for one with everything that belongs to its status.

package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"maps"

	"github.com/troupe-dev/troupe/mcp"
)

// takesTasks reports whether a request declares the extension; the error is what is
// told to one that has not and should (XTASK-01, XTASK-16). A legacy tasks capability
// does not count (XTASK-19).
func takesTasks(c *client) error {
	if settings, ok := c.capabilities.Extension(mcp.ExtensionTasks); ok && len(settings) > 0 && settings[0] == '{' { // EXT-01, EXT-06
		return nil
	}
	return mcp.MissingCapability(&mcp.ClientCapabilities{Extensions: withExtension(nil, mcp.ExtensionTasks)})
}

// withExtension declares an extension without settings (EXT-01).
func withExtension(all map[string]json.RawMessage, id string) map[string]json.RawMessage {
	all = maps.Clone(all)
	if all == nil {
		all = make(map[string]json.RawMessage, 1)
	}
	all[id] = json.RawMessage(`{}`)
	return all
}

// modernTask is the work of a tool call of 2026-07-28: a task if the tool may be one
// and the client takes it. A legacy task parameter changes nothing (XTASK-19), and a
// call that has begun as one, before the client took tasks, remains one (XTASK-05).
func (ts *tasks) modernTask(a *arrival, t *tool) (work, error) {
	err := takesTasks(a.client)
	switch {
	case err != nil && t.taskSupport() == mcp.TaskRequired:
		return nil, err
	case err != nil || ts.opts.Tools[t.name()].ByHandler || a.RequestState != nil:
		return t, nil
	}
	return &taskStart{tool: t}, nil
}

// taskAsk is the work of a request about one task that has to wait for the records.
type taskAsk struct {
	id string
	do func(ctx context.Context, r *request, owner, id string) (any, error)
}

func (w *taskAsk) name() string  { return w.id }
func (w *taskAsk) asks() bool    { return true }
func (w *taskAsk) speed() *speed { return nil }

func (w *taskAsk) run(r *request) error {
	result, err := w.do(r.context(), r, ownerOf(r.principal), w.id)
	if err != nil {
		return err
	}
	if raw, ok := result.(json.RawMessage); ok {
		r.respondRaw(raw)
		return nil
	}
	return r.respond(result)
}

// aboutTask reads what the requests about one task have in common.
func (s *session) aboutTask(a *arrival) (id string, live *task, err error) {
	id, ok := a.TaskIDString()
	if !ok || id == "" {
		return "", nil, mcp.Errorf(mcp.CodeInvalidParams, "%s takes a taskId", a.Method)
	}
	if a.version.Era() == mcp.EraModern {
		if err := takesTasks(a.client); err != nil {
			return "", nil, err
		}
	}
	ts := s.server.tasks
	live = ts.live(ownerOf(a.principal), id)
	if live == nil && !ts.durable {
		return "", nil, errNoTask()
	}
	return id, live, nil
}

// answerWith answers a request that was never in flight with what do returns.
func (s *session) answerWith(a *arrival, do func() (any, error)) (lost bool, err error) {
	return false, s.answerNow(a, method{quick: func(s *session, a *arrival) ([]byte, error) {
		result, err := do()
		if err != nil {
			return nil, err
		}
		raw, err := mcp.MarshalResult(result, a.version)
		if err != nil {
			return nil, err
		}
		return s.server.withMeta(raw, a.version), nil
	}})
}

// shown is a task as the revision has it (TASK-08, XTASK-06).
func shown(v taskView, version mcp.Version) any {
	if version.Era() == mcp.EraModern {
		t := v.Extension()
		if t.Error != nil {
			t.Error = t.Error.For(version)
		}
		return t
	}
	t := v.Core()
	return &t
}

// getTask answers tasks/get in both eras.
func getTask(s *session, a *arrival) (lost bool, err error) {
	id, live, err := s.aboutTask(a)
	if err != nil {
		return false, err
	}
	if live != nil {
		return s.answerWith(a, func() (any, error) { return shown(live, a.version), nil })
	}
	return s.begin(a, &taskAsk{id: id, do: func(ctx context.Context, r *request, owner, id string) (any, error) {
		kept, err := r.session.server.tasks.recall(ctx, owner, id)
		if err != nil {
			return nil, err
		}
		return shown(kept, r.version), nil
	}}, nil)
}

// updateTask answers tasks/update (XTASK-10).
func updateTask(s *session, a *arrival) (lost bool, err error) {
	id, live, err := s.aboutTask(a)
	if err != nil {
		return false, err
	}
	var p mcp.UpdateTaskParams
	if err := a.DecodeParams(&p); err != nil {
		return false, err
	}
	for key, answer := range p.InputResponses { // MRTR-07
		if len(answer) == 0 || answer[0] != '{' {
			return false, mcp.Errorf(mcp.CodeInvalidParams, "the answer %q is not an object", shorten(key))
		}
	}
	if live != nil {
		return s.answerWith(a, func() (any, error) {
			s.server.log.Info("a task was answered", "task", id, "principal", live.owner, "answers", len(p.InputResponses)) // TASK-21
			live.Answer(p.InputResponses)
			return &mcp.EmptyResult{}, nil
		})
	}
	return s.begin(a, &taskAsk{id: id, do: func(ctx context.Context, r *request, owner, id string) (any, error) {
		kept, err := r.session.server.tasks.recall(ctx, owner, id)
		if err != nil {
			return nil, err
		}
		return &mcp.EmptyResult{}, kept.elsewhere()
	}}, nil)
}

// errElsewhere is what a task gets that another process works on.
var errElsewhere = mcp.Errorf(mcp.CodeInternal, "another instance of the server works on the task")

// elsewhere refuses what only the process can do that works on the task, which is not
// this one.
func (r *recorded) elsewhere() error {
	if r.Task.Terminal() {
		return nil
	}
	return errElsewhere
}

// cancelTask answers tasks/cancel in both eras. The result of 2026-07-28 says nothing of
// the task, and there is one also if it has ended (XTASK-13); in 2025-11-25 that is an
// error, and the result is the task as cancelled (TASK-12).
func cancelTask(s *session, a *arrival) (lost bool, err error) {
	id, live, err := s.aboutTask(a)
	if err != nil {
		return false, err
	}
	if live != nil && !s.server.tasks.durable {
		return s.answerWith(a, func() (any, error) { return live.cancelled(a.version) })
	}
	return s.begin(a, &taskAsk{id: id, do: func(ctx context.Context, r *request, owner, id string) (any, error) {
		ts := r.session.server.tasks
		if t := ts.live(owner, id); t != nil {
			result, err := t.cancelled(r.version)
			if status, end, failed, over := t.Outcome(); over {
				t.recordEnd(status, end, failed)
			}
			return result, err
		}
		kept, err := ts.recall(ctx, owner, id)
		if err != nil {
			return nil, err
		}
		if err := kept.elsewhere(); err != nil || r.version.Era() == mcp.EraModern {
			return &mcp.EmptyResult{}, err
		}
		return nil, errEnded(kept.Core().Status)
	}}, nil)
}

func errEnded(status string) error {
	return mcp.Errorf(mcp.CodeInvalidParams, "the task has ended already: %s", status)
}

// cancelled cancels the task.
func (t *task) cancelled(v mcp.Version) (result any, err error) {
	t.server.log.Info("a task is cancelled", "task", t.ID(), "principal", t.owner) // TASK-21
	first := t.Cancel()
	if v.Era() == mcp.EraModern {
		return &mcp.EmptyResult{}, nil
	}
	now := t.Core()
	if !first {
		return nil, errEnded(now.Status)
	}
	return &now, nil
}

// ErrNoTask is returned by [ToolRequest.BeginTask] for a call that cannot become a
// task.
var ErrNoTask = errors.New("mcpserver: the call cannot become a task")

// BeginTask makes the call a task, for tools whose [TaskPolicy] leaves it to the
// handler: the client gets its answer, and the handler goes on without it. Questions it
// asks from here on wait for the client to look at the task. It does nothing if the
// call is a task already, or the client takes none; a client that must, for a tool
// that requires tasks, was refused before the handler ran.
//
// An error, other than one that says that the call is over, is [ErrNoTask] or says that
// there are too many tasks: the handler may go on without one.
func (t *ToolRequest) BeginTask(ctx context.Context) error {
	r := t.live()
	w, ok := r.job().(*tool)
	if !ok || w.taskSupport() == mcp.TaskForbidden {
		return ErrNoTask
	}
	if r.task != nil || r.version.Era() != mcp.EraModern || takesTasks(r.client) != nil {
		return nil
	}
	n := t.r.invocation.Load() // the handler's: a retry may not know of it yet
	if n == nil {
		return ErrNoTask
	}
	made, to, err := r.session.server.tasks.begin(r, w, nil, func(*task, *request) {})
	if err != nil {
		return err
	}
	r.session.server.log.Info("a tool call has become a task", "task", made.ID(), "tool", w.name(), "principal", made.owner) // TASK-21
	result, err := mcp.MarshalResult(made.creation(), r.version)
	if err == nil {
		err = n.handOver(r.session.server.withMeta(result, r.version), to)
	}
	if err != nil { // the call is over
		made.Cancel()
		to.Finish(err) // it never ran
	}
	return err
}
