package watch

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
)

// ServedOptions says how tasks of a peer are served. Spawn is required.
type ServedOptions struct {
	// Spawn starts an actor below the connection's, as [conn.Conn.SpawnChild] does.
	Spawn actors.SpawnFunc
	// Working bounds the tasks that are worked on at once, Limit all that are
	// kept. Zero means 16 and 128.
	Working, Limit int
	// MaxBytes bounds what all of them keep, as [Work].Bytes says, and of results. Zero
	// means 32 MiB.
	MaxBytes int64
	// TTL is how long a task is kept that does not say, MaxTTL how long at most,
	// from its creation. Zero means 30 min and 2 h.
	TTL, MaxTTL time.Duration
	// Poll is how often the peer is told to ask. Zero means 1 s.
	Poll time.Duration
	// Lasting keeps a task whose actor is gone, as a failed one, for its time. Without
	// it nothing is left of the tasks of a connection that has ended.
	Lasting bool
	// OnStatus is called at each change of a task. It must not block. Nil ignores changes.
	OnStatus func(*ServedTask)
	// OnGone hears of each task that is not known any more. It runs under the table's
	// lock: it must neither block nor call a method of the table or the task but ID and
	// Tag. Nil does nothing.
	OnGone func(*ServedTask)
	// Logger takes structured logs. Nil discards them.
	Logger *slog.Logger
}

func (o ServedOptions) withDefaults() ServedOptions {
	o.Working = cmp.Or(o.Working, 16)
	o.Limit = cmp.Or(o.Limit, 128)
	o.MaxBytes = cmp.Or(o.MaxBytes, 32<<20)
	o.TTL = cmp.Or(o.TTL, 30*time.Minute)
	o.MaxTTL = cmp.Or(o.MaxTTL, 2*time.Hour)
	o.Poll = cmp.Or(o.Poll, time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// Served are the tasks that one peer has given to us. They are bound to that peer,
// as each has a table of its own. Its methods may be used from any goroutine, those
// that take a context not from a Receive. Their errors are wire errors.
type Served struct {
	opts ServedOptions

	mu    sync.Mutex
	byID  map[string]*ServedTask
	order []*ServedTask // the oldest first
	bytes int64         // what they keep
	last  uint64
}

// NewServed returns a table without tasks.
func NewServed(opts ServedOptions) *Served {
	return &Served{opts: opts.withDefaults(), byID: make(map[string]*ServedTask)}
}

// Work is what a task does.
type Work struct {
	// TTL is how long the peer wants the task to be kept, in milliseconds; nil leaves it
	// to us.
	TTL *int64
	// Bytes is what the work keeps in memory until it ends.
	Bytes int64
	// Tag is the maker's own; see [ServedTask.Tag].
	Tag any
	// Run does the work. It must heed its context, which ends when the task is cancelled,
	// and when its time is over; it may go on after the request that it came with.
	Run func(ctx context.Context, t *ServedTask) (Ending, error)
	// Keep makes the task durable, before its work begins and a client learns of
	// it. It may block; an error refuses the task. Nil keeps nothing.
	Keep func(ctx context.Context, t *ServedTask) error
}

// Ending is what a task has ended with if there was no error.
type Ending struct {
	Result json.RawMessage // an object
	// Failed is a result that says of itself that something went wrong: then a core task
	// has failed, one of the extension is complete.
	Failed  bool
	Message string // why, for people
}

// Create makes a task of work and begins it. A nil ttl leaves it to us.
func (s *Served) Create(ctx context.Context, ttl *int64, work func(context.Context) (json.RawMessage, error)) (mcp.Task, error) {
	t, err := s.Begin(ctx, Work{TTL: ttl, Run: func(ctx context.Context, _ *ServedTask) (Ending, error) {
		result, err := work(ctx)
		return Ending{Result: result}, err
	}})
	if err != nil {
		return mcp.Task{}, err
	}
	return t.Created(), nil
}

// Begin makes a task and begins its work.
func (s *Served) Begin(ctx context.Context, work Work) (*ServedTask, error) {
	w, err := s.enter(work)
	if err != nil {
		return nil, err
	}
	if work.Keep != nil {
		if err := work.Keep(ctx, w); err != nil {
			s.remove(w)
			s.opts.Logger.Error("a task could not be kept", "error", err)
			return nil, mcp.Errorf(mcp.CodeInternal, "the task could not be kept")
		}
	}
	var started actors.Reply[actors.Ref]
	spec := actors.Spec{Kind: actors.KindTask, New: func() actors.Actor { return &worker{served: w} }, OnStop: w.stopped}
	s.opts.Spawn(spec, func(ref actors.Ref, err error) {
		if !started.Complete(ref, err) { // its caller has left
			ref.Stop()
		}
	})
	if _, err = started.Wait(ctx); err != nil {
		started.Complete(actors.Ref{}, err)
		s.remove(w)
		s.opts.Logger.Warn("a task of the peer could not be started", "error", err)
		return nil, mcp.Errorf(mcp.CodeInternal, "the task could not be started")
	}
	return w, nil
}

// enter makes the entry of a task, within the limits.
func (s *Served) enter(work Work) (*ServedTask, error) {
	keep := s.opts.TTL
	if work.TTL != nil {
		keep = min(max(millis(work.TTL, 0), time.Second), s.opts.MaxTTL)
	}
	now := time.Now()
	at, actual, poll := stamp(now), keep.Milliseconds(), s.opts.Poll.Milliseconds()
	w := &ServedTask{table: s, work: work, tag: work.Tag, bytes: work.Bytes, expires: now.Add(keep), created: mcp.Task{
		TaskID: rand.Text(), // 130 bits: not to be guessed (TASK-17)
		Status: mcp.TaskWorking, CreatedAt: at, LastUpdatedAt: at, TTL: &actual, PollInterval: &poll,
	}}
	w.status, w.updated = mcp.TaskWorking, at
	w.over, w.end = context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.purge(now)
	working := 0
	for _, o := range s.order {
		if !o.terminal() {
			working++
		}
	}
	if working >= s.opts.Working || len(s.order) >= s.opts.Limit && !s.dropCancelled() || s.bytes+w.bytes > s.opts.MaxBytes {
		return nil, mcp.Errorf(mcp.CodeInternal, "too many tasks")
	}
	s.last++
	w.n = s.last
	s.byID[w.created.TaskID] = w
	s.order = append(s.order, w)
	s.bytes += w.bytes
	return w, nil
}

// stamp is a time as tasks have it (TASK-04).
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// dropCancelled makes room: a cancelled task may go at any time (TASK-12). It is
// called under the lock.
func (s *Served) dropCancelled() bool {
	for _, w := range s.order {
		if w.status == mcp.TaskCancelled {
			s.drop(w)
			w.ref.Stop()
			return true
		}
	}
	return false
}

// purge drops those whose time is over and whose actor, which else does it, is gone.
// It is called under the lock.
func (s *Served) purge(now time.Time) {
	for i := len(s.order) - 1; i >= 0 && i < len(s.order); i-- {
		if w := s.order[i]; w.gone && !now.Before(w.expires) {
			s.drop(w)
		}
	}
}

// drop is called under the lock.
func (s *Served) drop(w *ServedTask) {
	if s.byID[w.created.TaskID] != w {
		return
	}
	delete(s.byID, w.created.TaskID)
	s.order = slices.DeleteFunc(s.order, func(o *ServedTask) bool { return o == w })
	s.bytes -= w.bytes
	if s.opts.OnGone != nil {
		s.opts.OnGone(w)
	}
}

func (s *Served) remove(w *ServedTask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(w)
}

// unknownTask is what an id gets that is not, or not any more, one of the peer's
// tasks (TASK-16).
func unknownTask() error { return mcp.Errorf(mcp.CodeInvalidParams, "no such task") }

// Find returns a task.
func (s *Served) Find(id string) (*ServedTask, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.byID[id]
	if w == nil || w.gone && !time.Now().Before(w.expires) {
		return nil, unknownTask()
	}
	return w, nil
}

// Get returns a task.
func (s *Served) Get(id string) (mcp.Task, error) {
	w, err := s.Find(id)
	if err != nil {
		return mcp.Task{}, err
	}
	return w.Core(), nil
}

// Result waits for the task's end and returns what its request would have been
// answered with, marked as the task's.
func (s *Served) Result(ctx context.Context, id string) (json.RawMessage, error) {
	w, err := s.Find(id)
	if err != nil {
		return nil, err
	}
	select {
	case <-w.over.Done():
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return w.Result()
}

// servedPage is how many tasks a page of the list has.
const servedPage = 50

// List returns a page of the tasks, the oldest first. Cursors are the numbers
// of tasks, so that a page does not shift when one before it goes.
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
	s.purge(time.Now())
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
		out.Tasks = append(out.Tasks, w.core())
		last = w.n
	}
	return out, nil
}

// Cancel ends a task that has not ended; another is -32602.
func (s *Served) Cancel(id string) (mcp.Task, error) {
	w, err := s.Find(id)
	if err != nil {
		return mcp.Task{}, err
	}
	if !w.Cancel() {
		return mcp.Task{}, mcp.Errorf(mcp.CodeInvalidParams, "the task has ended already: %s", w.Core().Status)
	}
	return w.Core(), nil
}

// Len returns how many tasks are kept, and how many of them are worked on.
func (s *Served) Len() (kept, working int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.order {
		if !w.terminal() {
			working++
		}
	}
	return len(s.order), working
}
