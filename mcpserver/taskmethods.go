// taskmethods.go: the methods about tasks, of both eras.

package mcpserver

import (
	"context"
	"encoding/json"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/offered"
	"github.com/troupe-dev/troupe/mcpserver/internal/tasks"
)

// The methods of [tasks.Session].

func (s *session) OneStream() bool { return s.in != nil }
func (s *session) Over() bool      { return s.ended.Completed() }

// taskAsk is the work of a request about tasks that waits for the records.
type taskAsk struct {
	id string
	do func(ctx context.Context, r *request, owner, id string) (any, error)
}

func (w *taskAsk) name() string          { return w.id }
func (w *taskAsk) asks() bool            { return true }
func (w *taskAsk) scopes() []string      { return nil }
func (w *taskAsk) speed() *offered.Speed { return nil }

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

// aboutTask returns the task of a request; live is nil for a task of another process.
func (s *session) aboutTask(a *arrival) (id string, live *tasks.Task, err error) {
	id, ok := a.TaskIDString()
	if !ok || id == "" {
		return "", nil, mcp.Errorf(mcp.CodeInvalidParams, "%s takes a taskId", a.Method)
	}
	if a.version.Era() == mcp.EraModern {
		if err := a.client.TakesTasks(); err != nil {
			return "", nil, err
		}
	}
	ts := s.server.tasks
	live = ts.Live(ownerOf(a.principal), id)
	if live == nil && !ts.Durable() {
		return "", nil, tasks.ErrNoTask()
	}
	return id, live, nil
}

// answerWith answers a request that was never in flight with the result of do.
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
		return s.server.identity.Finish(raw, a.version), nil
	}})
}

// mayWatch implements taskNews (XTASK-14).
func (ts *serverTasks) mayWatch(a *arrival, ids []string) (accepted []string, err error) {
	if !ts.server.hasTasks() {
		return nil, nil
	}
	if err := a.client.TakesTasks(); err != nil {
		return nil, err
	}
	for _, id := range ids {
		if ts.Live(ownerOf(a.principal), id) != nil {
			accepted = append(accepted, id)
		}
	}
	return accepted, nil
}

// getTask answers tasks/get in both eras.
func getTask(s *session, a *arrival) (lost bool, err error) {
	id, live, err := s.aboutTask(a)
	if err != nil {
		return false, err
	}
	if live != nil {
		return s.answerWith(a, func() (any, error) { return tasks.Shown(live, a.version), nil })
	}
	return s.begin(a, &taskAsk{id: id, do: func(ctx context.Context, r *request, owner, id string) (any, error) {
		kept, err := r.session.server.tasks.Recall(ctx, owner, id)
		if err != nil {
			return nil, err
		}
		return tasks.Shown(kept, r.version), nil
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
			return false, mcp.Errorf(mcp.CodeInvalidParams, "the answer %q is not an object", clip.Name(key))
		}
	}
	if live != nil {
		return s.answerWith(a, func() (any, error) {
			s.server.log.Info("a task was answered", "task", id, "principal", live.Owner, "answers", len(p.InputResponses)) // TASK-21
			live.Answer(p.InputResponses)
			return &mcp.EmptyResult{}, nil
		})
	}
	return s.begin(a, &taskAsk{id: id, do: func(ctx context.Context, r *request, owner, id string) (any, error) {
		kept, err := r.session.server.tasks.Recall(ctx, owner, id)
		if err != nil {
			return nil, err
		}
		return &mcp.EmptyResult{}, kept.Elsewhere()
	}}, nil)
}

// resultOfTask answers tasks/result. It may wait for as long as the task is kept.
func resultOfTask(s *session, a *arrival) (lost bool, err error) {
	id, live, err := s.aboutTask(a)
	if err != nil {
		return false, err
	}
	if live == nil {
		return s.begin(a, &taskAsk{id: id, do: func(ctx context.Context, r *request, owner, id string) (any, error) {
			kept, err := r.session.server.tasks.Recall(ctx, owner, id)
			if err != nil {
				return nil, err
			}
			if err := kept.Elsewhere(); err != nil {
				return nil, err
			}
			return kept.Result()
		}}, nil)
	}
	c := &tasks.Reader{Task: live, Port: a.laterPort(s), Version: a.version, Session: s}
	if err := passMiddleware(s, a); err != nil {
		return false, err
	}
	r := s.inboundRequest(a)
	r.Deadline = -1
	if err := s.calls.Begin(&c.Call, c, r); err != nil {
		return false, err
	}
	c.Run()
	return false, nil
}

// cancelTask answers tasks/cancel in both eras.
func cancelTask(s *session, a *arrival) (lost bool, err error) {
	id, live, err := s.aboutTask(a)
	if err != nil {
		return false, err
	}
	if live != nil && !s.server.tasks.Durable() {
		return s.answerWith(a, func() (any, error) { return live.CancelFor(a.version) })
	}
	return s.begin(a, &taskAsk{id: id, do: func(ctx context.Context, r *request, owner, id string) (any, error) {
		ts := r.session.server.tasks
		if t := ts.Live(owner, id); t != nil {
			result, err := t.CancelFor(r.version)
			if status, end, failed, over := t.Outcome(); over {
				t.RecordEnd(status, end, failed)
			}
			return result, err
		}
		kept, err := ts.Recall(ctx, owner, id)
		if err != nil {
			return nil, err
		}
		if err := kept.Elsewhere(); err != nil || r.version.Era() == mcp.EraModern {
			return &mcp.EmptyResult{}, err
		}
		return nil, tasks.ErrEnded(kept.Core().Status)
	}}, nil)
}

// listTasks answers tasks/list, for principals only (TASK-17).
func listTasks(s *session, a *arrival) (lost bool, err error) {
	who := ownerOf(a.principal)
	if who == "" {
		return false, mcp.Errorf(mcp.CodeMethodNotFound, "tasks cannot be listed without authorization")
	}
	var p mcp.ListParams
	if err := a.DecodeParams(&p); err != nil {
		return false, err
	}
	ts := s.server.tasks
	quick, recorded := ts.ListAll(who, p.Cursor)
	if quick {
		return s.answerWith(a, func() (any, error) { return ts.List(who, p.Cursor) })
	}
	return s.begin(a, &taskAsk{id: mcp.MethodListTasks, do: func(ctx context.Context, _ *request, _, _ string) (any, error) {
		return recorded(ctx)
	}}, nil)
}
