// tasklegacy.go: the core tasks of 2025-11-25: the client asks for one with the request,
// and for its result with another that waits.

package mcpserver

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// taskSupport is what the tool's definition says (TASK-05).
func (t *tool) taskSupport() string {
	if t.def.Execution == nil || t.def.Execution.TaskSupport == "" {
		return mcp.TaskForbidden
	}
	return t.def.Execution.TaskSupport
}

// checkTaskSupport holds a definition to TASK-05.
func checkTaskSupport(def *mcp.Tool) error {
	if def.Execution == nil {
		return nil
	}
	switch def.Execution.TaskSupport {
	case "", mcp.TaskForbidden, mcp.TaskOptional, mcp.TaskRequired:
		return nil
	}
	return errors.New("its task support is none of forbidden, optional and required (TASK-05)")
}

// asTask returns the work of a tool call: the tool, or that it becomes a task.
func (s *session) asTask(a *arrival, t *tool) (work, error) {
	ts := s.server.tasks
	switch {
	case a.version.Era() == mcp.EraModern:
		if t.taskSupport() == mcp.TaskForbidden {
			return t, nil
		}
		return ts.modernTask(a, t)
	case !a.version.Has(mcp.FeatureCoreTasks), !ts.declared.Load(): // TASK-02
		return t, nil
	}
	switch support := t.taskSupport(); {
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

// taskResult is a request of tasks/result that waits for its task (TASK-09). It is the
// stream of what the task tells and asks meanwhile (TASK-10).
type taskResult struct {
	inbound.Call
	session *session
	port    port
	task    *task
	version mcp.Version

	// Guarded by the task's lock.
	stop func() bool // ends the wait for the task
	gone bool        // the request is over
}

// resultOfTask answers tasks/result. It may wait for as long as the task is kept.
func resultOfTask(s *session, a *arrival) (lost bool, err error) {
	id, live, err := s.aboutTask(a)
	if err != nil {
		return false, err
	}
	if live == nil {
		return s.begin(a, &taskAsk{id: id, do: func(ctx context.Context, r *request, owner, id string) (any, error) {
			kept, err := r.session.server.tasks.recall(ctx, owner, id)
			if err != nil {
				return nil, err
			}
			if err := kept.elsewhere(); err != nil {
				return nil, err
			}
			return kept.Result()
		}}, nil)
	}
	c := &taskResult{session: s, port: a.port, task: live, version: a.version}
	if a.reader != nil {
		c.port = s
	}
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

// Handle implements [inbound.Handler].
func (c *taskResult) Handle(context.Context) error {
	t := c.task
	t.mu.Lock()
	var held [][]byte
	if !c.gone {
		c.stop = context.AfterFunc(t.Over(), func() { c.Finish(nil) })
		if c.session == t.from { // answers that come elsewhere are not found (ELIC-13)
			t.readers = append(t.readers, c)
			held, t.held = t.held, nil
		}
	}
	t.mu.Unlock()
	for _, frame := range held {
		t.deliver(frame, true)
	}
	return inbound.ErrParked
}

// leave is called when the request is over.
func (c *taskResult) leave() {
	c.task.mu.Lock()
	defer c.task.mu.Unlock()
	c.gone = true
	c.task.readers = slices.DeleteFunc(c.task.readers, func(o *taskResult) bool { return o == c })
	if c.stop != nil {
		c.stop()
	}
}

// Answer implements [inbound.Handler]: with exactly what the call would have been
// answered with (TASK-09).
func (c *taskResult) Answer(err error) {
	c.leave()
	var result []byte
	if err != nil { // the session ends, not the task
		c.unpark()
	} else {
		result, err = c.task.Result()
	}
	if err != nil {
		wire := mcp.ErrorOf(err).For(c.version)
		c.port.Respond(mcp.AppendError(nil, c.ID(), wire), wire)
		return
	}
	c.port.Respond(mcp.AppendResult(nil, c.ID(), result), nil)
}

// Drop is for [inbound.Handler]: the client does not wait any more. The task goes on.
func (c *taskResult) Drop(error) {
	c.leave()
	c.unpark()
	c.port.Drop()
}

// unpark frees the actor of a request that has its outcome from elsewhere. Finish waits
// for what Answer and Drop are called under, so not here.
func (c *taskResult) unpark() {
	c.session.server.sys.Go(c.session.ref.Path(), func() { c.Finish(nil) })
}

// recordedPage marks a cursor of a page of records; what comes behind it is a key.
const recordedPage = "."

// tasksPerPage is how many records are looked at for a page.
const tasksPerPage = 50

// listTasks answers tasks/list, for principals only (TASK-17): what the records know
// from other processes, and then what this one has (TASK-13).
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
	after, inRecords := "", p.Cursor == nil
	if p.Cursor != nil {
		after, inRecords = strings.CutPrefix(*p.Cursor, recordedPage)
	}
	if !ts.durable || !inRecords {
		table, err := ts.table(who)
		if err != nil {
			return false, err
		}
		return s.answerWith(a, func() (any, error) { return table.List(p.Cursor) })
	}
	return s.begin(a, &taskAsk{id: mcp.MethodListTasks, do: func(ctx context.Context, r *request, owner, _ string) (any, error) {
		return r.session.server.tasks.recordedPage(ctx, owner, after)
	}}, nil)
}

// recordedPage is a page of tasks of other processes. The tasks of this one follow the
// last.
func (ts *tasks) recordedPage(ctx context.Context, owner, after string) (*mcp.ListTasksResult, error) {
	if store.CheckText("cursor", after) != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "no such cursor")
	}
	result := &mcp.ListTasksResult{Tasks: []mcp.Task{}}
	for {
		kept, err := ts.server.records.Records(ctx, store.RecordQuery{Kind: recordTask, Owner: owner, After: after, Limit: tasksPerPage})
		if err != nil {
			return nil, err
		}
		for _, record := range kept {
			after = record.Key
			r, err := ts.read(ctx, record)
			if err != nil {
				return nil, err
			}
			if r.By != ts.instance {
				result.Tasks = append(result.Tasks, r.Core())
			}
		}
		if len(kept) > 0 && len(result.Tasks) > 0 {
			next := recordedPage + after
			result.NextCursor = &next
			return result, nil
		}
		if len(kept) == 0 {
			break
		}
	}
	table, err := ts.table(owner)
	if err != nil {
		return nil, err
	}
	return table.List(nil)
}
