// task.go: one task.
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

package tasks

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

// Session is the legacy session that a task was made in. Its methods do not block.
type Session interface {
	// Notify sends a message that belongs to no request.
	Notify(frame []byte)
	// OneStream reports whether all messages go one way, as on a pipe.
	OneStream() bool
	// Over reports whether the session has ended.
	Over() bool
}

// Task is one task of this process. It is the port of its handler's request.
type Task struct {
	*watch.ServedTask // set before the task can be found
	Owner             string
	store             *Store
	from              Session // nil for a task of 2026-07-28
	outcome           actors.Reply[watch.Ending]
	handler           *inbound.Call
	taken             atomic.Bool // its end is under way

	keeping chan struct{} // has room for the one that writes records, which waits for the store; the others wait with their contexts
	kept    string        // the status that was recorded last; of the one that writes

	mu      sync.Mutex // guards the fields below: the handler's goroutine sends without a switch to the task's actor
	told    mcp.Task   // as the client knows it
	readers []*Reader  // requests of tasks/result that wait
	held    [][]byte   // questions that wait for one
}

// maxHeldFrames bounds the questions of a task that wait for a stream.
const maxHeldFrames = 16

// New returns a task that has not begun. From is nil for a task of 2026-07-28.
func (ts *Store) New(owner string, from Session) *Task {
	return &Task{store: ts, Owner: owner, from: from, keeping: make(chan struct{}, 1)}
}

// Work is the work of a task.
type Work struct {
	TTL     *int64        // what the client wants, in milliseconds
	Bytes   int64         // that the handler keeps
	Handler *inbound.Call // whose port is the task
	Start   func()        // brings the handler to its end, or begins to
}

// Begin begins a task. It can be found, and is durable, when Begin returns (XTASK-04).
func (t *Task) Begin(ctx context.Context, w Work) error {
	table, err := t.store.table(t.Owner)
	if err != nil {
		return err
	}
	t.handler = w.Handler
	_, err = table.Begin(ctx, watch.Work{
		TTL: w.TTL, Bytes: w.Bytes, Tag: t,
		Keep: func(ctx context.Context, served *watch.ServedTask) error {
			t.ServedTask = served
			if err := t.record(ctx, mcp.TaskWorking, watch.Ending{}, nil); err != nil {
				return err
			}
			t.store.byID.Store(served.ID(), t)
			return nil
		},
		Run: func(ctx context.Context, _ *watch.ServedTask) (watch.Ending, error) { return t.run(ctx, w.Start) },
	})
	return err
}

// run waits for the end of the handler, and records it before the client learns of it.
func (t *Task) run(ctx context.Context, start func()) (watch.Ending, error) {
	if t.taken.Swap(true) {
		return watch.Ending{}, watch.ErrTaskCancelled
	}
	stop := context.AfterFunc(ctx, func() { t.handler.Cancel(context.Cause(ctx).Error()) })
	defer stop()
	start()
	end, err := t.outcome.Wait(ctx)
	if ctx.Err() != nil {
		return watch.Ending{}, context.Cause(ctx)
	}
	status, failed := mcp.TaskCompleted, (*mcp.Error)(nil)
	if err != nil {
		status, failed = mcp.TaskFailed, mcp.ErrorOf(err)
		end.Message = failed.Message
	}
	t.RecordEnd(status, end, failed)
	return end, err
}

// recordWait bounds the recording of an end.
const recordWait = 10 * time.Second

// RecordEnd records the end of a task. The status of the task goes before the result of its
// handler: a cancelled task stays cancelled (TASK-12).
func (t *Task) RecordEnd(status string, end watch.Ending, failed *mcp.Error) {
	ctx, cancel := context.WithTimeout(context.Background(), recordWait)
	defer cancel()
	if err := t.record(ctx, status, end, failed); err != nil {
		t.store.opts.Served.Logger.Error("the end of a task could not be recorded", "task", t.ID(), "error", err)
	}
}

// record writes the status of the task into the records, if they outlive the process.
func (t *Task) record(ctx context.Context, status string, end watch.Ending, failed *mcp.Error) error {
	ts := t.store
	if !ts.opts.Durable {
		return nil
	}
	select {
	case t.keeping <- struct{}{}:
		defer func() { <-t.keeping }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if s, e, err, over := t.Outcome(); over {
		status, end, failed = s, e, err
	}
	if t.kept == status {
		return nil
	}
	if err := ts.alive(ctx); err != nil {
		return err
	}
	r := Recorded{Task: t.Created(), Failed: end.Failed, Error: failed, By: ts.instance}
	r.Task.Status, r.Task.StatusMessage = status, end.Message
	r.Task.LastUpdatedAt = time.Now().UTC().Format(time.RFC3339Nano)
	head, err := jsonx.Marshal(&r)
	if err != nil {
		return err
	}
	if status == mcp.TaskCompleted { // first: a reader of the end finds the result
		err = ts.opts.Records.PutRecord(ctx, store.Record{Kind: recordResult, Owner: t.Owner, Key: t.ID(), Value: end.Result, Expires: t.Expires()})
	}
	if err == nil {
		err = ts.opts.Records.PutRecord(ctx, store.Record{Kind: recordTask, Owner: t.Owner, Key: t.ID(), Value: head, Expires: t.Expires()})
	}
	if err == nil {
		t.kept = status
	}
	return err
}

// Notify implements [port.Port]: notifications and questions of the handler go to a request of
// tasks/result, or else to where the client receives messages that belong to no request (TASK-18).
// An HTTP client gives a question its stream (TASK-10), so that waits. In 2026-07-28
// there is neither progress nor logging of a task (XTASK-15).
func (t *Task) Notify(frame []byte) {
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

// deliver sends to the newest reader. Emit takes the lock under which a reader leaves, so
// it is not called with the lock of the task.
func (t *Task) deliver(frame []byte, question bool) {
	for {
		r := t.newest(frame, question)
		if r == nil || r.Emit(func() { r.Port.Notify(frame) }) {
			return
		}
		r.leave()
	}
}

// newest returns the newest reader; nil if there is none, and the frame went another way.
func (t *Task) newest(frame []byte, question bool) *Reader {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case len(t.readers) > 0:
		return t.readers[len(t.readers)-1]
	case !question || t.from.OneStream(): // a pipe is one stream for all
		t.from.Notify(frame)
	case len(t.held) < maxHeldFrames:
		t.held = append(t.held, bytes.Clone(frame))
	default:
		t.store.opts.Served.Logger.Warn("a question of a task was dropped: no request waits for its result", "task", t.ID())
	}
	return nil
}

// Respond implements [port.Port]: it is the end of the handler.
func (t *Task) Respond(frame []byte, failed *mcp.Error) {
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

// Drop implements [port.Port].
func (t *Task) Drop() { t.outcome.Complete(watch.Ending{}, watch.ErrTaskCancelled) }

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

// Mark adds to the params of a question, or of a notification, that it belongs to the task (TASK-11).
func (t *Task) Mark(params json.RawMessage) json.RawMessage {
	marked, err := mcp.WithRelatedTask(params, t.ID())
	if err != nil { // never: the params are an object
		return params
	}
	return marked
}

// changed is called at each change, also in a Receive.
func (t *Task) changed(w *watch.ServedTask) {
	status, end, failed, over := w.Outcome()
	t.store.opts.Go("task "+w.ID(), func() {
		if over {
			if !t.taken.Swap(true) { // it was over before it began
				t.handler.Finish(watch.ErrTaskCancelled)
			}
			t.RecordEnd(status, end, failed)
			t.mu.Lock()
			t.held = nil
			t.mu.Unlock()
		}
		t.tell()
	})
}

// tell notifies the client of the status, if the client can receive it: a legacy client
// with notifications/tasks/status (TASK-14), streams with notifications/tasks (XTASK-14). A late
// notification has the newest status.
func (t *Task) tell() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.store.opts.Notices.TaskWatched(t.ID()) {
		if raw, err := mcp.Marshal(t.Extension()); err == nil {
			t.store.opts.Notices.Task(t.ID(), raw)
		}
	}
	now := t.Core()
	if t.from == nil || now.Status == t.told.Status && now.StatusMessage == t.told.StatusMessage || t.told.Terminal() {
		return
	}
	if !t.from.Over() && (t.told.Status != "" || now.Status != mcp.TaskWorking) {
		if raw, err := mcp.Marshal(&now); err == nil {
			t.from.Notify(mcp.AppendNotification(nil, mcp.NotificationTaskStatus, raw))
		}
	}
	t.told = now
}

// CancelFor cancels the task for a client of a revision. In 2026-07-28 the result does not say how the task is, and
// there is one also if it has ended (XTASK-13); in 2025-11-25 that is an
// error, and the result is the task as cancelled (TASK-12).
func (t *Task) CancelFor(v mcp.Version) (result any, err error) {
	t.store.opts.Served.Logger.Info("a task is cancelled", "task", t.ID(), "principal", t.Owner) // TASK-21
	first := t.Cancel()
	if v.Era() == mcp.EraModern {
		return &mcp.EmptyResult{}, nil
	}
	now := t.Core()
	if !first {
		return nil, ErrEnded(now.Status)
	}
	return &now, nil
}

// ErrEnded is the error for a core task that has ended and cannot be cancelled.
func ErrEnded(status string) error {
	return mcp.Errorf(mcp.CodeInvalidParams, "the task has ended already: %s", status)
}
