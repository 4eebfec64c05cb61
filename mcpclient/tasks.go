package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/watch"
	"github.com/troupe-dev/troupe/mcp"
)

// What a task may end with beside its result and its error.
var (
	// ErrTaskCancelled says that a task was cancelled, by whomever.
	ErrTaskCancelled = watch.ErrCancelled
	// ErrTaskUnknown says that the server does not know a task, or not any
	// more: it forgets them after a while, and when it is started anew.
	ErrTaskUnknown = watch.ErrUnknown
)

// TaskState is what is known of a task.
type TaskState struct {
	ID      string
	Status  string        // [mcp.TaskWorking] and the others
	Message string        // the server's words about the status
	Created string        // ISO 8601, as the server wrote it
	Updated string        //
	TTL     time.Duration // how long the server keeps it, from its creation; negative is without limit
	Poll    time.Duration // how often it wants to be asked; zero leaves it to the client
}

func stateOf(s *watch.State) TaskState {
	return TaskState{ID: s.ID, Status: s.Status, Message: s.Message, Created: s.Created, Updated: s.Updated, TTL: s.TTL, Poll: s.Poll}
}

// Terminal reports whether the task has ended for good.
func (s *TaskState) Terminal() bool { return (&watch.State{Status: s.Status}).Terminal() }

// TaskOptions changes a call as a task; nil is the same as the zero value.
type TaskOptions struct {
	// CallOptions are those of the call. Its limits are for the request that makes
	// the task, its Progress ends with that; [Task.Wait] has its context.
	CallOptions
	// TTL asks a server of 2025-11-25 to keep the task for so long, from its creation;
	// it may decide otherwise. Zero leaves it to the server.
	TTL time.Duration
}

// Task is a tool call that the server works on without holding a request open. It
// can be waited for any number of times, also after the connection was lost, as long
// as the server knows it. While no caller waits the server is not asked, and its
// questions are not answered. Its methods may be used from any goroutine.
type Task struct {
	client     *Client
	generation watch.Generation
	id, tool   string
	seed       *watch.State
	tag        any
	immediate  string

	last atomic.Pointer[TaskState] // never nil
	done atomic.Pointer[ended]     // nil while it goes on, or its end is not known
}

// ended is what a task has ended with.
type ended struct {
	result *mcp.CallToolResult
	err    error
}

// ID returns the server's id of the task, to be kept by who wants to find it again
// with [Client.Task]. It is "" for a call that was answered at once.
func (t *Task) ID() string { return t.id }

// Immediate returns what the server suggests to tell the model while the task
// runs; untrusted, and mostly empty.
func (t *Task) Immediate() string { return t.immediate }

// State returns what is known of the task without asking; of its zero value only
// the ID is known.
func (t *Task) State() TaskState {
	if w := t.client.watching().Tasks.Find(t.id); w != nil {
		if s, ok := w.State(); ok {
			t.learn(&s)
		}
	}
	return *t.last.Load()
}

func (t *Task) learn(s *watch.State) {
	now := stateOf(s)
	for last := t.last.Load(); !last.Terminal() && !t.last.CompareAndSwap(last, &now); last = t.last.Load() {
	}
}

// Status asks the server for the state of the task.
func (t *Task) Status(ctx context.Context) (TaskState, error) {
	if s := t.State(); s.Terminal() || t.id == "" {
		return s, nil
	}
	raw, err := t.client.changes.aboutTask(ctx, mcp.MethodGetTask, t.id)
	if err != nil {
		return TaskState{}, err
	}
	s, err := t.generation.Decode(raw)
	if err != nil {
		return TaskState{}, t.client.failed(mcp.MethodGetTask, &call.ResponseError{Method: mcp.MethodGetTask, Err: err})
	}
	t.learn(&s)
	t.client.watching().Tasks.Noticed(s)
	return stateOf(&s), nil
}

// Wait waits for the task's end, and answers the server's questions meanwhile. When
// ctx ends it returns the cause, and the task goes on. Other errors are those of
// [Client.CallTool], [ErrTaskCancelled] and [ErrTaskUnknown].
func (t *Task) Wait(ctx context.Context) (*mcp.CallToolResult, error) {
	if end := t.done.Load(); end != nil {
		return end.result, end.err
	}
	reply := make(chan call.Outcome, 1)
	w := &watch.Waiter{Resume: func(out call.Outcome) { reply <- out }}
	leave, err := t.watch(w)
	if err != nil {
		return nil, t.client.failed(mcp.MethodGetTask, err)
	}
	select {
	case out := <-reply:
		return t.end(out)
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

// watch lets w wait for the task. It does not block.
func (t *Task) watch(w *watch.Waiter) (leave func(), err error) {
	c := t.client
	if !c.opts.ListenForTasks || t.generation != watch.Extension || !c.changes.hasTaskNotices() {
		_, leave, err = c.watching().Tasks.Watch(t.generation, t.id, t.seed, t.tag, w)
		return leave, err
	}
	return c.watching().WatchNoticed(t.generation, t.id, t.seed, t.tag, w)
}

// Result returns what the task has ended with, false if that is not known: it has
// not, or no caller has waited for it.
func (t *Task) Result() (*mcp.CallToolResult, bool, error) {
	if end := t.done.Load(); end != nil {
		return end.result, true, end.err
	}
	return nil, false, nil
}

// end takes the outcome, and keeps it if it is final: another may be better next time.
func (t *Task) end(out call.Outcome) (*mcp.CallToolResult, error) {
	res, err := t.result(out)
	_, fromPeer := errors.AsType[*mcp.Error](out.Err)
	fromPeer = fromPeer && !errors.Is(out.Err, ErrTaskUnknown) && !errors.Is(out.Err, watch.ErrLeft) // of its own, not of a look at it
	if out.Err == nil || fromPeer || errors.Is(out.Err, ErrTaskCancelled) {
		t.done.Store(&ended{res, err})
	}
	return res, err
}

func (t *Task) result(out call.Outcome) (*mcp.CallToolResult, error) {
	if out.Err != nil {
		return nil, t.client.failed(mcp.MethodCallTool, out.Err)
	}
	res, err := mcp.DecodeCallToolResult(out.Result.Raw)
	if err != nil {
		return nil, t.client.failed(mcp.MethodCallTool, &call.ResponseError{Method: mcp.MethodCallTool, Err: err})
	}
	if t.tool != "" {
		if err := t.client.CheckOutput(context.Background(), t.tool, res); err != nil {
			return nil, t.client.failed(mcp.MethodCallTool, err)
		}
	}
	return res, nil
}

// Cancel asks the server to cancel the task. A server of 2025-11-25 refuses if the
// task has ended; one of 2026-07-28 agrees in any case, and may yet end the task
// otherwise: Wait tells.
func (t *Task) Cancel(ctx context.Context) error {
	if t.id == "" {
		return nil
	}
	c := t.client
	if t.generation == watch.Core && !c.changes.coreTasks().Cancel {
		return c.failed(mcp.MethodCancelTask, &UnsupportedError{Method: mcp.MethodCancelTask, Capability: "tasks.cancel"})
	}
	raw, err := c.changes.aboutTask(ctx, mcp.MethodCancelTask, t.id)
	if err != nil {
		return err
	}
	if t.generation == watch.Core {
		if s, err := watch.Core.Decode(raw); err == nil {
			t.learn(&s)
		}
	}
	if w := c.watching().Tasks.Find(t.id); w != nil {
		w.Poke()
	}
	return nil
}

// aboutTask carries out one request about a task. Repeating it does no harm.
func (c changes) aboutTask(ctx context.Context, method, id string) (json.RawMessage, error) {
	params, err := mcp.Marshal(&mcp.TaskParams{TaskID: id})
	if err != nil {
		return nil, c.failed(method, err)
	}
	c.log.Debug("about a task", "method", method, "task", id) // TASK-21
	return c.requests.do(ctx, &call.Request{Method: method, Params: params, Name: id, Safe: true}, nil)
}

// Task returns the handle of a task that is known by its id. Whether the server
// knows it is found out by asking.
func (c *Client) Task(ctx context.Context, id string) (*Task, error) {
	if err := c.requests.require(ctx, mcp.MethodGetTask); err != nil {
		return nil, err
	}
	info := c.info.Load()
	if info.Era == mcp.EraModern && !c.changes.takesTasks() { // XTASK-16
		return nil, c.failed(mcp.MethodGetTask, fmt.Errorf("%w: the Tasks extension is not among the Extensions of the Options", ErrUnsupported))
	}
	return c.changes.task(id, "", nil)
}

// task is the handle of a task that a call of a tool with these options has become.
func (c changes) task(id, tool string, o *CallOptions) (*Task, error) {
	info := c.info.Load()
	t := &Task{client: c.Client, id: id, tool: tool, generation: watch.Extension, tag: c.requests.newTag(mcp.MethodCallTool, tool, o)}
	t.last.Store(&TaskState{ID: id})
	if info.Era == mcp.EraLegacy {
		if info.Capabilities.Tasks == nil {
			return nil, c.failed(mcp.MethodGetTask, &UnsupportedError{Method: mcp.MethodGetTask, Capability: "tasks", Version: info.Version})
		}
		t.generation = watch.Core
	}
	return t, nil
}

// maxTaskPages bounds a list of tasks (PAGE-06).
const maxTaskPages = 100

// ListTasks returns the tasks that a server of 2025-11-25 keeps for us, all
// pages. There is no such list in other revisions.
func (c *Client) ListTasks(ctx context.Context) ([]mcp.Task, error) {
	const method = mcp.MethodListTasks
	if err := c.requests.require(ctx, method); err != nil {
		return nil, err
	}
	if info := c.info.Load(); info.Capabilities.Tasks == nil || info.Capabilities.Tasks.List == nil {
		return nil, c.failed(method, &UnsupportedError{Method: method, Capability: "tasks.list", Version: info.Version})
	}
	var all []mcp.Task
	var cursor *string
	seen := map[string]bool{}
	for range maxTaskPages {
		page := new(mcp.ListTasksResult)
		if err := c.requests.read(ctx, method, &mcp.ListParams{Cursor: cursor}, page); err != nil {
			return nil, err
		}
		for i := range page.Tasks {
			if page.Tasks[i].Validate() == nil {
				all = append(all, page.Tasks[i])
			}
		}
		if page.NextCursor == nil || seen[*page.NextCursor] {
			break
		}
		cursor = page.NextCursor
		seen[*cursor] = true
	}
	return all, nil
}

// taskWish is what a call wants to have to do with tasks, beyond its options.
type taskWish struct {
	ttl     time.Duration
	created func(*Task) // takes the task over: the call ends with [errHandedOver]
}

// errHandedOver ends a call whose task goes on by itself.
var errHandedOver = errors.New("the call is a task now")
