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

// Terminal reports whether the task has ended for good.
func (s *State) Terminal() bool {
	return s.Status == mcp.TaskCompleted || s.Status == mcp.TaskFailed || s.Status == mcp.TaskCancelled
}

// StateOf returns what a task of either generation says.
func StateOf[T *mcp.Task | *mcp.ExtensionTask](t T) State {
	if c, ok := any(t).(*mcp.Task); ok {
		return State{
			ID: c.TaskID, Status: c.Status, Message: c.StatusMessage, Created: c.CreatedAt, Updated: c.LastUpdatedAt,
			TTL: millis(c.TTL, -1), Poll: millis(c.PollInterval, 0),
		}
	}
	e := any(t).(*mcp.ExtensionTask)
	return State{
		ID: e.TaskID, Status: e.Status, Message: e.StatusMessage, Created: e.CreatedAt, Updated: e.LastUpdatedAt,
		TTL: millis(e.TTLMs, -1), Poll: millis(e.PollIntervalMs, 0),
		Inputs: e.InputRequests, Result: e.Result, Err: e.Error,
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

// Decode reads what tasks/get or a notice says of a task.
func (g Generation) Decode(raw []byte) (State, error) {
	if g == Core {
		t := new(mcp.Task)
		if err := jsonx.Unmarshal(raw, t); err != nil {
			return State{}, err
		}
		return StateOf(t), t.Validate()
	}
	t := new(mcp.ExtensionTask)
	if err := jsonx.Unmarshal(raw, t); err != nil {
		return State{}, err
	}
	return StateOf(t), t.ValidateDetailed()
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
	// ErrCancelled says that a task has the status cancelled.
	ErrCancelled = errors.New("watch: the task was cancelled")
	// ErrUnknown says that the peer does not know the task: it never did, its time is
	// over, or the peer was started anew.
	ErrUnknown = errors.New("watch: the task is not known")
	// ErrBusy refuses to watch more tasks, or to do more work.
	ErrBusy = errors.New("watch: too many tasks")
	// ErrLeft is what an error is after which the task may go on: it could not be
	// asked for any more, or its questions could not be answered.
	ErrLeft = errors.New("watch: the end of the task is not known")
	// ErrFailed is what those who wait get when the actor that watches has failed
	// or was stopped.
	ErrFailed = errors.New("watch: the watcher has ended")

	// ErrTaskCancelled ends the context of a served task's work: the peer has cancelled it.
	ErrTaskCancelled = errors.New("the peer has cancelled the task")
	// ErrTaskExpired ends the context of work that took longer than its task is kept.
	ErrTaskExpired = errors.New("the time of the task is over")
)

// leftError makes an error [ErrLeft] without a word more.
type leftError struct{ error }

func (e *leftError) Is(target error) bool { return target == ErrLeft }
func (e *leftError) Unwrap() error        { return e.error }

// cancelledError is the outcome of a task with the status cancelled.
type cancelledError struct {
	ID      string
	Message string // the peer's words; may be empty
}

func (e *cancelledError) Error() string {
	text := fmt.Sprintf("task %s was cancelled", e.ID)
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

func (e *cancelledError) Is(target error) bool { return target == ErrCancelled }

// unknownError is [ErrUnknown] with what the peer said.
type unknownError struct {
	ID  string
	Err error // the peer's
}

func (e *unknownError) Error() string { return fmt.Sprintf("task %s is not known: %v", e.ID, e.Err) }

func (e *unknownError) Is(target error) bool { return target == ErrUnknown }

func (e *unknownError) Unwrap() error { return e.Err }
