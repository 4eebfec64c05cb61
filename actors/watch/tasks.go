package watch

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// Options says how tasks are watched, and subscriptions kept. Do and Spawn are required.
type Options struct {
	// Do carries out a request, as [conn.Conn.Do] does.
	Do func(context.Context, *call.Request) (call.Result, error)
	// Spawn starts an actor below the connection's and calls then, once, as
	// [conn.Conn.SpawnChild] does.
	Spawn actors.SpawnFunc
	// Answer answers questions of a task of the extension: all the ones of a reading
	// that were not put before. Its context ends when no waiter of the task is left
	// more, or when the peer has taken the questions back. An error ends the task:
	// it cannot be answered. Nil refuses all.
	Answer func(ctx context.Context, t *Task, requests mcp.InputRequests) (mcp.InputResponses, error)
	// Cancels reports whether the peer lets tasks be cancelled. Nil means it does.
	Cancels func() bool
	// Limit bounds the tasks that are watched. Zero means 1000. Tasks without a
	// waiter are forgotten first.
	Limit int
	// Poll is how often a task is asked for that does not say: at first, doubling up
	// to ten times as much. Zero means 1 s. MinPoll and MaxPoll bound what a task
	// may wish; zero means 100 ms and 5 min.
	Poll, MinPoll, MaxPoll time.Duration
	// Quiet is how often at most a task is asked for whose changes are announced on
	// a subscription. Zero means 30 s.
	Quiet time.Duration

	// Live reports whether there is a connection: without one no resource needs to be
	// unsubscribed. Nil means always.
	Live func() bool
	// Permanent reports whether an error of Do will come again. Nil means never.
	Permanent func(error) bool
	// MinBackoff and MaxBackoff bound the pause before a stream of notices that broke is
	// opened again; the pause starts anew after one that has held for Stable. Zero means
	// 250 ms, 30 s and 5 s.
	MinBackoff, MaxBackoff, Stable time.Duration

	// Logger takes structured logs. Nil discards them.
	Logger *slog.Logger
}

func (o Options) withDefaults() *Options {
	o.Limit = cmp.Or(o.Limit, 1000)
	o.Poll = cmp.Or(o.Poll, time.Second)
	o.MinPoll = cmp.Or(o.MinPoll, 100*time.Millisecond)
	o.MaxPoll = cmp.Or(o.MaxPoll, 5*time.Minute)
	o.Quiet = cmp.Or(o.Quiet, 30*time.Second)
	o.MinBackoff = cmp.Or(o.MinBackoff, 250*time.Millisecond)
	o.MaxBackoff = cmp.Or(o.MaxBackoff, 30*time.Second)
	o.Stable = cmp.Or(o.Stable, 5*time.Second)
	if o.Live == nil {
		o.Live = func() bool { return true }
	}
	if o.Permanent == nil {
		o.Permanent = func(error) bool { return false }
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &o
}

// Tasks are the watched tasks of one connection, by their ids. Its methods may be
// used from any goroutine.
type Tasks struct {
	opts *Options

	mu   sync.Mutex
	byID map[string]*Task
}

// NewTasks returns a table without tasks.
func NewTasks(opts Options) *Tasks {
	return &Tasks{opts: opts.withDefaults(), byID: make(map[string]*Task)}
}

// Watch lets w, which may be nil, wait for the task with the id, and begins to watch
// that if it is not done yet: seed is what is known of it, nil for nothing, and tag
// whatever its questions are to be known by. It does not wait, and may be called from
// a Receive. The error is [ErrBusy].
func (ts *Tasks) Watch(g Generation, id string, seed *State, tag any, w *Waiter) (t *Task, leave func(), err error) {
	t, fresh, err := ts.entry(g, id, seed, tag)
	if err != nil {
		return nil, nil, err
	}
	leave = func() {}
	if w != nil {
		leave = t.Wait(w)
	}
	if fresh {
		spec := actors.Spec{Kind: actors.KindTask, New: func() actors.Actor { return &watcher{task: t, seed: seed} }, OnStop: t.stopped}
		ts.opts.Spawn(spec, func(_ actors.Ref, err error) {
			if err != nil {
				t.finish(call.Outcome{Err: fmt.Errorf("watching a task: %w", err)})
			}
		})
	}
	return t, leave, nil
}

// entry finds a task or makes room for it.
func (ts *Tasks) entry(g Generation, id string, seed *State, tag any) (t *Task, fresh bool, err error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.byID[id]; t != nil {
		return t, false, nil
	}
	if len(ts.byID) >= ts.opts.Limit && !ts.forgetOne() {
		return nil, false, ErrBusy
	}
	t = &Task{tasks: ts, generation: g, id: id, tag: tag, waiters: make(map[*Waiter]struct{})}
	if seed != nil {
		t.state, t.known = *seed, true
	}
	ts.byID[id] = t
	return t, true, nil
}

// forgetOne ends the watch of a task that has no waiter. It is called under
// the lock.
func (ts *Tasks) forgetOne() bool {
	for id, t := range ts.byID {
		if t.idle() && !t.Ref().IsZero() {
			delete(ts.byID, id)
			t.Ref().Stop()
			return true
		}
	}
	return false
}

// Find returns the watched task with the id, nil if there is none.
func (ts *Tasks) Find(id string) *Task {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.byID[id]
}

// IDs returns the ids of the tasks that have a waiter, of one generation.
func (ts *Tasks) IDs(g Generation) []string {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	var ids []string
	for id, t := range ts.byID {
		if t.generation == g && !t.idle() {
			ids = append(ids, id)
		}
	}
	return ids
}

// Len returns how many tasks are watched.
func (ts *Tasks) Len() int {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return len(ts.byID)
}

// Noticed passes on what a notice says of a task. A notice of a core task is only
// a hint to ask; one of the extension says the same as tasks/get.
func (ts *Tasks) Noticed(s State) {
	if t := ts.Find(s.ID); t != nil {
		t.send(&noticed{s})
	}
}

// Announced says whether the changes of a task are announced on a subscription, so
// that it need not be asked for as often.
func (ts *Tasks) Announced(id string, on bool) {
	if t := ts.Find(id); t != nil {
		t.send(&announced{on})
	}
}

func (ts *Tasks) remove(t *Task) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.byID[t.id] == t {
		delete(ts.byID, t.id)
	}
}
