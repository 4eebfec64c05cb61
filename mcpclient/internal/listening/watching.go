package listening

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/actors/watch"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/lists"
)

// Options are what a client that watches brings along. All are needed.
type Options struct {
	Conn   *conn.Conn
	Cache  *lists.Cache
	Do     func(context.Context, *call.Request) (call.Result, error)
	Log    *slog.Logger
	Closed error // for what is asked after the end
	// Answer answers what a task asks for; Cancels reports whether the server cancels tasks.
	Answer  func(context.Context, *watch.Task, mcp.InputRequests) (mcp.InputResponses, error)
	Cancels func() bool
	Told    func() bool // the server is told of the tasks that are carried out for it
	Go      func(func())
	// NotAccepted makes the error of a resource that is not announced, Failed names the server.
	NotAccepted func(uri string) error
	Failed      func(error) error
}

// Watching is what a client watches at its server, and the tasks that it serves itself.
type Watching struct {
	Options
	Tasks         *watch.Tasks
	Served        *watch.Served
	Subscriptions *watch.Subscriptions
	Keeper        *Keeper
}

// New watches nothing yet.
func New(o Options) *Watching {
	w := &Watching{Options: o}
	w.Tasks = watch.NewTasks(watch.Options{Do: o.Do, Spawn: o.Conn.SpawnChild, Logger: o.Log, Answer: o.Answer, Cancels: o.Cancels})
	w.Served = watch.NewServed(watch.ServedOptions{Spawn: o.Conn.SpawnChild, OnStatus: w.servedChanged, Logger: o.Log})
	w.Subscriptions = watch.NewSubscriptions(watch.Options{
		Do: o.Do, Spawn: o.Conn.SpawnChild, Logger: o.Log,
		Live:      func() bool { return o.Conn.Status().State == conn.Ready },
		Permanent: func(err error) bool { return errors.Is(err, conn.ErrPermanent) },
	})
	w.Keeper = &Keeper{watching: w}
	return w
}

// servedChanged tells the server that one of its tasks has changed (TASK-14), if it
// is there to hear it.
func (w *Watching) servedChanged(served *watch.ServedTask) {
	t := served.Core()
	if !w.Told() {
		return
	}
	w.Go(func() {
		raw, err := mcp.Marshal(&t)
		if err == nil {
			err = w.Conn.Notify(mcp.NotificationTaskStatus, raw)
		}
		if err != nil {
			w.Log.Debug("the server was not told of its task", "error", err)
		}
	})
}

// WatchNoticed lets waiter wait for a task, of which the server is to announce the changes.
func (w *Watching) WatchNoticed(g watch.Generation, id string, seed *watch.State, tag any, waiter *watch.Waiter) (leave func(), err error) {
	resume, over := waiter.Resume, sync.OnceFunc(func() { w.Keeper.RemoveTask(id) })
	waiter.Resume = func(out call.Outcome) { over(); resume(out) }
	w.Keeper.AddTask(id)
	_, leave, err = w.Tasks.Watch(g, id, seed, tag, waiter)
	if err != nil {
		over()
		return nil, err
	}
	return func() { over(); leave() }, nil
}

// Close ends what would keep the connection from draining.
func (w *Watching) Close() {
	w.Keeper.Close()
	w.Subscriptions.Close(w.Closed)
}

// Connected is called at each new session.
func (w *Watching) Connected(era mcp.Era) {
	if era == mcp.EraLegacy {
		w.Subscriptions.Connected() // STDIO-24
	}
	w.Keeper.Connected()
}

// Noticed takes a notification of a modern server that belongs to a subscription, and reports
// whether it is such a one.
func (w *Watching) Noticed(s *conn.Session, m *mcp.Message, related mcp.ID) bool {
	return w.Subscriptions.Notify(watch.Peer{Generation: s.Generation(), Out: s.Out, Failed: s.Failed, Related: related}, m)
}

// TaskNoticed takes notifications/tasks/status (TASK-14).
func (w *Watching) TaskNoticed(m *mcp.Message) {
	var p mcp.Task
	if err := m.DecodeParams(&p); err != nil {
		w.Log.Debug("dropping a malformed notice", "method", m.Method, "error", err)
		return
	}
	w.Tasks.Noticed(watch.StateOf(&p))
}

// TaskOf finds the tool call that a task of the server belongs to: its tag, and what
// keeps its clocks still while a person is asked on the task's behalf (TASK-11).
func (w *Watching) TaskOf(id string) (tag any, hold func() (release func()), ok bool) {
	if id == "" {
		return nil, nil, false
	}
	t := w.Tasks.Find(id)
	if t == nil {
		return nil, nil, false
	}
	return t.Tag(), t.Hold, true
}

// Changed acts on what a subscription reports, before the user is notified: what is
// kept of the server is stale (CACHE-06).
func (w *Watching) Changed(n *watch.Notice) {
	switch n.Kind {
	case watch.Acknowledged:
		for _, id := range n.Accepted.TaskIDs {
			w.Tasks.Announced(id, true)
		}
	case watch.ToolsChanged:
		w.Cache.Changed(mcp.NotificationToolsChanged, "")
	case watch.PromptsChanged:
		w.Cache.Changed(mcp.NotificationPromptsChanged, "")
	case watch.ResourcesChanged:
		w.Cache.Changed(mcp.NotificationResourcesChanged, "")
	case watch.ResourceUpdated:
		w.Cache.Changed(mcp.NotificationResourceUpdated, n.URI)
	case watch.TaskChanged:
		w.Tasks.Noticed(*n.Task)
	case watch.Ended:
		for _, id := range w.Tasks.IDs(watch.Extension) {
			w.Tasks.Announced(id, false)
		}
	case watch.Missed: // SUB-09
		for _, id := range w.Tasks.IDs(watch.Extension) {
			if t := w.Tasks.Find(id); t != nil {
				t.Poke()
			}
		}
		for _, method := range []string{mcp.NotificationToolsChanged, mcp.NotificationPromptsChanged, mcp.NotificationResourcesChanged} {
			w.Cache.Changed(method, "")
		}
	}
}

// Created reads the answer to a tools/call that says that there is a task now. Augmented says
// that the call has asked for one of 2025-11-25.
func Created(r call.Result, augmented bool) (s watch.State, meta mcp.Meta, g watch.Generation, ok bool, err error) {
	decode := func(into interface{ Validate() error }) error {
		err := jsonx.Unmarshal(r.Raw, into)
		if err == nil {
			err = into.Validate()
		}
		if err != nil {
			return &call.ResponseError{Method: mcp.MethodCallTool, Err: err}
		}
		return nil
	}
	switch {
	case r.Type == mcp.ResultTask: // XTASK-02
		e := new(mcp.ExtensionTask)
		if err := decode(e); err != nil {
			return s, nil, g, true, err
		}
		return watch.StateOf(e), e.Meta, watch.Extension, true, nil
	case augmented:
		var shape struct {
			Task    json.RawMessage `json:"task"`
			Content json.RawMessage `json:"content"`
		}
		if jsonx.Unmarshal(r.Raw, &shape) != nil || shape.Task == nil || shape.Content != nil {
			return s, nil, g, false, nil // the server has no tasks, and answers as ever (TASK-02)
		}
		e := new(mcp.CreateTaskResult)
		if err := decode(e); err != nil {
			return s, nil, g, true, err
		}
		return watch.StateOf(&e.Task), e.Meta, watch.Core, true, nil
	}
	return s, nil, g, false, nil
}
