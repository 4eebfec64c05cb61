package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// TASK-01, TASK-17, TASK-20: what is declared is what can be done; nobody's tasks are
// not listed, and what the extension is called enables nothing (XTASK-22).
func TestTaskCapability(t *testing.T) {
	for _, v := range mcp.LegacyVersions() {
		for _, who := range []*mcpserver.Principal{nil, {ID: "ada"}} {
			withTasks(t, v, &mcpserver.Options{Principal: who}, func(t *testing.T, s *mcpserver.Server, _ *taskPeer, _ *gate) {
				p := serve(t, s)
				p.version, p.check = v, official(t, v)
				answer := p.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":%q,"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},"clientInfo":{"name":"peer","version":"1"}}}`, v))
				want := ""
				if v == mcp.V2025_11_25 {
					want = `"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}`
					if who != nil {
						want = `"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`
					}
				}
				if want == "" && strings.Contains(answer, "tasks") || !strings.Contains(answer, want) || strings.Contains(answer, mcp.ExtensionTasks) {
					t.Errorf("%s: got %s, want %s in it", v, answer, want)
				}
			})
		}
	}
}

// TASK-03, TASK-04, TASK-06, TASK-08, TASK-09, TASK-11, TASK-14, TASK-19: a call with a
// task is answered at once, works, and its result waits for whoever asks.
func TestTaskCore(t *testing.T) {
	withTasks(t, mcp.V2025_11_25, nil, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, _ *gate) {
		begin := time.Now()
		task := p.createWith("slow", `{"seconds":5}`, `{"ttl":60000}`)
		created, err := time.Parse(time.RFC3339, task.CreatedAt)
		if err != nil || !created.Equal(begin) || time.Since(begin) != 0 || task.Status != mcp.TaskWorking || *task.TTLMs != 60_000 || *task.PollIntervalMs != 1000 {
			t.Errorf("created after %v: %+v (%v)", time.Since(begin), task, err)
		}
		if got := p.state(task.TaskID); got.Status != mcp.TaskWorking {
			t.Errorf("tasks/get: got %+v", got)
		}
		waiting := p.begin(mcp.MethodTaskResult, about(task.TaskID))
		m := p.answer(waiting)
		if time.Since(begin) != 5*time.Second {
			t.Errorf("tasks/result: answered after %v, want 5 s", time.Since(begin))
		}
		want := fmt.Sprintf(`{"content":[{"type":"text","text":"slept"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}}}`, task.TaskID)
		same(t, "tasks/result", m.Result, want)
		for range 2 {
			var again json.RawMessage
			if err := p.do(mcp.MethodTaskResult, about(task.TaskID), &again); err != nil {
				t.Fatal(err)
			}
			same(t, "tasks/result again", again, want)
		}
		if got := p.state(task.TaskID); got.Status != mcp.TaskCompleted || got.LastUpdatedAt == task.CreatedAt {
			t.Errorf("tasks/get: got %+v", got)
		}
		var told []string
		for _, m := range p.heard(mcp.NotificationTaskStatus) {
			var s mcp.Task
			if err := json.Unmarshal(m.Params, &s); err != nil || strings.Contains(string(m.Params), "_meta") {
				t.Errorf("a notice of the status: got %s (%v)", m.Params, err)
			}
			told = append(told, s.Status)
		}
		if fmt.Sprint(told) != "[completed]" {
			t.Errorf("told of %v", told)
		}
		if got := p.create("must", `{}`).Meta.ImmediateResponse(); got != "soon" {
			t.Errorf("the immediate response: got %q", got)
		}
	})
}

func same(t testing.TB, what string, got json.RawMessage, want string) {
	t.Helper()
	var a, b any
	if json.Unmarshal(got, &a) != nil || json.Unmarshal([]byte(want), &b) != nil || fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("%s: got %s, want %s", what, got, want)
	}
}

// PROG-06, TASK-11: the progress token of the call is valid while the task works, and
// what is told meanwhile names the task.
func TestTaskProgress(t *testing.T) {
	withTasks(t, mcp.V2025_11_25, nil, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, _ *gate) {
		task := p.create("slow", `{"seconds":5}`)
		p.until(task.TaskID, mcp.TaskCompleted)
		var steps []string
		for _, method := range []string{mcp.NotificationProgress, mcp.NotificationMessage} {
			for _, m := range p.heard(method) {
				var params struct {
					Token    string   `json:"progressToken"`
					Progress float64  `json:"progress"`
					Meta     mcp.Meta `json:"_meta"`
				}
				if err := json.Unmarshal(m.Params, &params); err != nil || params.Meta.RelatedTask() != task.TaskID {
					t.Errorf("%s: got %s (%v), want it to name its task", method, m.Params, err)
				}
				steps = append(steps, fmt.Sprint(params.Token, params.Progress))
			}
		}
		if fmt.Sprint(steps) != "[p1 p2 0]" {
			t.Errorf("got %v, want two steps and a message", steps)
		}
	})
}

// TASK-02, TASK-05: whether a call may, or must, be a task.
func TestTaskSupportOfTools(t *testing.T) {
	tests := []struct {
		tool, task string
		v          mcp.Version
		code       int64 // 0 is none
		isTask     bool
	}{
		{"echo", "", mcp.V2025_11_25, 0, false},
		{"echo", `,"task":{}`, mcp.V2025_11_25, mcp.CodeMethodNotFound, false},
		{"slow", "", mcp.V2025_11_25, 0, false},
		{"slow", `,"task":{}`, mcp.V2025_11_25, 0, true},
		{"slow", `,"task":{"ttl":5000,"x":1}`, mcp.V2025_11_25, 0, true},
		{"slow", `,"task":5`, mcp.V2025_11_25, mcp.CodeInvalidParams, false},
		{"slow", `,"task":{"ttl":"long"}`, mcp.V2025_11_25, mcp.CodeInvalidParams, false},
		{"must", "", mcp.V2025_11_25, mcp.CodeMethodNotFound, false},
		{"must", `,"task":{}`, mcp.V2025_11_25, 0, true},
		{"must", `,"task":{}`, mcp.V2025_06_18, 0, false}, // there are none: it is ignored
		{"must", "", mcp.V2025_06_18, 0, false},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.tool, tt.task, tt.v), func(t *testing.T) {
			withTasks(t, tt.v, nil, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, _ *gate) {
				m := p.answer(p.begin(mcp.MethodCallTool, fmt.Sprintf(`{"name":%q,"arguments":{"text":"x"}%s}`, tt.tool, tt.task)))
				if tt.tool != "echo" {
					m = p.answer(p.begin(mcp.MethodCallTool, fmt.Sprintf(`{"name":%q,"arguments":{}%s}`, tt.tool, tt.task)))
				}
				if tt.code != 0 {
					wantCode(t, "tools/call", m.Error, tt.code)
				} else if got := strings.Contains(string(m.Result), `"taskId"`); m.Error != nil || got != tt.isTask {
					t.Errorf("got %s, %v; want a task: %v", m.Result, m.Error, tt.isTask)
				}
			})
		})
	}
	// Without tasks at all, the parameter is ignored (TASK-02).
	inBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, p *peer, _ *gate) {
		p.initialize(mcp.V2025_11_25)
		if got := p.ask(request(p.version, 1, mcp.MethodCallTool, `{"name":"echo","arguments":{"text":"x"},"task":{}}`)); !strings.Contains(got, "structuredContent") {
			t.Errorf("got %s, want a result", got)
		}
		p.expectError(request(p.version, 2, mcp.MethodGetTask, about("t")), mcp.CodeMethodNotFound, "2")
	})
}

// TASK-07, TASK-09: a tool that fails is a task that has failed, and so is a protocol
// error; tasks/result has exactly what the call would have been answered with. LOG-06: a
// panic gives nothing away.
func TestTaskFailures(t *testing.T) {
	for tool, want := range map[string]struct{ message, result string }{
		"fails":  {"no paper", `{"content":[{"type":"text","text":"no paper"}],"isError":true,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"ID"}}}`},
		"breaks": {"broken", "broken (1234)"},
		"panics": {"internal error", "internal error (-32603)"},
	} {
		withTasks(t, mcp.V2025_11_25, nil, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, _ *gate) {
			task := p.create(tool, `{}`)
			m := p.answer(p.begin(mcp.MethodTaskResult, about(task.TaskID)))
			if m.Error != nil {
				if m.Error.Error() != want.result {
					t.Errorf("%s: got %v, want %s", tool, m.Error, want.result)
				}
			} else {
				same(t, tool, m.Result, strings.ReplaceAll(want.result, "ID", task.TaskID))
			}
			if got := p.state(task.TaskID); got.Status != mcp.TaskFailed || got.StatusMessage != want.message {
				t.Errorf("%s: got %+v, want failed: %s", tool, got, want.message)
			}
		})
	}
}

// TASK-12, TASK-16: a task that is cancelled is so before the answer, and for ever; its
// work stops. One that has ended, or is unknown, is -32602.
func TestTaskCancel(t *testing.T) {
	withTasks(t, mcp.V2025_11_25, nil, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, g *gate) {
		task := p.create("slow", `{"seconds":50}`)
		waiting := p.begin(mcp.MethodTaskResult, about(task.TaskID))
		synctest.Wait() // it works
		var got mcp.Task
		if err := p.do(mcp.MethodCancelTask, about(task.TaskID), &got); err != nil || got.Status != mcp.TaskCancelled {
			t.Errorf("tasks/cancel: got %+v, %v", got, err)
		}
		if m := p.answer(waiting); m.Error == nil {
			t.Errorf("tasks/result of a cancelled task: got %s, want an error", m.Result)
		}
		<-g.ended
		time.Sleep(time.Minute)
		if got := p.state(task.TaskID); got.Status != mcp.TaskCancelled {
			t.Errorf("a minute later: got %+v", got)
		}
		ended := p.create("must", `{}`)
		p.until(ended.TaskID, mcp.TaskCompleted)
		for _, id := range []string{task.TaskID, ended.TaskID, "unknown", ""} {
			for _, method := range []string{mcp.MethodCancelTask, mcp.MethodGetTask, mcp.MethodTaskResult} {
				if method != mcp.MethodCancelTask && (id == task.TaskID || id == ended.TaskID) {
					continue
				}
				wantCode(t, fmt.Sprintf("%s of %q", method, id), p.do(method, about(id), nil), mcp.CodeInvalidParams)
			}
		}
		wantCode(t, "tasks/get of a number", p.do(mcp.MethodGetTask, `{"taskId":5}`, nil), mcp.CodeInvalidParams)
		wantCode(t, "tasks/get of nothing", p.do(mcp.MethodGetTask, `{}`, nil), mcp.CodeInvalidParams)
	})
}

// CANC-05: a request of tasks/result that is cancelled is not answered; the task goes on.
func TestTaskResultCancelled(t *testing.T) {
	withTasks(t, mcp.V2025_11_25, nil, func(t *testing.T, s *mcpserver.Server, p *taskPeer, _ *gate) {
		task := p.create("slow", `{"seconds":5}`)
		one, other := p.begin(mcp.MethodTaskResult, about(task.TaskID)), p.begin(mcp.MethodTaskResult, about(task.TaskID))
		synctest.Wait()
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, one))
		m := p.next()
		for m.Method != "" {
			m = p.next()
		}
		if string(m.ID) != other || m.Error != nil {
			t.Errorf("got an answer to %s (%v), want one to %s", m.ID, m.Error, other)
		}
	})
}

// TASK-15, TASK-21: how long a task is kept is bounded, and told; then it is unknown.
func TestTaskTTL(t *testing.T) {
	tests := map[string]time.Duration{`{}`: 5 * time.Minute, `{"ttl":2000}`: 2 * time.Second, `{"ttl":0}`: time.Second, `{"ttl":9007199254740991}`: 30 * time.Minute}
	for wish, want := range tests {
		t.Run(wish, func(t *testing.T) {
			withTasks(t, mcp.V2025_11_25, nil, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, g *gate) {
				task := p.createWith("slow", `{"seconds":100000}`, wish)
				if got := time.Duration(*task.TTLMs) * time.Millisecond; got != want {
					t.Errorf("got a ttl of %v, want %v", got, want)
				}
				time.Sleep(want - time.Millisecond)
				p.state(task.TaskID)
				time.Sleep(time.Millisecond)
				synctest.Wait()
				wantCode(t, "tasks/get after its time", p.do(mcp.MethodGetTask, about(task.TaskID), nil), mcp.CodeInvalidParams)
				<-g.ended // the work is given up
			})
		})
	}
}

// TASK-21: the tasks of one requester are bounded.
func TestTaskLimits(t *testing.T) {
	withTasks(t, mcp.V2025_11_25, &mcpserver.Options{Tasks: &mcpserver.TaskOptions{Working: 2, Limit: 3}}, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, _ *gate) {
		call := func() *mcp.Error {
			return p.do(mcp.MethodCallTool, `{"name":"slow","arguments":{"seconds":10},"task":{}}`, nil)
		}
		for range 2 {
			if err := call(); err != nil {
				t.Fatal(err)
			}
		}
		wantCode(t, "a third at once", call(), mcp.CodeInternal)
		time.Sleep(time.Minute)
		if err := call(); err != nil {
			t.Errorf("a third: %v", err)
		}
		wantCode(t, "a fourth to keep", call(), mcp.CodeInternal)
	})
}

// TASK-10, TASK-11: a question of a task names it, and the task waits for input
// meanwhile.
func TestTaskAsks(t *testing.T) {
	withTasks(t, mcp.V2025_11_25, nil, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, _ *gate) {
		task := p.create("confirm", `{}`)
		p.until(task.TaskID, mcp.TaskInputRequired)
		asked := p.heard(mcp.MethodElicit)
		if len(asked) != 1 || !strings.Contains(string(asked[0].Params), fmt.Sprintf(`"io.modelcontextprotocol/related-task":{"taskId":%q}`, task.TaskID)) {
			t.Fatalf("asked %+v, want one question that names its task", asked)
		}
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"ok":true}}}`, asked[0].ID))
		p.until(task.TaskID, mcp.TaskCompleted)
		m := p.answer(p.begin(mcp.MethodTaskResult, about(task.TaskID)))
		if !strings.Contains(string(m.Result), "confirmed: true") {
			t.Errorf("got %s, %v", m.Result, m.Error)
		}
		var told []string
		for _, m := range p.heard(mcp.NotificationTaskStatus) {
			var s mcp.Task
			if err := json.Unmarshal(m.Params, &s); err != nil {
				t.Error(err)
			}
			told = append(told, s.Status)
		}
		if got := fmt.Sprint(told); got != "[input_required working completed]" && got != "[input_required completed]" {
			t.Errorf("told of %s", got)
		}
	})
}

// TASK-06: the end of a task's actor is the end of the task, once.
func TestTaskKilled(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		withTasks(t, v, nil, func(t *testing.T, s *mcpserver.Server, p *taskPeer, g *gate) {
			task, other := p.create("slow", `{"seconds":50}`), p.create("slow", `{"seconds":5}`)
			synctest.Wait()
			mcpserver.KillTask(t, s, task.TaskID)
			<-g.ended
			synctest.Wait()
			if got := p.state(task.TaskID); got.Status != mcp.TaskFailed {
				t.Errorf("%s: got %+v, want failed", v, got)
			}
			p.until(other.TaskID, mcp.TaskCompleted)
			failed := 0
			for _, m := range p.heard(mcp.NotificationTaskStatus) {
				if strings.Contains(string(m.Params), task.TaskID) {
					failed++
				}
			}
			if v == mcp.V2025_11_25 && failed != 1 {
				t.Errorf("told %d times, want once", failed)
			}
		})
	}
}

// TASK-18: tasks outlive the connection that they were made on.
func TestTaskOutlivesConnection(t *testing.T) {
	withTasks(t, mcp.V2025_11_25, nil, func(t *testing.T, s *mcpserver.Server, p *taskPeer, _ *gate) {
		task := p.create("slow", `{"seconds":20}`)
		p.begin(mcp.MethodTaskResult, about(task.TaskID)) // nothing is left of it
		synctest.Wait()
		p.in.Close()
		<-p.ended
		again := newTaskPeer(t, s, mcp.V2025_11_25)
		again.until(task.TaskID, mcp.TaskCompleted)
	})
}

// TASK-06: whatever happens to tasks at the same time, each ends once and for all.
func TestTaskChaos(t *testing.T) {
	withTasks(t, mcp.V2025_11_25, nil, func(t *testing.T, s *mcpserver.Server, p *taskPeer, _ *gate) {
		var ids []string
		for range 40 {
			ids = append(ids, p.createWith("slow", `{"seconds":1}`, `{"ttl":60000}`).TaskID)
		}
		waiting := p.begin(mcp.MethodTaskResult, about(ids[0]))
		time.Sleep(time.Second) // all end now
		for i, id := range ids {
			switch i % 4 {
			case 1:
				p.begin(mcp.MethodCancelTask, about(id))
			case 2:
				mcpserver.KillTask(t, s, id)
			case 3:
				p.begin(mcp.MethodCancelTask, about(id))
				mcpserver.KillTask(t, s, id)
			}
		}
		if m := p.answer(waiting); m.Error != nil {
			t.Errorf("tasks/result: %v", m.Error)
		}
		synctest.Wait()
		ended := map[string]string{}
		for _, id := range ids {
			ended[id] = p.state(id).Status
			if ended[id] == mcp.TaskWorking {
				t.Errorf("%s still works", id)
			}
		}
		time.Sleep(30 * time.Second)
		for _, id := range ids {
			if got := p.state(id); got.Status != ended[id] {
				t.Errorf("%s was %s, is %s", id, ended[id], got.Status)
			}
		}
		told := map[string]int{}
		for _, m := range p.heard(mcp.NotificationTaskStatus) {
			var task mcp.Task
			if err := json.Unmarshal(m.Params, &task); err != nil || task.Status != ended[task.TaskID] {
				t.Errorf("told of %s (%v), ended %s", m.Params, err, ended[task.TaskID])
			}
			told[task.TaskID]++
		}
		for _, id := range ids {
			if told[id] != 1 {
				t.Errorf("told %d times of the end of %s, want once", told[id], id)
			}
		}
	})
}
