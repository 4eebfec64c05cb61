// Package served answers what a server asks about the tasks that it has given to the client.
package served

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/troupe-dev/troupe/actors/watch"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// Create makes a task of a request of the server that asks for one: sampling or
// an elicitation of 2025-11-25 (TASK-03). It is handled unless the request is an
// ordinary one: it does not ask for a task, or it does and we have not declared that
// we make any, so that the wish is ignored (TASK-02). Run is the work.
func Create(tasks *watch.Served, log *slog.Logger, m *mcp.Message, run func(context.Context) (json.RawMessage, error)) (result json.RawMessage, handled bool, err error) {
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
	task, err := tasks.Create(context.Background(), opts.TTL, run)
	if err != nil {
		return nil, true, err
	}
	log.Info("the server has given us a task", "method", m.Method, "task", task.TaskID) // TASK-21
	result, err = mcp.Marshal(&mcp.CreateTaskResult{Task: task})
	return result, true, err
}

// Answer answers tasks/get, tasks/result, tasks/list and tasks/cancel of the
// server. It blocks for tasks/result as long as the task is worked on (TASK-09).
func Answer(ctx context.Context, served *watch.Served, log *slog.Logger, method string, params json.RawMessage) (json.RawMessage, error) {
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
	err := jsonx.Unmarshal(params, p)
	if err == nil {
		err = p.Validate()
	}
	if err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "%s: %v", method, err)
	}
	var task mcp.Task
	switch method {
	case mcp.MethodTaskResult:
		return served.Result(ctx, p.TaskID)
	case mcp.MethodGetTask:
		task, err = served.Get(p.TaskID)
	case mcp.MethodCancelTask:
		log.Info("the server cancels a task", "task", p.TaskID)
		task, err = served.Cancel(p.TaskID)
	default:
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "%.100s is not supported by this client", method)
	}
	if err != nil {
		return nil, err
	}
	return mcp.Marshal(&task)
}
