// Package tasks keeps the tasks that clients have given to a server, in both designs of the
// protocol: the core tasks of 2025-11-25, where the client asks for one, and the extension of
// 2026-07-28, where the server decides. They are the same tasks: a task of one design is read and
// cancelled in the other, too (XTASK-22).
package tasks

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/watch"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// Options are what a Store needs of its server.
type Options struct {
	// Served are the bounds and the times of one principal; for anonymous clients they are lower
	// where they are zero. Spawn and Logger are required.
	Served watch.ServedOptions
	// Records keeps what outlives the process, if Durable.
	Records store.Records
	Durable bool
	// Notices has the streams that are notified of tasks.
	Notices Notices
	// Go runs f on a goroutine of the server.
	Go func(name string, f func())
	// Closed reports whether the server is closed.
	Closed func() bool
}

// Notices has the streams that are notified of tasks (XTASK-14).
type Notices interface {
	TaskWatched(id string) bool
	Task(id string, params json.RawMessage)
}

// Kinds of [store.Record] that a Store keeps.
const (
	recordTask   = "task"        // what is known of a task, under its id
	recordResult = "task-result" // its result, under its id
	recordServer = "task-server" // that the process that works on tasks is alive
)

// Store has the tasks of a server. Its methods may be used from any goroutine.
type Store struct {
	opts     Options
	byID     sync.Map // of *Task
	instance string   // names this process in the records

	mu        sync.Mutex               // guards the fields below, which requests of all sessions use for an instant, each of which would be a message to an actor
	of        map[string]*watch.Served // by the id of the principal
	heartbeat *time.Timer              // runs while there is work; nil while there is none
	lastBeat  time.Time                // when the records last got a heartbeat
}

// New returns a Store without tasks.
func New(o Options) *Store {
	return &Store{opts: o, instance: rand.Text(), of: make(map[string]*watch.Served)}
}

// maxRequesters bounds the principals that have tasks at the same time.
const maxRequesters = 10_000

// table returns the tasks of one requester.
func (ts *Store) table(owner string) (*watch.Served, error) {
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
	o := ts.opts.Served
	o.Lasting = true
	o.OnStatus = func(w *watch.ServedTask) { w.Tag().(*Task).changed(w) }
	o.OnGone = func(w *watch.ServedTask) { ts.byID.Delete(w.ID()) }
	if owner == "" {
		o.Working, o.Limit = cmp.Or(o.Working, 64), cmp.Or(o.Limit, 512)
		o.TTL, o.MaxTTL = cmp.Or(o.TTL, 5*time.Minute), cmp.Or(o.MaxTTL, 30*time.Minute)
	}
	t := watch.NewServed(o)
	ts.of[owner] = t
	return t, nil
}

// ErrNoTask is the error for an id that is not, or not any more, one of the requester's
// tasks: whose it is makes no difference (TASK-16, TASK-17, XTASK-18).
func ErrNoTask() error { return mcp.Errorf(mcp.CodeInvalidParams, "no such task") }

// Durable reports whether the records outlive the process.
func (ts *Store) Durable() bool { return ts.opts.Durable }

// Find returns a task of this process of any owner; nil for none.
func (ts *Store) Find(id string) *Task {
	found, _ := ts.byID.Load(id)
	t, _ := found.(*Task)
	return t
}

// Live returns a task of this process by its owner; nil for none.
func (ts *Store) Live(owner, id string) *Task {
	t := ts.Find(id)
	if t == nil || t.Owner != owner {
		return nil
	}
	if table, err := ts.table(owner); err == nil {
		if _, err := table.Find(id); err == nil {
			return t
		}
	}
	return nil
}

// Announce notifies the streams that watch a task of its status.
func (ts *Store) Announce(id string) {
	if t := ts.Find(id); t != nil {
		t.tell()
	}
}

// List returns a page of the tasks of this process.
func (ts *Store) List(owner string, cursor *string) (*mcp.ListTasksResult, error) {
	table, err := ts.table(owner)
	if err != nil {
		return nil, err
	}
	return table.List(cursor)
}

// CancelAll cancels all tasks of this process.
func (ts *Store) CancelAll() {
	ts.byID.Range(func(_, t any) bool { t.(*Task).Cancel(); return true })
}

// A process that works on tasks writes a heartbeat each beatEvery; without one for beatFor
// it is gone.
const (
	beatEvery = 5 * time.Second
	beatFor   = 15 * time.Second
)

// alive writes a heartbeat unless there is a fresh one, before a task of the process is
// recorded.
func (ts *Store) alive(ctx context.Context) error {
	ts.mu.Lock()
	fresh := time.Since(ts.lastBeat) < beatEvery
	if ts.heartbeat == nil {
		ts.heartbeat = time.AfterFunc(beatEvery, ts.beat)
	}
	ts.mu.Unlock()
	if fresh {
		return nil
	}
	err := ts.opts.Records.PutRecord(ctx, store.Record{Kind: recordServer, Owner: ts.instance, Key: ts.instance, Expires: time.Now().Add(beatFor)})
	if err == nil {
		ts.mu.Lock()
		ts.lastBeat = time.Now()
		ts.mu.Unlock()
	}
	return err
}

// beat renews the heartbeat while there is work.
func (ts *Store) beat() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	working := 0
	for _, t := range ts.of {
		_, n := t.Len()
		working += n
	}
	if working == 0 || ts.opts.Closed() {
		ts.heartbeat = nil
		return
	}
	ts.heartbeat.Reset(beatEvery)
	ts.lastBeat = time.Time{}
	ts.opts.Go("tasks", func() {
		ctx, cancel := context.WithTimeout(context.Background(), beatFor)
		defer cancel()
		if err := ts.alive(ctx); err != nil {
			ts.opts.Served.Logger.Error("the heartbeat of the tasks cannot be written", "error", err)
		}
	})
}
