package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Statuses of a task.
const (
	TaskWorking       = "working"
	TaskInputRequired = "input_required"
	TaskCompleted     = "completed"
	TaskFailed        = "failed"
	TaskCancelled     = "cancelled"
)

var taskStatuses = []string{TaskWorking, TaskInputRequired, TaskCompleted, TaskFailed, TaskCancelled}

// TaskOptions augments a request of 2025-11-25 with a task.
type TaskOptions struct {
	TTL *int64 `json:"ttl,omitzero"` // milliseconds; nil leaves it to the receiver

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// RelatedTask is the value of _meta related-task.
type RelatedTask struct {
	TaskID string `json:"taskId"`
}

// Task is a core task of 2025-11-25.
type Task struct {
	TaskID        string `json:"taskId"`
	Status        string `json:"status"`
	StatusMessage string `json:"statusMessage,omitzero"`
	CreatedAt     string `json:"createdAt"`     // ISO 8601
	LastUpdatedAt string `json:"lastUpdatedAt"` // ISO 8601
	TTL           *int64 `json:"ttl"`           // milliseconds; nil is null: kept without limit
	PollInterval  *int64 `json:"pollInterval,omitzero"`
	Meta          Meta   `json:"_meta,omitzero"` // where the task is the result or the params

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Validate checks the id and the status.
func (t *Task) Validate() error { return checkTask(t.TaskID, t.Status) }

// Terminal reports whether the task has ended for good.
func (t *Task) Terminal() bool { return terminal(t.Status) }

func terminal(status string) bool {
	return status == TaskCompleted || status == TaskFailed || status == TaskCancelled
}

func checkTask(id, status string) error {
	if err := required("task", "taskId", id != ""); err != nil {
		return err
	}
	if !slices.Contains(taskStatuses, status) {
		return fmt.Errorf("task: unknown status %q", status)
	}
	return nil
}

// TaskParams are the params of tasks/get, tasks/result and tasks/cancel.
type TaskParams struct {
	TaskID string `json:"taskId"`
	Meta   Meta   `json:"_meta,omitzero"`
}

// Validate checks that there is an id.
func (p *TaskParams) Validate() error { return required("task params", "taskId", p.TaskID != "") }

// CreateTaskResult answers an augmented request of 2025-11-25.
type CreateTaskResult struct {
	Task Task `json:"task"`
	Meta Meta `json:"_meta,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Validate checks the task.
func (r *CreateTaskResult) Validate() error { return r.Task.Validate() }

// ListTasksResult is one page of core tasks; 2025-11-25.
type ListTasksResult struct {
	Tasks      []Task  `json:"tasks"`
	NextCursor *string `json:"nextCursor,omitzero"`
	Meta       Meta    `json:"_meta,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Validate checks that tasks is there, not each of them.
func (r *ListTasksResult) Validate() error {
	return required("tasks/list result", "tasks", r.Tasks != nil)
}

// ExtensionTask is a task of the Tasks extension: the creation result (with
// resultType task), the result of tasks/get and the params of
// notifications/tasks.
type ExtensionTask struct {
	TaskID         string          `json:"taskId"`
	Status         string          `json:"status"`
	StatusMessage  string          `json:"statusMessage,omitzero"`
	CreatedAt      string          `json:"createdAt"`
	LastUpdatedAt  string          `json:"lastUpdatedAt"`
	TTLMs          *int64          `json:"ttlMs"` // nil is null: kept without limit
	PollIntervalMs *int64          `json:"pollIntervalMs,omitzero"`
	InputRequests  InputRequests   `json:"inputRequests,omitzero"` // of input_required
	Result         json.RawMessage `json:"result,omitzero"`        // of completed
	Error          *Error          `json:"error,omitzero"`         // of failed
	Meta           Meta            `json:"_meta,omitzero"`
	ResultType     string          `json:"resultType,omitzero"` // "task" only in a creation result

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Validate checks the id and the status.
func (t *ExtensionTask) Validate() error { return checkTask(t.TaskID, t.Status) }

// ValidateDetailed checks also that the status has its payload, as the result
// of tasks/get must.
func (t *ExtensionTask) ValidateDetailed() error {
	if err := t.Validate(); err != nil {
		return err
	}
	switch t.Status {
	case TaskInputRequired:
		return required("input_required task", "inputRequests", t.InputRequests != nil)
	case TaskCompleted:
		return required("completed task", "result", firstByte(t.Result) == '{')
	case TaskFailed:
		return required("failed task", "error", t.Error != nil)
	}
	return nil
}

// Terminal reports whether the task has ended for good.
func (t *ExtensionTask) Terminal() bool { return terminal(t.Status) }

// UpdateTaskParams are the params of tasks/update.
type UpdateTaskParams struct {
	TaskID         string         `json:"taskId"`
	InputResponses InputResponses `json:"inputResponses"`
	Meta           Meta           `json:"_meta,omitzero"`
}

// Validate checks that id and answers are there.
func (p *UpdateTaskParams) Validate() error {
	return errors.Join(required(MethodUpdateTask, "taskId", p.TaskID != ""),
		required(MethodUpdateTask, "inputResponses", p.InputResponses != nil))
}
