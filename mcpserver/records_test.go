package mcpserver_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

var ada = &mcpserver.Principal{ID: "ada"}

// TASK-15, XTASK-04, XTASK-20: with a store, what has ended can be read after the server
// was started anew, for its time; what was at work has failed, for ever.
func TestTasksSurviveRestart(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		records := memstore.New(nil)
		opts := &mcpserver.Options{Records: records, Principal: ada}
		withTasks(t, v, opts, func(t *testing.T, s *mcpserver.Server, p *taskPeer, _ *gate) {
			done, soft, hard, cut := p.create("slow", `{"seconds":1}`), p.create("fails", `{}`), p.create("breaks", `{}`), p.create("slow", `{"seconds":1000}`)
			gone := p.create("slow", `{"seconds":1000}`)
			p.until(done.TaskID, mcp.TaskCompleted)
			before := map[string]mcp.ExtensionTask{}
			for _, task := range []mcp.ExtensionTask{done, soft, hard} {
				before[task.TaskID] = p.state(task.TaskID)
			}
			if err := p.do(mcp.MethodCancelTask, about(gone.TaskID), nil); err != nil {
				t.Error(err)
			}
			crashed := copyOf(t, records) // as they are while it works
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			time.Sleep(20 * time.Second)
			for name, kept := range map[string]store.Records{"closed": records, "crashed": crashed} {
				opts := &mcpserver.Options{Records: kept, Principal: ada, Tasks: &mcpserver.TaskOptions{}}
				s, g := newServer(t, opts)
				addTaskTools(t, s, g)
				q := newTaskPeer(t, s, v)
				for id, want := range before {
					got := q.state(id)
					if got.Status != want.Status || got.StatusMessage != want.StatusMessage || string(got.Result) != string(want.Result) || got.CreatedAt != want.CreatedAt ||
						fmt.Sprint(got.Error) != fmt.Sprint(want.Error) {
						t.Errorf("%s: got %+v, want %+v", name, got, want)
					}
				}
				if got := q.state(gone.TaskID); got.Status != mcp.TaskCancelled {
					t.Errorf("%s: a cancelled task: got %+v", name, got)
				}
				for range 2 {
					if got := q.state(cut.TaskID); got.Status != mcp.TaskFailed || name == "crashed" && !strings.Contains(got.StatusMessage, "interrupted") {
						t.Errorf("%s: one that was at work: got %+v", name, got)
					}
				}
				if v == mcp.V2025_11_25 {
					restartedLegacy(t, q, done.TaskID, cut.TaskID, before)
				} else {
					wantCode(t, "tasks/update", q.update("unknown", `{}`), mcp.CodeInvalidParams)
					if err := q.update(done.TaskID, `{}`); err != nil {
						t.Errorf("tasks/update: %v", err)
					}
					if err := q.do(mcp.MethodCancelTask, about(done.TaskID), nil); err != nil { // XTASK-13
						t.Errorf("tasks/cancel: %v", err)
					}
				}
				wantCode(t, "an unknown one", q.do(mcp.MethodGetTask, about("unknown"), nil), mcp.CodeInvalidParams)
				wantCode(t, "a hostile one", q.do(mcp.MethodGetTask, `{"taskId":"\u0000\u202e"}`, nil), mcp.CodeInvalidParams)
			}
			time.Sleep(2 * time.Hour)
			s, g := newServer(t, &mcpserver.Options{Records: records, Principal: ada})
			addTaskTools(t, s, g)
			q := newTaskPeer(t, s, v)
			wantCode(t, "after its time", q.do(mcp.MethodGetTask, about(done.TaskID), nil), mcp.CodeInvalidParams)
		})
	}
}

// restartedLegacy looks at tasks of a process before in the ways of 2025-11-25.
func restartedLegacy(t *testing.T, q *taskPeer, done, cut string, before map[string]mcp.ExtensionTask) {
	t.Helper()
	m := q.answer(q.begin(mcp.MethodTaskResult, about(done)))
	same(t, "tasks/result", m.Result, fmt.Sprintf(`{"content":[{"type":"text","text":"slept"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}}}`, done))
	if m := q.answer(q.begin(mcp.MethodTaskResult, about(cut))); m.Error == nil || m.Error.Code != mcp.CodeInternal {
		t.Errorf("tasks/result of one that was at work: got %s, %v", m.Result, m.Error)
	}
	wantCode(t, "tasks/cancel", q.do(mcp.MethodCancelTask, about(done), nil), mcp.CodeInvalidParams)
	own := q.create("must", `{}`)
	listed := q.listAll()
	for id := range before { // TASK-13
		if !slices.Contains(listed, id) {
			t.Errorf("%s is not listed", id)
		}
	}
	if !slices.Contains(listed, own.TaskID) || len(listed) != len(before)+3 {
		t.Errorf("listed %d tasks, want %d", len(listed), len(before)+3)
	}
}

// listAll lists the tasks, each once.
func (p *taskPeer) listAll() (ids []string) {
	p.t.Helper()
	params := `{}`
	for range 100 {
		var page mcp.ListTasksResult
		if err := p.do(mcp.MethodListTasks, params, &page); err != nil {
			p.t.Fatalf("tasks/list: %v", err)
		}
		for _, task := range page.Tasks {
			if slices.Contains(ids, task.TaskID) {
				p.t.Errorf("%s is listed twice", task.TaskID)
			}
			ids = append(ids, task.TaskID)
		}
		if page.NextCursor == nil {
			return ids
		}
		params = fmt.Sprintf(`{"cursor":%q}`, *page.NextCursor)
	}
	p.t.Fatal("the list has no end")
	return nil
}

// copyOf copies the records of ada, and those that say which process is alive.
func copyOf(t *testing.T, from *memstore.Store) *memstore.Store {
	t.Helper()
	to := memstore.New(nil)
	for _, kind := range []string{"task", "task-result", "task-server"} {
		for _, owner := range []string{"", "ada"} {
			list, err := from.Records(t.Context(), store.RecordQuery{Kind: kind, Owner: owner})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range list {
				if err := to.PutRecord(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return to
}

// XTASK-06, MRTR-09: two processes with one store see each other's tasks. What is worked
// on in one is not failed in the other, and can not be answered or cancelled there.
func TestTasksOfTwoProcesses(t *testing.T) {
	records := memstore.New(nil)
	opts := &mcpserver.Options{Records: records, Principal: ada}
	withTasks(t, mcp.Latest, opts, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, _ *gate) {
		s, g := newServer(t, opts)
		addTaskTools(t, s, g)
		other := newTaskPeer(t, s, mcp.Latest)
		task := p.create("slow", `{"seconds":60}`)
		for range 5 {
			if got := other.state(task.TaskID); got.Status != mcp.TaskWorking {
				t.Fatalf("got %+v, want working", got)
			}
			time.Sleep(10 * time.Second)
		}
		wantCode(t, "tasks/cancel", other.do(mcp.MethodCancelTask, about(task.TaskID), nil), mcp.CodeInternal)
		wantCode(t, "tasks/update", other.update(task.TaskID, `{}`), mcp.CodeInternal)
		time.Sleep(time.Minute)
		if got := other.state(task.TaskID); got.Status != mcp.TaskCompleted || !strings.Contains(string(got.Result), "slept") {
			t.Errorf("got %+v, want its result", got)
		}
	})
}

// broken is a store that fails.
type broken struct{ *memstore.Store }

var errBroken = errors.New("the disk is full")

func (broken) PutRecord(context.Context, store.Record) error { return errBroken }

// XTASK-04: there is no task that is not durable.
func TestTaskNeedsItsRecord(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		withTasks(t, v, &mcpserver.Options{Records: broken{memstore.New(nil)}}, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, _ *gate) {
			err := p.do(mcp.MethodCallTool, `{"name":"must","arguments":{},"task":{}}`, nil)
			wantCode(t, "tools/call", err, mcp.CodeInternal)
			if err != nil && strings.Contains(err.Message, "disk") {
				t.Errorf("the client is told: %v", err)
			}
		})
	}
}

// TASK-13: pages, oldest first, whose cursors hold, and are nothing but places.
func TestTaskList(t *testing.T) {
	opts := &mcpserver.Options{Principal: ada, Tasks: &mcpserver.TaskOptions{Working: 200, Limit: 200}}
	withTasks(t, mcp.V2025_11_25, opts, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, _ *gate) {
		var want []string
		for range 120 {
			want = append(want, p.create("must", `{}`).TaskID)
		}
		if got := p.listAll(); !slices.Equal(got, want) {
			t.Errorf("got %d tasks, want the %d in their order", len(got), len(want))
		}
		for _, cursor := range []string{"!", ".", "../..", strings.Repeat("z", 100)} {
			wantCode(t, fmt.Sprintf("cursor %q", cursor), p.do(mcp.MethodListTasks, fmt.Sprintf(`{"cursor":%q}`, cursor), nil), mcp.CodeInvalidParams)
		}
	})
	withTasks(t, mcp.V2025_11_25, nil, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, _ *gate) { // TASK-17
		wantCode(t, "without a principal", p.do(mcp.MethodListTasks, `{}`, nil), mcp.CodeMethodNotFound)
	})
}
