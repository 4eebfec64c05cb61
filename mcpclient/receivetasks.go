package mcpclient

import (
	"context"
	"encoding/json"

	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/actors/watch"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// askedTask makes a task of a request of the server that asks for one: sampling or
// an elicitation of 2025-11-25 (TASK-03). It is handled unless the request is an
// ordinary one: it does not ask for a task, or it does and we have not declared that
// we make any, so that the wish is ignored (TASK-02). Run is the work.
func (c changes) askedTask(s *conn.Session, m *mcp.Message, run func(context.Context) (json.RawMessage, error)) (result json.RawMessage, handled bool, err error) {
	if c.questions.declared().For(s.Version()).Tasks == nil {
		return nil, false, nil
	}
	var p struct {
		Task json.RawMessage `json:"task"`
	}
	if err := jsonx.Unmarshal(m.Params, &p); err != nil || p.Task == nil {
		return nil, false, nil // whatever else is wrong with it is found out by the work
	}
	var opts *mcp.TaskOptions
	if err := jsonx.Unmarshal(p.Task, &opts); err != nil || opts == nil {
		return nil, true, mcp.Errorf(mcp.CodeInvalidParams, "%s: task is not an object of options", m.Method)
	}
	// Its actor is started at once, or not at all: no context is waited with.
	task, err := c.watching().served.Create(context.Background(), opts.TTL, run)
	if err != nil {
		return nil, true, err
	}
	c.log.Info("the server has given us a task", "method", m.Method, "task", task.TaskID) // TASK-21
	result, err = mcp.Marshal(&mcp.CreateTaskResult{Task: task})
	return result, true, err
}

// askedAboutTask answers tasks/get, tasks/result, tasks/list and tasks/cancel of the
// server. It blocks for tasks/result as long as the task is worked on (TASK-09).
func (c changes) askedAboutTask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	served := c.watching().served
	if method == mcp.MethodListTasks {
		p := new(mcp.ListParams)
		if len(params) > 0 {
			if err := jsonx.Unmarshal(params, p); err != nil {
				return nil, mcp.Errorf(mcp.CodeInvalidParams, "%s: %v", method, err)
			}
		}
		page, err := served.List(p.Cursor)
		if err != nil {
			return nil, err
		}
		return mcp.Marshal(page)
	}
	p := new(mcp.TaskParams) // its related-task _meta is of no interest (TASK-11)
	if err := decode(params, p); err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "%s: %v", method, err)
	}
	var task mcp.Task
	var err error
	switch method {
	case mcp.MethodTaskResult:
		return served.Result(ctx, p.TaskID)
	case mcp.MethodGetTask:
		task, err = served.Get(p.TaskID)
	case mcp.MethodCancelTask:
		c.log.Info("the server cancels a task", "task", p.TaskID)
		task, err = served.Cancel(p.TaskID)
	default:
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "%.100s is not supported by this client", method)
	}
	if err != nil {
		return nil, err
	}
	return mcp.Marshal(&task)
}

// servedChanged tells the server that one of its tasks has changed (TASK-14), if it
// is there to hear it.
func (c changes) servedChanged(served *watch.ServedTask) {
	t := served.Core()
	if info := c.info.Load(); info == nil || !info.Version.Has(mcp.FeatureCoreTasks) {
		return
	}
	c.sys.Go("tasks of "+c.server.Name, func() {
		raw, err := mcp.Marshal(&t)
		if err == nil {
			err = c.conn.Notify(mcp.NotificationTaskStatus, raw)
		}
		if err != nil {
			c.log.Debug("the server was not told of its task", "error", err)
		}
	})
}
