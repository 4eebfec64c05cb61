// taskrun.go: a tool call as a task.
//
//	            Asking, Ask          answered
//	working ─────────────▶ input_required ─────▶ working
//	   │ the handler returns, or the actor is gone
//	   │ tasks/cancel, its time is over
//	   └───────────────────────────────▶ completed | failed | cancelled
//
// The task is an actor (KindTask) that owns the time and the status; see package
// actors/watch. Its handler is an ordinary request that no client waits for: the task
// is its port.

package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/actors/watch"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// task is one task of this process. It is the port of its handler's request, and
// what that asks with.
type task struct {
	*watch.ServedTask // set before the task can be found
	server            *Server
	owner             string
	policy            TaskPolicy
	version           mcp.Version // in which it was made
	from              *session    // the legacy one that it was made in; else nil
	outcome           actors.Reply[watch.Ending]
	to                *request    // of its handler
	taken             atomic.Bool // its end is under way

	keeping sync.Mutex // held while records are written
	kept    string     // the status that was recorded last

	telling sync.Mutex // held while the client is told of a change
	told    mcp.Task   // what it was told last

	mu      sync.Mutex
	readers []*taskResult // requests of tasks/result that wait
	held    [][]byte      // questions that wait for one
}

// maxHeldFrames bounds the questions of a task that wait for a stream.
const maxHeldFrames = 16

// taskStart is the work of a tool call that becomes a task at once.
type taskStart struct {
	*tool
	ttl *int64 // what the client wants, in milliseconds
}

func (w *taskStart) asks() bool    { return true }
func (w *taskStart) speed() *speed { return nil }

// run makes the task and answers with it (TASK-03, XTASK-02).
func (w *taskStart) run(r *request) error {
	t, to, err := r.session.server.tasks.begin(r, w.tool, w.ttl, func(t *task, to *request) { to.Run() })
	if err != nil {
		return err
	}
	r.session.server.log.Info("a tool call is a task", "task", t.ID(), "tool", w.name(), "principal", t.owner, "session", r.session.ref.Path(), "id", to.ID().String()) // TASK-21
	return r.respond(t.creation())
}

// creation is the result that says that there is a task.
func (t *task) creation() any {
	if t.version.Era() == mcp.EraModern {
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

// begin makes a task of the call r, with a request of its own for the handler, which
// work has to bring to its end. The task can be found, and is durable, when it returns
// (XTASK-04).
func (ts *tasks) begin(r *request, w *tool, ttl *int64, work func(*task, *request)) (*task, *request, error) {
	common, err := ts.server.shared() // where calls do not end with the client's connection
	if err != nil {
		return nil, nil, err
	}
	served, err := ts.table(ownerOf(r.principal))
	if err != nil {
		return nil, nil, err
	}
	t := &task{server: ts.server, owner: ownerOf(r.principal), policy: ts.opts.Tools[w.name()], version: r.version}
	to := &request{
		session: r.session, port: t, work: w, version: r.version, client: r.client, principal: r.principal,
		arguments: bytes.Clone(r.arguments), optional: &optional{task: t, meta: r.meta.clone()},
	}
	if r.version.Era() == mcp.EraLegacy {
		t.from, to.token = r.session, r.token // PROG-06; none in 2026-07-28 (XTASK-15)
	}
	t.to = to
	id := r.ID()
	if n := r.invocation.Load(); id.IsZero() && n != nil { // the handler's, apart from the request inside of a middleware
		id = n.current().ID()
	}
	if err := common.calls.Begin(&to.Call, to, inbound.Request{ID: id, Method: mcp.MethodCallTool, Unlisted: true, Deadline: -1}); err != nil {
		return nil, nil, err
	}
	if ttl == nil && t.policy.TTL > 0 {
		ms := t.policy.TTL.Milliseconds()
		ttl = &ms
	}
	_, err = served.Begin(r.context(), watch.Work{
		TTL: ttl, Bytes: int64(3*len(to.arguments) + to.meta.size()), Tag: t,
		Keep: func(ctx context.Context, w *watch.ServedTask) error {
			t.ServedTask = w
			if err := t.record(ctx, mcp.TaskWorking, watch.Ending{}, nil); err != nil {
				return err
			}
			ts.byID.Store(w.ID(), t)
			return nil
		},
		Run: func(ctx context.Context, _ *watch.ServedTask) (watch.Ending, error) { return t.run(ctx, to, work) },
	})
	if err != nil {
		to.Finish(err)
		return nil, nil, err
	}
	return t, to, nil
}

// run waits for the end of the handler, and records what it has ended with before
// the client learns of it.
func (t *task) run(ctx context.Context, to *request, work func(*task, *request)) (watch.Ending, error) {
	if t.taken.Swap(true) {
		return watch.Ending{}, watch.ErrTaskCancelled
	}
	stop := context.AfterFunc(ctx, func() { to.Cancel(context.Cause(ctx).Error()) })
	defer stop()
	work(t, to)
	end, err := t.outcome.Wait(ctx)
	if ctx.Err() != nil {
		return watch.Ending{}, context.Cause(ctx)
	}
	status, failed := mcp.TaskCompleted, (*mcp.Error)(nil)
	if err != nil {
		status, failed = mcp.TaskFailed, mcp.ErrorOf(err)
		end.Message = failed.Message
	}
	t.recordEnd(status, end, failed)
	return end, err
}

// Notify implements port: what the handler tells and asks goes to a request of
// tasks/result, or else where the client hears what belongs to no request (TASK-18).
// An HTTP client gives a question its stream (TASK-10), so that waits. In 2026-07-28
// there is neither progress nor logging of a task (XTASK-15).
func (t *task) Notify(frame []byte) {
	var m mcp.Message
	if t.from == nil || t.Over().Err() != nil || mcp.Scan(frame, &m) != nil { // PROG-06
		return
	}
	question := m.Kind == mcp.KindRequest
	if !question {
		frame = mcp.AppendNotification(nil, m.Method, t.Mark(m.Params))
	}
	t.deliver(frame, question)
}

// deliver sends to the newest of those who read. One that is over is told so under the
// lock that Emit takes, so that is not called with ours.
func (t *task) deliver(frame []byte, question bool) {
	for {
		r := t.newest(frame, question)
		if r == nil || r.Emit(func() { r.port.Notify(frame) }) {
			return
		}
		r.leave()
	}
}

// newest is the request that reads; nil if there is none, and the frame went another way.
func (t *task) newest(frame []byte, question bool) *taskResult {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case len(t.readers) > 0:
		return t.readers[len(t.readers)-1]
	case !question || t.from.in != nil: // a pipe is one stream for all
		t.from.push(frame)
	case len(t.held) < maxHeldFrames:
		t.held = append(t.held, bytes.Clone(frame))
	default:
		t.server.log.Warn("a question of a task was dropped: no request waits for its result", "task", t.ID())
	}
	return nil
}

// Respond implements port: it is the end of the handler.
func (t *task) Respond(frame []byte, failed *mcp.Error) {
	if failed != nil {
		t.outcome.Complete(watch.Ending{}, failed)
		return
	}
	var m mcp.Message
	if err := mcp.Scan(frame, &m); err != nil || m.Result == nil || m.ResultType == mcp.ResultInputRequired {
		t.outcome.Complete(watch.Ending{}, mcp.Errorf(mcp.CodeInternal, "the tool has not ended with a result"))
		return
	}
	end := watch.Ending{Result: bytes.Clone(m.Result)}
	end.Failed, end.Message = toolError(end.Result)
	t.outcome.Complete(end, nil)
}

// Drop implements port.
func (t *task) Drop() { t.outcome.Complete(watch.Ending{}, watch.ErrTaskCancelled) }

// toolError reports whether a result says that the tool has failed (TASK-07), and why.
func toolError(result json.RawMessage) (failed bool, message string) {
	var r struct {
		IsError bool `json:"isError"`
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if jsonx.Unmarshal(result, &r) != nil || !r.IsError {
		return false, ""
	}
	for _, c := range r.Content {
		if c.Text != "" {
			return true, briefly(c.Text)
		}
	}
	return true, "the tool has failed"
}

// briefly bounds a status message.
func briefly(text string) string {
	const most = 200
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// Mark implements [dialogue.Task] (TASK-11).
func (t *task) Mark(params json.RawMessage) json.RawMessage {
	marked, err := mcp.WithRelatedTask(params, t.ID())
	if err != nil { // they are ours: an object
		return params
	}
	return marked
}

// changed hears of each change, also in a Receive.
func (t *task) changed(w *watch.ServedTask) {
	status, end, failed, over := w.Outcome()
	t.server.sys.Go("task "+w.ID(), func() {
		if over {
			if !t.taken.Swap(true) { // it was over before it began
				t.to.Finish(watch.ErrTaskCancelled)
			}
			t.recordEnd(status, end, failed)
			t.mu.Lock()
			t.held = nil
			t.mu.Unlock()
		}
		t.tell()
	})
}

// tell tells the client how the task is now, if it is there to hear it: a legacy one
// with notifications/tasks/status (TASK-14), those who listen with
// notifications/tasks (XTASK-14). What comes late is how it is by then.
func (t *task) tell() {
	t.telling.Lock()
	defer t.telling.Unlock()
	if t.server.notices.taskWatched(t.ID()) {
		if raw, err := mcp.Marshal(t.Extension()); err == nil {
			t.server.notices.task(t.ID(), raw)
		}
	}
	now := t.Core()
	if t.from == nil || now.Status == t.told.Status && now.StatusMessage == t.told.StatusMessage || t.told.Terminal() {
		return
	}
	if !t.from.ended.Completed() && (t.told.Status != "" || now.Status != mcp.TaskWorking) {
		if raw, err := mcp.Marshal(&now); err == nil {
			t.from.push(mcp.AppendNotification(nil, mcp.NotificationTaskStatus, raw))
		}
	}
	t.told = now
}

// recordWait bounds the recording of an end.
const recordWait = 10 * time.Second

// recordEnd records what a task has ended with. What it really is goes before what its
// handler has returned: a cancelled task stays one (TASK-12).
func (t *task) recordEnd(status string, end watch.Ending, failed *mcp.Error) {
	ctx, cancel := context.WithTimeout(context.Background(), recordWait)
	defer cancel()
	if err := t.record(ctx, status, end, failed); err != nil {
		t.server.log.Error("the end of a task could not be recorded", "task", t.ID(), "error", err)
	}
}

// record writes how the task is into the records, if they outlive the process.
func (t *task) record(ctx context.Context, status string, end watch.Ending, failed *mcp.Error) error {
	ts := t.server.tasks
	if !ts.durable {
		return nil
	}
	t.keeping.Lock()
	defer t.keeping.Unlock()
	if s, e, err, over := t.Outcome(); over {
		status, end, failed = s, e, err
	}
	if t.kept == status {
		return nil
	}
	if err := ts.alive(ctx); err != nil {
		return err
	}
	r := recorded{Task: t.Created(), Failed: end.Failed, Error: failed, By: ts.instance}
	r.Task.Status, r.Task.StatusMessage = status, end.Message
	r.Task.LastUpdatedAt = time.Now().UTC().Format(time.RFC3339Nano)
	head, err := jsonx.Marshal(&r)
	if err != nil {
		return err
	}
	if status == mcp.TaskCompleted { // first: who sees the end finds the result
		err = t.server.records.PutRecord(ctx, store.Record{Kind: recordResult, Owner: t.owner, Key: t.ID(), Value: end.Result, Expires: t.Expires()})
	}
	if err == nil {
		err = t.server.records.PutRecord(ctx, store.Record{Kind: recordTask, Owner: t.owner, Key: t.ID(), Value: head, Expires: t.Expires()})
	}
	if err == nil {
		t.kept = status
	}
	return err
}
