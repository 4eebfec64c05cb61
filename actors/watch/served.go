package watch

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// ServedOptions says how tasks of a peer are served. Spawn is required.
type ServedOptions struct {
	// Spawn starts an actor below the connection's, as [conn.Conn.SpawnThen] does.
	Spawn func(spec actors.Spec, then func(actors.Ref, error))
	// Working bounds the tasks that are worked on at once, Limit all that are kept
	// (TASK-21). Zero means 16 and 128.
	Working, Limit int
	// TTL is how long a task is kept that does not say, MaxTTL how long at most,
	// from its creation (TASK-15, TASK-21). Zero means 30 min and 2 h.
	TTL, MaxTTL time.Duration
	// Poll is how often the peer is told to ask. Zero means 1 s.
	Poll time.Duration
	// OnStatus hears of each change of a task. It must not block. Nil is nobody.
	OnStatus func(mcp.Task)
	// Logger takes structured logs. Nil discards them.
	Logger *slog.Logger
}

func (o ServedOptions) withDefaults() ServedOptions {
	o.Working = cmp.Or(o.Working, 16)
	o.Limit = cmp.Or(o.Limit, 128)
	o.TTL = cmp.Or(o.TTL, 30*time.Minute)
	o.MaxTTL = cmp.Or(o.MaxTTL, 2*time.Hour)
	o.Poll = cmp.Or(o.Poll, time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Served are the tasks that one peer has given to us (TASK-03). They are bound to
// that peer, as each has a table of its own (TASK-17). Its methods may be used from
// any goroutine, those that take a context not from a Receive. Their errors are
// wire errors.
type Served struct {
	opts ServedOptions

	mu    sync.Mutex
	byID  map[string]*served
	order []*served // the oldest first
	last  uint64
}

// NewServed returns a table without tasks.
func NewServed(opts ServedOptions) *Served {
	return &Served{opts: opts.withDefaults(), byID: make(map[string]*served)}
}

// served is one task. Its fields are guarded by the table's lock, but for those
// that do not change.
type served struct {
	table *Served
	n     uint64 // in the order of creation
	task  mcp.Task
	ref   actors.Ref
	work  func(context.Context) (json.RawMessage, error)

	result json.RawMessage
	err    *mcp.Error
	done   chan struct{} // closed once terminal
}

// errTaskCancelled is the cause of the context of work that the peer has cancelled.
var errTaskCancelled = errors.New("the peer has cancelled the task")

// errTaskExpired is the cause of the context of work that took longer than its task
// is kept.
var errTaskExpired = errors.New("the time of the task is over")

// Create makes a task of work and begins it. The work must heed its context; it may
// go on after the request that it came with. A nil ttl leaves it to us.
func (s *Served) Create(ctx context.Context, ttl *int64, work func(context.Context) (json.RawMessage, error)) (mcp.Task, error) {
	w, err := s.enter(ttl, work)
	if err != nil {
		return mcp.Task{}, err
	}
	first := w.task // working, whatever becomes of it by the time it is sent (TASK-06)
	var started actors.Reply[actors.Ref]
	spec := actors.Spec{Kind: actors.KindTask, New: func() actors.Actor { return &worker{served: w} }, OnStop: w.stopped}
	s.opts.Spawn(spec, func(ref actors.Ref, err error) { started.Complete(ref, err) })
	if _, err = started.Wait(ctx); err != nil {
		s.remove(w)
		s.opts.Logger.Warn("a task of the server could not be started", "error", err)
		return mcp.Task{}, mcp.Errorf(mcp.CodeInternal, "the task could not be started")
	}
	return first, nil
}

// enter makes the entry of a task, within the limits.
func (s *Served) enter(ttl *int64, work func(context.Context) (json.RawMessage, error)) (*served, error) {
	keep := s.opts.TTL
	if ttl != nil {
		keep = min(max(millis(ttl, 0), time.Second), s.opts.MaxTTL)
	}
	now := time.Now().UTC().Format(time.RFC3339Nano)
	actual, poll := keep.Milliseconds(), s.opts.Poll.Milliseconds()
	w := &served{table: s, work: work, done: make(chan struct{}), task: mcp.Task{
		TaskID: rand.Text(), // 130 bits: not to be guessed (TASK-17)
		Status: mcp.TaskWorking, CreatedAt: now, LastUpdatedAt: now, TTL: &actual, PollInterval: &poll,
	}}
	s.mu.Lock()
	defer s.mu.Unlock()
	working := 0
	for _, o := range s.order {
		if !o.task.Terminal() {
			working++
		}
	}
	if working >= s.opts.Working || len(s.order) >= s.opts.Limit && !s.dropCancelled() {
		return nil, mcp.Errorf(mcp.CodeInternal, "too many tasks")
	}
	s.last++
	w.n = s.last
	s.byID[w.task.TaskID] = w
	s.order = append(s.order, w)
	return w, nil
}

// dropCancelled makes room: a cancelled task may go at any time (TASK-12). It is
// called under the lock.
func (s *Served) dropCancelled() bool {
	for i, w := range s.order {
		if w.task.Status == mcp.TaskCancelled {
			delete(s.byID, w.task.TaskID)
			s.order = slices.Delete(s.order, i, i+1)
			w.ref.Stop()
			return true
		}
	}
	return false
}

func (s *Served) remove(w *served) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID[w.task.TaskID] == w {
		delete(s.byID, w.task.TaskID)
		s.order = slices.DeleteFunc(s.order, func(o *served) bool { return o == w })
	}
}

func (s *Served) snapshot(w *served) mcp.Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.task
}

// unknownTask is what an id gets that is not, or not any more, one of the peer's
// tasks (TASK-16).
func unknownTask() error { return mcp.Errorf(mcp.CodeInvalidParams, "no such task") }

func (s *Served) find(id string) (*served, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.byID[id]; w != nil {
		return w, nil
	}
	return nil, unknownTask()
}

// Get returns a task (TASK-08).
func (s *Served) Get(id string) (mcp.Task, error) {
	w, err := s.find(id)
	if err != nil {
		return mcp.Task{}, err
	}
	return s.snapshot(w), nil
}

// Result waits for the task's end and returns what its request would have been
// answered with, marked as the task's (TASK-09, TASK-11).
func (s *Served) Result(ctx context.Context, id string) (json.RawMessage, error) {
	w, err := s.find(id)
	if err != nil {
		return nil, err
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	result, failed := w.result, w.err
	s.mu.Unlock()
	if failed != nil {
		return nil, failed
	}
	return markTask(result, id)
}

// markTask puts the task's id into the _meta of a result (TASK-11).
func markTask(result json.RawMessage, id string) (json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if len(result) > 0 {
		if err := jsonx.Unmarshal(result, &members); err != nil {
			return nil, mcp.Errorf(mcp.CodeInternal, "internal error")
		}
	}
	meta := mcp.Meta{}
	if raw, ok := members["_meta"]; ok {
		if err := jsonx.Unmarshal(raw, &meta); err != nil || meta == nil {
			meta = mcp.Meta{}
		}
	}
	if err := meta.Set(mcp.MetaRelatedTask, mcp.RelatedTask{TaskID: id}); err != nil {
		return nil, err
	}
	raw, err := jsonx.Marshal(meta)
	if err != nil {
		return nil, err
	}
	members["_meta"] = raw
	return jsonx.Marshal(members)
}

// servedPage is how many tasks a page of the list has.
const servedPage = 50

// List returns a page of the tasks, the oldest first (TASK-13). Cursors are the
// numbers of tasks, so that a page does not shift when one before it goes.
func (s *Served) List(cursor *string) (*mcp.ListTasksResult, error) {
	after := uint64(0)
	if cursor != nil {
		var err error
		if after, err = strconv.ParseUint(*cursor, 36, 64); err != nil {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "no such cursor") // TASK-16
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &mcp.ListTasksResult{Tasks: []mcp.Task{}}
	var last uint64
	for _, w := range s.order {
		if w.n <= after {
			continue
		}
		if len(out.Tasks) == servedPage {
			next := strconv.FormatUint(last, 36)
			out.NextCursor = &next
			break
		}
		out.Tasks = append(out.Tasks, w.task)
		last = w.n
	}
	return out, nil
}

// Cancel ends a task that has not ended; another is -32602 (TASK-12).
func (s *Served) Cancel(id string) (mcp.Task, error) {
	w, err := s.find(id)
	if err != nil {
		return mcp.Task{}, err
	}
	if !w.finish(mcp.TaskCancelled, nil, mcp.Errorf(mcp.CodeInvalidRequest, "the task was cancelled"), "cancelled by the requester") {
		return mcp.Task{}, mcp.Errorf(mcp.CodeInvalidParams, "the task has ended already: %s", s.snapshot(w).Status)
	}
	s.mu.Lock()
	ref := w.ref
	s.mu.Unlock()
	ref.Send(workCancelled{})
	return s.snapshot(w), nil
}

// Len returns how many tasks are kept, and how many of them are worked on.
func (s *Served) Len() (kept, working int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.order {
		if !w.task.Terminal() {
			working++
		}
	}
	return len(s.order), working
}

// finish makes a task terminal, once: final is final (TASK-06).
func (w *served) finish(status string, result json.RawMessage, err *mcp.Error, message string) bool {
	s := w.table
	s.mu.Lock()
	if w.task.Terminal() {
		s.mu.Unlock()
		return false
	}
	w.task.Status, w.task.StatusMessage = status, message
	w.task.LastUpdatedAt = time.Now().UTC().Format(time.RFC3339Nano)
	w.result, w.err = result, err
	close(w.done)
	now := w.task
	s.mu.Unlock()
	s.opts.Logger.Debug("a task of the server has ended", "task", now.TaskID, "status", status) // TASK-21
	if s.opts.OnStatus != nil {
		s.opts.OnStatus(now)
	}
	return true
}

// stopped answers for the actor when it is gone: those who wait for a result get an
// error, and nothing is kept.
func (w *served) stopped(error) {
	w.finish(mcp.TaskFailed, nil, mcp.Errorf(mcp.CodeInternal, "internal error"), "internal error")
	w.table.remove(w)
}

// worker is the actor of a served task.
//
//	working ── done, failed ──▶ ended ── its time is over ──▶ (stopped)
//	   │ cancelled by the peer    ▲
//	   └──────────────────────────┘
type worker struct {
	served *served
	ttl    *actors.Timer
	cancel context.CancelCauseFunc
}

// Messages.
type (
	workCancelled struct{}
	expired       struct{}
	worked        struct {
		result json.RawMessage
		err    error
	}
)

// Receive implements [actors.Actor].
func (a *worker) Receive(c *actors.Context, msg any) {
	w := a.served
	switch m := msg.(type) {
	case actors.Started:
		w.table.mu.Lock()
		w.ref = c.Self()
		ttl := time.Duration(*w.task.TTL) * time.Millisecond
		w.table.mu.Unlock()
		a.ttl = c.NewTimer(expired{})
		a.ttl.Set(ttl)
		a.cancel = actors.Await(c, w.work, func(r json.RawMessage, err error) any { return &worked{r, err} })
	case *worked:
		a.worked(m)
	case workCancelled:
		a.cancel(errTaskCancelled)
	case expired: // TASK-15
		a.cancel(errTaskExpired)
		w.finish(mcp.TaskFailed, nil, mcp.Errorf(mcp.CodeInvalidParams, "the time of the task is over"), "the time of the task is over")
		c.Stop()
	}
}

func (a *worker) worked(m *worked) {
	w := a.served
	if m.err == nil {
		w.finish(mcp.TaskCompleted, m.result, nil, "")
		return
	}
	e := mcp.ErrorOf(m.err)
	if p, ok := errors.AsType[*actors.PanicError](m.err); ok {
		w.table.opts.Logger.Error("the work of a task panicked", "error", p, "stack", string(p.Stack))
	}
	w.finish(mcp.TaskFailed, nil, e, e.Message) // TASK-07
}
