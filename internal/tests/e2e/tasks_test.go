package e2e

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// taskTools are tested at once: each takes some seconds of a server's time.
var taskTools = []struct {
	name string
	run  func(t *testing.T, r *rig)
}{
	{"a call becomes a task", promoted},
	{"a task asks", askingTask},
	{"a task is followed", followedTask},
	{"a task is cancelled", cancelledTask},
	{"sampling as a task of ours", servedSampling},
	{"elicitation as a task of ours", servedElicitation},
}

// tasks are those of 2025-11-25, in both directions.
func tasks(t *testing.T, r *rig) {
	for _, tt := range taskTools {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(t, r)
		})
	}
}

// noTasks: earlier revisions have none, and the server does not offer what needs them
// of us.
func noTasks(t *testing.T, r *rig) {
	if r.is(mcp.V2025_11_25) {
		return
	}
	r.lacks(t, "trigger-sampling-request-async")
	r.lacks(t, "trigger-elicitation-request-async")
	if task, err := r.client.CallToolTask(r.ctx, "simulate-research-query", json.RawMessage(`{"topic":"ants"}`), nil); err == nil {
		t.Errorf("CallToolTask in %s: got %+v, want an error", r.info.Version, task)
	}
}

// TASK-03, TASK-05, TASK-09: a tool that needs a task gets one, and the caller sees only the result.
func promoted(t *testing.T, r *rig) {
	res := r.call(t, "simulate-research-query", `{"topic":"bees"}`, nil)
	if got := res.Content.Text(); !strings.Contains(got, "# Research Report: bees") {
		t.Errorf("got %.200q, want the report", got)
	}
}

// TASK-10, TASK-11: the question comes with tasks/result, and names its task.
func askingTask(t *testing.T, r *rig) {
	res := r.call(t, "simulate-research-query", `{"topic":"ants","ambiguous":true}`, nil)
	if got := res.Content.Text(); !strings.Contains(got, "# Research Report: ants (historical)") {
		t.Errorf("got %.200q, want the report about the history of ants", got)
	}
}

// TASK-08, TASK-13.
func followedTask(t *testing.T, r *rig) {
	task, err := r.client.CallToolTask(r.ctx, "simulate-research-query", json.RawMessage(`{"topic":"cats"}`), nil)
	if err != nil {
		t.Fatalf("CallToolTask: %v", err)
	}
	state, err := task.Status(r.ctx)
	if err != nil || task.ID() == "" || state.Terminal() {
		t.Errorf("Status of %q: got %+v, %v, want it to be working", task.ID(), state, err)
	}
	all, err := r.client.ListTasks(r.ctx)
	if err != nil || !slices.ContainsFunc(all, func(other mcp.Task) bool { return other.TaskID == task.ID() }) {
		t.Errorf("ListTasks: got %+v, %v, want %s among them", all, err, task.ID())
	}
	found, err := r.client.Task(r.ctx, task.ID())
	if err != nil {
		t.Fatalf("Task: %v", err)
	}
	for _, task := range []*mcpclient.Task{task, found} {
		res, err := task.Wait(r.ctx)
		if err != nil || !strings.Contains(res.Content.Text(), "# Research Report: cats") {
			t.Errorf("Wait: got %+v, %v, want the report", res, err)
		}
	}
}

// TASK-12.
func cancelledTask(t *testing.T, r *rig) {
	task, err := r.client.CallToolTask(r.ctx, "simulate-research-query", json.RawMessage(`{"topic":"dogs"}`), nil)
	if err != nil {
		t.Fatalf("CallToolTask: %v", err)
	}
	if err := task.Cancel(r.ctx); err != nil {
		t.Fatalf("Cancel: %v", err)
	}
	if res, err := task.Wait(r.ctx); !errors.Is(err, mcpclient.ErrTaskCancelled) {
		t.Errorf("Wait: got %+v, %v, want %v", res, err, mcpclient.ErrTaskCancelled)
	}
}

// The server polls us and fetches what a model has said (TASK-03, TASK-08 and TASK-09 as a receiver).
func servedSampling(t *testing.T, r *rig) {
	res := r.call(t, "trigger-sampling-request-async", `{"prompt":"What is the capital of France?"}`, nil)
	if got := res.Content.Text(); !strings.Contains(got, "[COMPLETED]") || !strings.Contains(got, "Paris") {
		t.Errorf("got %q, want Paris, completed as a task", got)
	}
}

func servedElicitation(t *testing.T, r *rig) {
	res := r.call(t, "trigger-elicitation-request-async", `{}`, nil)
	if got := res.Content.Text(); !strings.Contains(got, "[COMPLETED]") || !strings.Contains(got, "Name: Ada") {
		t.Errorf("got %q, want Ada's form, completed as a task", got)
	}
}
