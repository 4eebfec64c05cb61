package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// View is a task as clients see it: one of this process, or a record.
type View interface {
	Core() mcp.Task
	Extension() *mcp.ExtensionTask
	// Result returns the result of a task that has ended.
	Result() (json.RawMessage, error)
}

// Shown returns a task as the revision has it (TASK-08, XTASK-06).
func Shown(v View, version mcp.Version) any {
	if version.Era() == mcp.EraModern {
		t := v.Extension()
		if t.Error != nil {
			t.Error = t.Error.For(version)
		}
		return t
	}
	t := v.Core()
	return &t
}

// Recorded is a task of a process before this one, or of another.
type Recorded struct {
	Task   mcp.Task   `json:"task"`
	Failed bool       `json:"failed,omitzero"` // it is complete, with a result that reports a failure
	Error  *mcp.Error `json:"error,omitzero"`
	By     string     `json:"by"` // the process that works on it

	result json.RawMessage
}

// Core implements [View].
func (r *Recorded) Core() mcp.Task {
	t := r.Task
	if r.Failed {
		t.Status = mcp.TaskFailed
	}
	return t
}

// Extension implements [View].
func (r *Recorded) Extension() *mcp.ExtensionTask {
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

// Result implements [View].
func (r *Recorded) Result() (json.RawMessage, error) {
	if r.Error != nil {
		return nil, r.Error
	}
	return mcp.WithRelatedTask(r.result, r.Task.TaskID)
}

// errInterrupted is the end of a task whose process is gone.
func errInterrupted() *mcp.Error {
	return mcp.Errorf(mcp.CodeInternal, "interrupted: the server was started anew while it worked on the task")
}

// Recall reads a task that this process does not know from the records. It may wait.
func (ts *Store) Recall(ctx context.Context, owner, id string) (*Recorded, error) {
	if !ts.opts.Durable || store.CheckID("task", id) != nil {
		return nil, ErrNoTask()
	}
	kept, err := ts.opts.Records.Record(ctx, recordTask, owner, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, ErrNoTask()
	}
	if err != nil {
		return nil, err
	}
	r, err := ts.read(ctx, kept)
	if err == nil && r.Task.Status == mcp.TaskCompleted {
		var result store.Record
		result, err = ts.opts.Records.Record(ctx, recordResult, owner, id)
		r.result = result.Value
	}
	return r, err
}

// read reads what a record says of a task, but for its result. One whose process is
// gone has failed, for ever (TASK-06).
func (ts *Store) read(ctx context.Context, kept store.Record) (*Recorded, error) {
	r := new(Recorded)
	if err := jsonx.Unmarshal(kept.Value, r); err != nil {
		return nil, err
	}
	if r.Task.Terminal() {
		return r, nil
	}
	_, err := ts.opts.Records.Record(ctx, recordServer, r.By, r.By)
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
		err = ts.opts.Records.PutRecord(ctx, kept)
	}
	return r, err
}

// errElsewhere is the error for a task that another process works on.
var errElsewhere = mcp.Errorf(mcp.CodeInternal, "another instance of the server works on the task")

// Elsewhere refuses a request that only the process can carry out that works on the task, which is not
// this one.
func (r *Recorded) Elsewhere() error {
	if r.Task.Terminal() {
		return nil
	}
	return errElsewhere
}

// ListAll returns a page of the tasks of one owner (TASK-13): the records of other processes, and
// then the tasks of this process. Quick reports whether it reads no records, and so does not wait;
// otherwise the page comes from recorded.
func (ts *Store) ListAll(owner string, cursor *string) (quick bool, recorded func(ctx context.Context) (*mcp.ListTasksResult, error)) {
	after, inRecords := "", cursor == nil
	if cursor != nil {
		after, inRecords = strings.CutPrefix(*cursor, recordedPage)
	}
	if !ts.opts.Durable || !inRecords {
		return true, nil
	}
	return false, func(ctx context.Context) (*mcp.ListTasksResult, error) { return ts.recordedTasks(ctx, owner, after) }
}

// recordedPage begins the cursor of a page of records, before a key.
const recordedPage = "."

// tasksPerPage is how many records are read for a page.
const tasksPerPage = 50

// recordedTasks returns a page of tasks of other processes. The tasks of this one follow the
// last.
func (ts *Store) recordedTasks(ctx context.Context, owner, after string) (*mcp.ListTasksResult, error) {
	if store.CheckText("cursor", after) != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "no such cursor")
	}
	result := &mcp.ListTasksResult{Tasks: []mcp.Task{}}
	for {
		kept, err := ts.opts.Records.Records(ctx, store.RecordQuery{Kind: recordTask, Owner: owner, After: after, Limit: tasksPerPage})
		if err != nil {
			return nil, err
		}
		for _, record := range kept {
			after = record.Key
			r, err := ts.read(ctx, record)
			if err != nil {
				return nil, err
			}
			if r.By != ts.instance {
				result.Tasks = append(result.Tasks, r.Core())
			}
		}
		if len(kept) > 0 && len(result.Tasks) > 0 {
			next := recordedPage + after
			result.NextCursor = &next
			return result, nil
		}
		if len(kept) == 0 {
			break
		}
	}
	return ts.List(owner, nil)
}
