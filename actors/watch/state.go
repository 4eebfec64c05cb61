package watch

import (
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// Generation is one of the two designs of tasks.
type Generation uint8

const (
	// Core is that of 2025-11-25: the requester asks for a task, the result is
	// fetched with tasks/result, and questions come as requests of the peer (TASK).
	Core Generation = iota + 1
	// Extension is io.modelcontextprotocol/tasks: the server decides, result and
	// questions are part of what tasks/get says (XTASK).
	Extension
)

// State is what is known of a task, of either generation.
type State struct {
	ID      string
	Status  string // one of mcp.TaskWorking and the others
	Message string // the peer's words about the status
	Created string // ISO 8601, as the peer wrote it
	Updated string
	TTL     time.Duration // how long the peer keeps it, from its creation; negative is without limit
	Poll    time.Duration // how often it wants to be asked; zero leaves it to us

	Inputs mcp.InputRequests // Extension: all that is open, of input_required
	Result []byte            // Extension: of completed
	Err    *mcp.Error        // Extension: of failed
}

// Terminal reports whether the task has ended for good (TASK-06).
func (s *State) Terminal() bool {
	return s.Status == mcp.TaskCompleted || s.Status == mcp.TaskFailed || s.Status == mcp.TaskCancelled
}

// FromCore returns the state that a core task tells.
func FromCore(t *mcp.Task) State {
	return State{
		ID: t.TaskID, Status: t.Status, Message: t.StatusMessage, Created: t.CreatedAt, Updated: t.LastUpdatedAt,
		TTL: millis(t.TTL, -1), Poll: millis(t.PollInterval, 0),
	}
}

// FromExtension returns the state that a task of the extension tells.
func FromExtension(t *mcp.ExtensionTask) State {
	return State{
		ID: t.TaskID, Status: t.Status, Message: t.StatusMessage, Created: t.CreatedAt, Updated: t.LastUpdatedAt,
		TTL: millis(t.TTLMs, -1), Poll: millis(t.PollIntervalMs, 0),
		Inputs: t.InputRequests, Result: t.Result, Err: t.Error,
	}
}

// maxMillis is the longest time that is told apart: a hundred years.
const maxMillis = 100 * 365 * 24 * int64(time.Hour/time.Millisecond)

func millis(n *int64, absent time.Duration) time.Duration {
	if n == nil {
		return absent
	}
	return time.Duration(min(max(*n, 0), maxMillis)) * time.Millisecond
}

// Decode reads what tasks/get or a notice says of a task (TASK-08, XTASK-06).
func (g Generation) Decode(raw []byte) (State, error) {
	if g == Core {
		t := new(mcp.Task)
		if err := jsonx.Unmarshal(raw, t); err != nil {
			return State{}, err
		}
		return FromCore(t), t.Validate()
	}
	t := new(mcp.ExtensionTask)
	if err := jsonx.Unmarshal(raw, t); err != nil {
		return State{}, err
	}
	return FromExtension(t), t.ValidateDetailed()
}

// outcome is what a task of the extension has ended with (XTASK-06, XTASK-08).
func (s *State) outcome() call.Outcome {
	if s.Status == mcp.TaskFailed {
		return call.Outcome{Err: s.Err}
	}
	var inner struct {
		ResultType string `json:"resultType"`
	}
	if err := jsonx.Unmarshal(s.Result, &inner); err != nil {
		return call.Outcome{Err: &call.ResponseError{Method: mcp.MethodGetTask, Err: err}}
	}
	if inner.ResultType != "" && inner.ResultType != mcp.ResultComplete { // XTASK-20
		err := fmt.Errorf("the result of a task has resultType %.40q", inner.ResultType)
		return call.Outcome{Err: &call.ResponseError{Method: mcp.MethodGetTask, Err: err}}
	}
	return call.Outcome{Result: call.Result{Raw: s.Result, Type: inner.ResultType}}
}

// older reports whether s was true before what is known by now. What cannot be
// compared is taken for new.
func (s *State) older(known *State) bool {
	mine, err := time.Parse(time.RFC3339, s.Updated)
	if err != nil {
		return false
	}
	theirs, err := time.Parse(time.RFC3339, known.Updated)
	return err == nil && mine.Before(theirs)
}

var (
	// ErrCancelled is what a [CancelledError] is.
	ErrCancelled = errors.New("watch: the task was cancelled")
	// ErrUnknown is what an [UnknownError] is.
	ErrUnknown = errors.New("watch: the task is not known")
	// ErrBusy refuses to watch more tasks, or to do more work.
	ErrBusy = errors.New("watch: too many tasks")
	// ErrLeft is what an error is after which the task may go on: it could not be
	// asked for any more, or its questions could not be answered.
	ErrLeft = errors.New("watch: the end of the task is not known")
	// ErrFailed is what those who wait get when the actor that watches has failed
	// or was stopped.
	ErrFailed = errors.New("watch: the watcher has ended")
)

// leftError makes an error [ErrLeft] without a word more.
type leftError struct{ error }

func (e *leftError) Is(target error) bool { return target == ErrLeft }
func (e *leftError) Unwrap() error        { return e.error }

// CancelledError is the outcome of a task with the status cancelled.
type CancelledError struct {
	ID      string
	Message string // the peer's words; may be empty
}

func (e *CancelledError) Error() string {
	text := fmt.Sprintf("task %s was cancelled", e.ID)
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// Is reports that the error is [ErrCancelled].
func (e *CancelledError) Is(target error) bool { return target == ErrCancelled }

// UnknownError says that the peer does not know the task: it never did, its time
// is over (TASK-15), or the peer was started anew.
type UnknownError struct {
	ID  string
	Err error // the peer's
}

func (e *UnknownError) Error() string { return fmt.Sprintf("task %s is not known: %v", e.ID, e.Err) }

// Is reports that the error is [ErrUnknown].
func (e *UnknownError) Is(target error) bool { return target == ErrUnknown }

// Unwrap returns the peer's error.
func (e *UnknownError) Unwrap() error { return e.Err }
