package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
)

// ServedTask is one task of a [Served], in both designs of the protocol at once: what
// was begun in the one can be read in the other. Its methods may be used from any
// goroutine.
type ServedTask struct {
	table   *Served
	tag     any
	n       uint64   // in the order of creation
	created mcp.Task // as it was first
	expires time.Time
	over    context.Context // ends when it is terminal
	end     context.CancelFunc

	// Under the table's lock.
	ref     actors.Ref
	work    Work // without anything once it has ended
	bytes   int64
	gone    bool // its actor has ended, and Lasting keeps it
	status  string
	message string
	updated string
	ending  Ending
	err     *mcp.Error
	asking  int                // questions on their way in requests of our own
	inputs  map[string]*waiter // questions of the extension, open, by their key
	used    map[string]struct{}
}

// ID returns the task's id.
func (w *ServedTask) ID() string { return w.created.TaskID }

// Tag returns the [Work].Tag.
func (w *ServedTask) Tag() any { return w.tag }

// Created returns the task as it was first: working, whatever has become of it by the
// time it is sent.
func (w *ServedTask) Created() mcp.Task { return w.created }

// Expires returns when the task is forgotten.
func (w *ServedTask) Expires() time.Time { return w.expires }

// Over returns a context that ends when the task is terminal.
func (w *ServedTask) Over() context.Context { return w.over }

// Core returns the task as 2025-11-25 has it.
func (w *ServedTask) Core() mcp.Task {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	return w.core()
}

// core is called under the lock, as all below it that are not exported.
func (w *ServedTask) core() mcp.Task {
	t := w.created
	t.Status, t.StatusMessage, t.LastUpdatedAt = w.status, w.message, w.updated
	switch {
	case w.status == mcp.TaskCompleted && w.ending.Failed: // TASK-07
		t.Status = mcp.TaskFailed
	case w.status == mcp.TaskWorking && w.asking > 0: // TASK-10
		t.Status = mcp.TaskInputRequired
	}
	return t
}

// Extension returns the task as the extension has it, with what belongs to its
// status.
func (w *ServedTask) Extension() *mcp.ExtensionTask {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	c := &w.created
	t := &mcp.ExtensionTask{
		TaskID: c.TaskID, Status: w.status, StatusMessage: w.message,
		CreatedAt: c.CreatedAt, LastUpdatedAt: w.updated, TTLMs: c.TTL, PollIntervalMs: c.PollInterval,
	}
	switch {
	case w.status == mcp.TaskCompleted:
		t.Result = w.ending.Result
	case w.status == mcp.TaskFailed: // XTASK-08
		t.Error = w.err
	case w.status == mcp.TaskWorking && len(w.inputs) > 0:
		t.Status, t.InputRequests = mcp.TaskInputRequired, make(mcp.InputRequests, len(w.inputs))
		for key, in := range w.inputs {
			t.InputRequests[key] = in.requests[in.keys[key]]
		}
	}
	return t
}

// Result returns what the request of a task that has ended would have been answered
// with, marked as the task's.
func (w *ServedTask) Result() (json.RawMessage, error) {
	w.table.mu.Lock()
	result, failed := w.ending.Result, w.err
	w.table.mu.Unlock()
	if failed != nil {
		return nil, failed
	}
	return mcp.WithRelatedTask(result, w.ID())
}

// Outcome returns what the task has ended with, false if it has not.
func (w *ServedTask) Outcome() (status string, end Ending, err *mcp.Error, ok bool) {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	return w.status, w.ending, w.err, w.terminal()
}

func (w *ServedTask) terminal() bool { return w.status != mcp.TaskWorking }

// Cancel ends the task, and its work; false if it had ended already.
func (w *ServedTask) Cancel() bool {
	if !w.finish(mcp.TaskCancelled, Ending{Message: "cancelled by the requester"}, mcp.Errorf(mcp.CodeInvalidRequest, "the task was cancelled")) {
		return false
	}
	w.table.mu.Lock()
	ref := w.ref
	w.table.mu.Unlock()
	ref.Send(workCancelled{})
	return true
}

// finish makes a task terminal, once: final is final (TASK-06). What it ends with
// counts against the limit; if there is no room for it, the task has failed.
func (w *ServedTask) finish(status string, end Ending, err *mcp.Error) bool {
	s := w.table
	s.mu.Lock()
	if w.terminal() {
		s.mu.Unlock()
		return false
	}
	keeps := int64(len(end.Result))
	if err != nil {
		keeps = int64(len(err.Message) + len(err.Data))
	}
	if s.bytes-w.bytes+keeps > s.opts.MaxBytes {
		err = mcp.Errorf(mcp.CodeInternal, "there is no room for the result of the task")
		status, end, keeps = mcp.TaskFailed, Ending{Message: err.Message}, 0
	}
	s.bytes += keeps - w.bytes
	w.bytes = keeps
	w.status, w.message, w.updated = status, end.Message, stamp(time.Now())
	w.ending, w.err = end, err
	w.work, w.inputs, w.used = Work{}, nil, nil
	s.mu.Unlock()
	w.end()
	s.opts.Logger.Debug("a task of the peer has ended", "task", w.ID(), "status", status) // TASK-21
	w.changed()
	return true
}

func (w *ServedTask) changed() {
	if w.table.opts.OnStatus != nil {
		w.table.opts.OnStatus(w)
	}
}

// stopped answers for the actor when it is gone: those who wait for a result get an
// error.
func (w *ServedTask) stopped(error) {
	w.finish(mcp.TaskFailed, Ending{Message: "internal error"}, mcp.Errorf(mcp.CodeInternal, "internal error"))
	s := w.table
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.gone = true; !s.opts.Lasting || !time.Now().Before(w.expires) {
		s.drop(w)
	}
}

// worker is the actor of a served task.
//
//	working ── done, failed ──▶ ended ── its time is over ──▶ (stopped)
//	   │ cancelled by the peer    ▲
//	   └──────────────────────────┘
type worker struct {
	served *ServedTask
	ttl    *actors.Timer
	cancel context.CancelCauseFunc
}

// Messages.
type (
	workCancelled struct{}
	expired       struct{}
	worked        struct {
		end Ending
		err error
	}
)

// Receive implements [actors.Actor].
func (a *worker) Receive(c *actors.Context, msg any) {
	w := a.served
	switch m := msg.(type) {
	case actors.Started:
		w.table.mu.Lock()
		w.ref = c.Self()
		run := w.work.Run
		w.table.mu.Unlock()
		a.ttl = c.NewTimer(expired{})
		a.ttl.SetAt(w.expires)
		if run == nil { // it has ended before it began
			return
		}
		a.cancel = actors.Await(c, func(ctx context.Context) (Ending, error) { return run(ctx, w) },
			func(end Ending, err error) any { return &worked{end, err} })
	case *worked:
		a.worked(m)
	case workCancelled:
		a.stopWork(ErrTaskCancelled)
	case expired: // TASK-15
		a.stopWork(ErrTaskExpired)
		w.finish(mcp.TaskFailed, Ending{Message: ErrTaskExpired.Error()}, mcp.Errorf(mcp.CodeInvalidParams, "%v", ErrTaskExpired))
		c.Stop()
	}
}

func (a *worker) stopWork(cause error) {
	if a.cancel != nil {
		a.cancel(cause)
	}
}

func (a *worker) worked(m *worked) {
	w := a.served
	if m.err == nil {
		w.finish(mcp.TaskCompleted, m.end, nil)
		return
	}
	e := mcp.ErrorOf(m.err)
	if p, ok := errors.AsType[*actors.PanicError](m.err); ok {
		w.table.opts.Logger.Error("the work of a task panicked", "error", p, "stack", string(p.Stack))
	}
	w.finish(mcp.TaskFailed, Ending{Message: e.Message}, e) // TASK-07
}

// waiter is one round of questions of the extension.
type waiter struct {
	requests mcp.InputRequests
	keys     map[string]string // from the key that the peer sees to the asker's
	left     int
	answers  mcp.InputResponses
	done     chan struct{}
}

// maxQuestions bounds the questions of one task.
const maxQuestions = 1000

// Ask puts questions to the peer of the extension, who sees them when it asks for the
// task, and waits for all answers. They come under the keys of the questions; the
// peer sees others where a key was used before, as each stands for one question for
// ever. The error is that the context or the task has ended.
func (w *ServedTask) Ask(ctx context.Context, requests mcp.InputRequests) (mcp.InputResponses, error) {
	if len(requests) == 0 {
		return mcp.InputResponses{}, nil
	}
	in := &waiter{
		requests: requests, keys: make(map[string]string, len(requests)), left: len(requests),
		answers: make(mcp.InputResponses, len(requests)), done: make(chan struct{}),
	}
	if err := w.open(in); err != nil {
		return nil, err
	}
	w.changed()
	select {
	case <-in.done:
		return in.answers, nil
	case <-ctx.Done():
		w.withdraw(in)
		return nil, context.Cause(ctx)
	case <-w.over.Done():
		return nil, ErrTaskCancelled
	}
}

// open lists the questions.
func (w *ServedTask) open(in *waiter) error {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	switch {
	case w.terminal():
		return ErrTaskCancelled
	case len(w.used)+in.left > maxQuestions:
		return fmt.Errorf("asking: more than %d questions in one task", maxQuestions)
	case w.used == nil:
		w.used, w.inputs = make(map[string]struct{}), make(map[string]*waiter)
	}
	for key := range in.requests {
		seen := key
		for n := 2; ; n++ {
			if _, taken := w.used[seen]; !taken {
				break
			}
			seen = fmt.Sprintf("%s-%d", key, n)
		}
		w.used[seen], w.inputs[seen], in.keys[seen] = struct{}{}, in, key
	}
	w.updated = stamp(time.Now())
	return nil
}

// withdraw takes the questions back that are open.
func (w *ServedTask) withdraw(in *waiter) {
	w.table.mu.Lock()
	for seen := range in.keys {
		delete(w.inputs, seen)
	}
	w.updated = stamp(time.Now())
	w.table.mu.Unlock()
	w.changed()
}

// Answer takes what the peer answers. Keys that are unknown, or were answered before,
// are ignored; the others may come later. The change is reported before the work goes
// on, whose next question would change the task again.
func (w *ServedTask) Answer(responses mcp.InputResponses) {
	w.table.mu.Lock()
	met := false
	var complete []*waiter
	for seen, answer := range responses {
		in := w.inputs[seen]
		if in == nil {
			continue
		}
		met = true
		delete(w.inputs, seen)
		in.answers[in.keys[seen]] = answer
		if in.left--; in.left == 0 {
			complete = append(complete, in)
		}
	}
	if met {
		w.updated = stamp(time.Now())
	}
	w.table.mu.Unlock()
	if met {
		w.changed()
	}
	for _, in := range complete {
		close(in.done)
	}
}

// Asking says that a question to the peer is on its way in a request of our own: the
// core task waits for input until answered is called, once.
func (w *ServedTask) Asking() (answered func()) {
	w.ask(1)
	return func() { w.ask(-1) }
}

func (w *ServedTask) ask(n int) {
	w.table.mu.Lock()
	before := w.core().Status
	w.asking += n
	differs := w.core().Status != before
	if differs {
		w.updated = stamp(time.Now())
	}
	w.table.mu.Unlock()
	if differs {
		w.changed()
	}
}

// Actor returns the task's actor; the zero Ref before it has begun.
func (w *ServedTask) Actor() actors.Ref {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	return w.ref
}
