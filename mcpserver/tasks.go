// tasks.go: the tasks that clients have given to a server, in both designs of the
// protocol: the core tasks of 2025-11-25 (tasklegacy.go), where the client asks for
// one, and the extension of 2026-07-28 (taskmodern.go), where the server decides.
// They are the same tasks: what was begun in one is read and cancelled in the other
// (XTASK-22). taskrun.go has what one of them does.

package mcpserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors/watch"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// TaskOptions changes how tool calls become tasks; nil is the same as the zero value.
// Which tools may is said by their definition: [mcp.ToolExecution].TaskSupport, where
// [mcp.TaskOptional] is a task if the client wants or takes one, [mcp.TaskRequired]
// refuses clients without tasks, and the default is never. A client of a revision
// that has no tasks at all gets an ordinary call in each case.
//
// The limits are for one principal. Requests without one share theirs: nothing tells them
// apart but the ids of tasks, which cannot be guessed.
type TaskOptions struct {
	// Working bounds the tasks that are worked on at once, Limit all that are kept.
	// Zero means 16 and 128 for a principal, 64 and 512 without one.
	Working, Limit int
	// MaxBytes bounds what tasks keep, in bytes: of results, and of arguments three times
	// as much as they are long, for they are decoded. Zero means 32 MiB.
	MaxBytes int64
	// TTL is how long a task is kept from its creation if the client does not say, MaxTTL
	// how long at most. Work that has not ended by then is given up.
	// Zero means 30 min and 2 h, without a principal 5 min and 30 min.
	TTL, MaxTTL time.Duration
	// Poll is how often clients are told to ask. Zero means 1 s.
	Poll time.Duration
	// Tools has what is particular to some tools, by their names.
	Tools map[string]TaskPolicy
}

// TaskPolicy says how calls of one tool become tasks.
type TaskPolicy struct {
	// ByHandler leaves it to the handler when a call of 2026-07-28 becomes a task: with
	// [ToolRequest.BeginTask]. What it asks before is asked in rounds of the call,
	// and a call for which it does not say so is answered as any other.
	// False means at once.
	ByHandler bool
	// TTL is how long these tasks are kept if the client does not say. Zero is
	// [TaskOptions].TTL.
	TTL time.Duration
	// Immediate is for the model of a 2025-11-25 client to go on with meanwhile; it may
	// be empty.
	Immediate string
}

// maxRequesters bounds the principals that have tasks at the same time.
const maxRequesters = 10_000

// tasks are those of a server.
type tasks struct {
	server   *Server
	opts     TaskOptions
	declared atomic.Bool // there are, or were, tools that may be tasks
	byID     sync.Map    // of *task

	// Where the records outlive the process.
	durable  bool
	instance string // names this process in them

	mu        sync.Mutex               // guards what follows, which requests of all sessions look into
	of        map[string]*watch.Served // by the id of the principal
	heartbeat *time.Timer              // runs while there is work; nil while there is none
	lastBeat  time.Time                // when the records last had that the process is alive
}

func newTasks(s *Server, durable bool) *tasks {
	ts := &tasks{server: s, durable: durable, instance: rand.Text(), of: make(map[string]*watch.Served)}
	if s.opts.Tasks != nil {
		ts.opts = *s.opts.Tasks
		ts.declared.Store(true)
	}
	return ts
}

// hasTasks reports whether the server has tasks at all (TASK-01, TASK-20).
func (s *Server) hasTasks() bool { return s.tasks.declared.Load() }

// declareTasks adds what revision v hears of tasks. Without a principal there is no list
// (TASK-17), and a legacy capability is not shown to modern clients (XTASK-19).
func (s *Server) declareTasks(caps *mcp.ServerCapabilities, v mcp.Version, p *Principal) {
	switch {
	case !s.hasTasks():
	case v.Has(mcp.FeatureCoreTasks):
		caps.Tasks = &mcp.TasksCapability{Cancel: mcp.Present, Requests: &mcp.TaskRequests{Tools: &mcp.TaskToolRequests{Call: mcp.Present}}}
		if ownerOf(p) != "" {
			caps.Tasks.List = mcp.Present
		}
	case v.Era() == mcp.EraModern:
		caps.Extensions = withExtension(caps.Extensions, mcp.ExtensionTasks)
	}
}

// ownerOf names the principal that a task belongs to; "" is none.
func ownerOf(p *Principal) string {
	if p == nil {
		return ""
	}
	return p.ID
}

// table returns the tasks of one requester.
func (ts *tasks) table(owner string) (*watch.Served, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.of[owner]; t != nil {
		return t, nil
	}
	if len(ts.of) >= maxRequesters {
		for id, t := range ts.of {
			if kept, _ := t.Len(); kept == 0 {
				delete(ts.of, id)
			}
		}
	}
	if len(ts.of) >= maxRequesters {
		return nil, mcp.Errorf(mcp.CodeInternal, "too many tasks")
	}
	o := watch.ServedOptions{
		Spawn: ts.server.spawnChild, Working: ts.opts.Working, Limit: ts.opts.Limit, MaxBytes: ts.opts.MaxBytes,
		TTL: ts.opts.TTL, MaxTTL: ts.opts.MaxTTL, Poll: ts.opts.Poll, Lasting: true, Logger: ts.server.log,
		OnStatus: func(w *watch.ServedTask) { w.Tag().(*task).changed(w) },
		OnGone:   func(w *watch.ServedTask) { ts.byID.Delete(w.ID()) },
	}
	if owner == "" {
		o.Working, o.Limit = cmp.Or(o.Working, 64), cmp.Or(o.Limit, 512)
		o.TTL, o.MaxTTL = cmp.Or(o.TTL, 5*time.Minute), cmp.Or(o.MaxTTL, 30*time.Minute)
	}
	t := watch.NewServed(o)
	ts.of[owner] = t
	return t, nil
}

// errNoTask is what an id gets that is not, or not any more, one of the requester's
// tasks: whose it is makes no difference (TASK-16, TASK-17, XTASK-18).
func errNoTask() error { return mcp.Errorf(mcp.CodeInvalidParams, "no such task") }

// live finds a task of this process.
func (ts *tasks) live(owner, id string) *task {
	found, _ := ts.byID.Load(id)
	t, ok := found.(*task)
	if !ok || t.owner != owner {
		return nil
	}
	if table, err := ts.table(owner); err == nil {
		if _, err := table.Find(id); err == nil {
			return t
		}
	}
	return nil
}

// taskView is a task to look at: one of this process, or a record.
type taskView interface {
	Core() mcp.Task
	Extension() *mcp.ExtensionTask
	// Result is that of a task that has ended.
	Result() (json.RawMessage, error)
}

// recorded is a task of a process before this one, or of another.
type recorded struct {
	Task   mcp.Task   `json:"task"`
	Failed bool       `json:"failed,omitzero"` // it is complete, with a result that says that it has failed
	Error  *mcp.Error `json:"error,omitzero"`
	By     string     `json:"by"` // the process that works on it

	result json.RawMessage
}

// Core implements taskView.
func (r *recorded) Core() mcp.Task {
	t := r.Task
	if r.Failed {
		t.Status = mcp.TaskFailed
	}
	return t
}

// Extension implements taskView.
func (r *recorded) Extension() *mcp.ExtensionTask {
	t := &r.Task
	e := &mcp.ExtensionTask{
		TaskID: t.TaskID, Status: t.Status, StatusMessage: t.StatusMessage, CreatedAt: t.CreatedAt,
		LastUpdatedAt: t.LastUpdatedAt, TTLMs: t.TTL, PollIntervalMs: t.PollInterval, Error: r.Error,
	}
	switch t.Status {
	case mcp.TaskCompleted:
		e.Result = r.result
	case mcp.TaskCancelled:
		e.Error = nil
	}
	return e
}

// Result implements taskView.
func (r *recorded) Result() (json.RawMessage, error) {
	if r.Error != nil {
		return nil, r.Error
	}
	return mcp.WithRelatedTask(r.result, r.Task.TaskID)
}

// errInterrupted is what has become of a task whose process is gone.
func errInterrupted() *mcp.Error {
	return mcp.Errorf(mcp.CodeInternal, "interrupted: the server was started anew while it worked on the task")
}

// recall reads a task that this process does not know from the records. It may wait.
func (ts *tasks) recall(ctx context.Context, owner, id string) (*recorded, error) {
	if !ts.durable || store.CheckID("task", id) != nil {
		return nil, errNoTask()
	}
	kept, err := ts.server.records.Record(ctx, recordTask, owner, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, errNoTask()
	}
	if err != nil {
		return nil, err
	}
	r, err := ts.read(ctx, kept)
	if err == nil && r.Task.Status == mcp.TaskCompleted {
		var result store.Record
		result, err = ts.server.records.Record(ctx, recordResult, owner, id)
		r.result = result.Value
	}
	return r, err
}

// read reads what a record says of a task, but for its result. One whose process is
// gone has failed, for ever (TASK-06).
func (ts *tasks) read(ctx context.Context, kept store.Record) (*recorded, error) {
	r := new(recorded)
	if err := jsonx.Unmarshal(kept.Value, r); err != nil {
		return nil, err
	}
	if r.Task.Terminal() {
		return r, nil
	}
	_, err := ts.server.records.Record(ctx, recordServer, r.By, r.By)
	switch {
	case err == nil: // it works on
		return r, nil
	case !errors.Is(err, store.ErrNotFound):
		return nil, err
	}
	r.Error = errInterrupted()
	r.Task.Status, r.Task.StatusMessage = mcp.TaskFailed, r.Error.Message
	r.Task.LastUpdatedAt = time.Now().UTC().Format(time.RFC3339Nano)
	if kept.Value, err = jsonx.Marshal(r); err == nil {
		err = ts.server.records.PutRecord(ctx, kept)
	}
	return r, err
}

// A process that works on tasks writes a heartbeat each beatEvery; without one for beatFor
// it is gone.
const (
	beatEvery = 5 * time.Second
	beatFor   = 15 * time.Second
)

// alive writes a heartbeat unless there is a fresh one, before a task of the process is
// recorded.
func (ts *tasks) alive(ctx context.Context) error {
	ts.mu.Lock()
	fresh := time.Since(ts.lastBeat) < beatEvery
	if ts.heartbeat == nil {
		ts.heartbeat = time.AfterFunc(beatEvery, ts.beat)
	}
	ts.mu.Unlock()
	if fresh {
		return nil
	}
	err := ts.server.records.PutRecord(ctx, store.Record{Kind: recordServer, Owner: ts.instance, Key: ts.instance, Expires: time.Now().Add(beatFor)})
	if err == nil {
		ts.mu.Lock()
		ts.lastBeat = time.Now()
		ts.mu.Unlock()
	}
	return err
}

// beat renews the heartbeat while there is work.
func (ts *tasks) beat() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	working := 0
	for _, t := range ts.of {
		_, n := t.Len()
		working += n
	}
	if working == 0 || ts.server.closed.Load() {
		ts.heartbeat = nil
		return
	}
	ts.heartbeat.Reset(beatEvery)
	ts.lastBeat = time.Time{}
	ts.server.sys.Go("tasks", func() {
		ctx, cancel := context.WithTimeout(context.Background(), beatFor)
		defer cancel()
		if err := ts.alive(ctx); err != nil {
			ts.server.log.Error("the heartbeat of the tasks cannot be written", "error", err)
		}
	})
}

// mayWatch implements taskNews (XTASK-14).
func (ts *tasks) mayWatch(a *arrival, ids []string) (accepted []string, err error) {
	if !ts.declared.Load() {
		return nil, nil
	}
	if err := takesTasks(a.client); err != nil {
		return nil, err
	}
	for _, id := range ids {
		if ts.live(ownerOf(a.principal), id) != nil {
			accepted = append(accepted, id)
		}
	}
	return accepted, nil
}

// announce implements taskNews.
func (ts *tasks) announce(id string) {
	if t, ok := ts.byID.Load(id); ok {
		t.(*task).tell()
	}
}
