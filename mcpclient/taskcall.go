package mcpclient

import (
	"cmp"
	"context"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/watch"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
	"github.com/troupe-dev/troupe/mcpclient/internal/listening"
)

// taskCall is the part of a tools/call that has to do with tasks.
type taskCall struct {
	client    *Client
	req       *call.Request
	name      string
	opts      *CallOptions
	augmented bool
	most      time.Duration // the call's maximum
}

var taskResults = []string{mcp.ResultTask}

// canBeTask reports whether a tools/call may be answered with a task: in 2025-11-25 one
// is asked for where the tool requires it, or leaves it to us and the caller wants it
// (TASK-05); in 2026-07-28 it is the server's choice (XTASK-03).
func (c toolCalls) canBeTask(ctx context.Context, name string, o *CallOptions) (bool, error) {
	info := c.info.Load()
	if info.Era == mcp.EraModern {
		return c.changes.takesTasks(), nil // else the server must answer at once (XTASK-01)
	}
	can := c.tools.asksForTask(ctx, name, o.Task || o.task != nil)
	if !can && o.task != nil {
		return false, &UnsupportedError{Method: mcp.MethodCallTool, Capability: "tasks.requests.tools.call for " + name, Version: info.Version}
	}
	return can, nil
}

// copiedWithTask is withTask for a request and options that the task must not keep.
func (c toolCalls) copiedWithTask(req *call.Request, opts *CallOptions) (*call.Request, *CallOptions, error) {
	own, o := *req, *opts
	return &own, &o, c.tools.withTask(&own, &o)
}

// withTask completes the request of a tools/call that may be answered with a task, which keeps
// the request and the options.
func (c toolCalls) withTask(req *call.Request, o *CallOptions) error {
	t := &taskCall{client: c.Client, req: req, name: req.Name, opts: o}
	if t.most = cmp.Or(req.Max, c.server.CallTimeout); t.most == 0 {
		t.most = call.DefaultMax
	}
	req.Follow = t.follow
	if c.info.Load().Era == mcp.EraModern {
		req.ResultTypes = taskResults
		return nil
	}
	var opts mcp.TaskOptions
	if o.task != nil && o.task.ttl > 0 {
		ms := o.task.ttl.Milliseconds()
		opts.TTL = &ms
	}
	raw, err := mcp.Marshal(&opts)
	if err != nil {
		return c.failed(mcp.MethodCallTool, err)
	}
	params := append(append([]byte(nil), req.Params[:len(req.Params)-1]...), `,"task":`...)
	req.Params = append(append(params, raw...), '}')
	t.augmented, req.Late = true, t.late
	return nil
}

// asksForTask decides whether a call of 2025-11-25 is augmented (TASK-05).
func (c toolCalls) asksForTask(ctx context.Context, name string, wanted bool) bool {
	if !c.changes.coreTasks().Calls {
		return false
	}
	support := c.tools.taskSupport(ctx, name)
	return support == mcp.TaskRequired || support == mcp.TaskOptional && wanted
}

// created reads the answer that says that there is a task now.
func (t *taskCall) created(r call.Result) (task *Task, ok bool, err error) {
	task = &Task{client: t.client, tool: t.name, tag: t.req.Tag}
	if tag, ok := t.req.Tag.(*asks.Call); ok {
		task.client = of(tag) // of several processes, the one that has it
	}
	s, meta, generation, ok, err := listening.Created(r, t.augmented)
	if !ok || err != nil {
		return nil, ok, err
	}
	task.generation = generation
	s.Inputs, s.Result, s.Err = nil, nil, nil // those are told by tasks/get
	task.id, task.seed, task.immediate = s.ID, &s, meta.ImmediateResponse()
	last := stateOf(&s)
	task.last.Store(&last)
	return task, true, nil
}

// follow waits for the task that an answer speaks of, as a part of the call: its
// maximum holds, and stands still while a person is asked; its progress goes on
// (PROG-06).
func (t *taskCall) follow(a call.Answer) call.Step {
	if a.Err != nil {
		return call.Step{}
	}
	task, ok, err := t.created(a.Result)
	switch {
	case err != nil:
		return call.Step{Outcome: &call.Outcome{Err: err}}
	case !ok:
		return call.Step{}
	}
	c := t.client
	c.log.Debug("a tool call is a task now", "tool", t.name, "task", task.id)
	if wish := t.opts.task; wish != nil {
		task.tag = c.requests.newTag(mcp.MethodCallTool, t.name, t.opts) // the call's own ends with it
		wish.created(task)
		return call.Step{Outcome: &call.Outcome{Err: errHandedOver}}
	}
	if t.opts.OnTask != nil {
		c.events().Add(func() { t.opts.OnTask(task) })
	}
	return call.Step{Token: task.generation == watch.Core, Wait: func(resume func(call.Step)) func(error) {
		w := &watch.Waiter{
			Limit: a.Left, Timeout: &call.TimeoutError{Method: mcp.MethodCallTool, After: t.most}, Owner: true,
			Resume: func(out call.Outcome) { resume(call.Step{Outcome: &out}) },
		}
		leave, err := task.watch(w)
		if err != nil {
			resume(call.Step{Outcome: &call.Outcome{Err: err}})
			return nil
		}
		return func(cause error) {
			w.Kept.Store(t.opts.KeepTask != nil && t.opts.KeepTask(cause))
			leave()
		}
	}}
}

// late cancels the task of a call that was given up before there was one (CANC-05).
func (t *taskCall) late(r call.Result) {
	task, ok, err := t.created(r)
	if !ok || err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lateTime)
	defer cancel()
	if err := task.Cancel(ctx); err != nil {
		t.client.log.Debug("the task of a call that was given up could not be cancelled", "task", task.id, "error", err)
	}
}

// lateTime bounds the cancelling of a task that is not wanted.
const lateTime = 10 * time.Second

// taskSupport says what the tool's definition does (TASK-05). The list of tools is
// read for it only if the server has tasks at all.
func (c toolCalls) taskSupport(ctx context.Context, name string) string {
	tool := c.cache.Tools.Find(name)
	if tool == nil {
		if _, err := c.ListTools(ctx); err != nil {
			return mcp.TaskForbidden
		}
		tool = c.cache.Tools.Find(name)
	}
	if tool == nil || tool.Execution == nil {
		return mcp.TaskForbidden
	}
	return tool.Execution.TaskSupport
}
