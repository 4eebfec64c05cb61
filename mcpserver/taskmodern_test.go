package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// XTASK-02, XTASK-04, XTASK-06, XTASK-07, XTASK-20, XTASK-21, EXT-01: the server decides,
// the creation is flat, the task can be asked for at once, and its result comes with it.
func TestExtensionTaskRuns(t *testing.T) {
	withTasks(t, mcp.Latest, nil, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, _ *gate) {
		var discovered mcp.DiscoverResult
		if err := p.do(mcp.MethodDiscover, `{}`, &discovered); err != nil {
			t.Fatal(err)
		}
		if _, ok := discovered.Capabilities.Extension(mcp.ExtensionTasks); !ok || discovered.Capabilities.Tasks != nil { // XTASK-19
			t.Errorf("declared: %+v", discovered.Capabilities)
		}
		begin := time.Now()
		task := p.create("slow", `{"seconds":5}`)
		if task.Status != mcp.TaskWorking || *task.TTLMs != 300_000 || *task.PollIntervalMs != 1000 || time.Since(begin) != 0 {
			t.Errorf("created %+v", task)
		}
		if got := p.state(task.TaskID); got.Status != mcp.TaskWorking || got.CreatedAt != task.CreatedAt {
			t.Errorf("tasks/get: got %+v", got)
		}
		got := p.until(task.TaskID, mcp.TaskCompleted)
		if !strings.Contains(string(got.Result), "slept") || got.Error != nil || got.InputRequests != nil {
			t.Errorf("tasks/get: got %+v", got)
		}
		if got := p.state(p.create("must", `{}`).TaskID); *got.TTLMs != 60_000 {
			t.Errorf("the tool's own ttl: got %d", *got.TTLMs)
		}
		p.others = append(p.others, p.heard("")...)
		for _, m := range p.others { // XTASK-15, XTASK-19
			t.Errorf("told of the task: %s %s", m.Method, m.Params)
		}
	})
}

// XTASK-08: only a protocol error is a failed task; a tool that says that it has failed
// is a complete one.
func TestExtensionTaskFailures(t *testing.T) {
	withTasks(t, mcp.Latest, nil, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, _ *gate) {
		soft := p.until(p.create("fails", `{}`).TaskID, mcp.TaskCompleted)
		if !strings.Contains(string(soft.Result), `"isError":true`) {
			t.Errorf("fails: got %s", soft.Result)
		}
		for tool, code := range map[string]int64{"breaks": 1234, "panics": mcp.CodeInternal} {
			hard := p.until(p.create(tool, `{}`).TaskID, mcp.TaskFailed)
			if hard.Error == nil || hard.Error.Code != code || hard.StatusMessage == "" || strings.Contains(hard.Error.Message, "hunter2") {
				t.Errorf("%s: got %+v", tool, hard)
			}
		}
		bad := p.until(p.create("slow", `{"seconds":"many"}`).TaskID, mcp.TaskCompleted)
		if !strings.Contains(string(bad.Result), "invalid arguments") {
			t.Errorf("bad arguments: got %s", bad.Result)
		}
	})
}

// XTASK-01, XTASK-16, XTASK-19, EXT-02: a client that does not declare the extension, in
// this request, gets no task and may not ask for one; a legacy capability and a legacy
// parameter change nothing.
func TestExtensionNotDeclared(t *testing.T) {
	withTasks(t, mcp.Latest, nil, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, _ *gate) {
		task := p.create("slow", `{"seconds":100}`)
		for _, extra := range []string{"", `,"tasks":{"requests":{"tools":{"call":{}}}}`, `,"extensions":{"example.com/x":{}}`} {
			p.extra = extra
			missing := []*mcp.Error{p.do(mcp.MethodCallTool, `{"name":"must"}`, nil)}
			for _, method := range []string{mcp.MethodGetTask, mcp.MethodCancelTask} {
				missing = append(missing, p.do(method, about(task.TaskID), nil), p.do(method, about("unknown"), nil))
			}
			missing = append(missing, p.do(mcp.MethodUpdateTask, fmt.Sprintf(`{"taskId":%q,"inputResponses":{}}`, task.TaskID), nil))
			for i, err := range missing {
				wantCode(t, fmt.Sprint(i, extra), err, mcp.CodeMissingClientCapability)
				caps, _ := err.MissingCapability()
				if settings, ok := caps.Extension(mcp.ExtensionTasks); !ok || string(settings) != "{}" {
					t.Errorf("%d: got %s, want the extension in requiredCapabilities", i, err.Data)
				}
			}
			for _, wish := range []string{"", `,"task":{"ttl":5}`} {
				var result mcp.CallToolResult
				if err := p.do(mcp.MethodCallTool, `{"name":"slow","arguments":{"seconds":2}`+wish+`}`, &result); err != nil || result.Content.Text() != "slept" {
					t.Errorf("a tool that may be a task: got %+v, %v, want its result", result, err)
				}
			}
		}
		p.extra = extensionOn
		var result mcp.CallToolResult
		if err := p.do(mcp.MethodCallTool, `{"name":"echo","arguments":{"text":"hi"},"task":{"ttl":5}}`, &result); err != nil || result.StructuredContent == nil {
			t.Errorf("a tool without tasks: got %+v, %v, want its result", result, err)
		}
		for _, method := range []string{mcp.MethodTaskResult, mcp.MethodListTasks} { // XTASK-19
			wantCode(t, method, p.do(method, about(task.TaskID), nil), mcp.CodeMethodNotFound)
		}
		if got := p.state(task.TaskID); got.Status != mcp.TaskWorking {
			t.Errorf("got %+v", got)
		}
	})
}

// XTASK-13: a cancel is agreed to, as often as it comes; the task ends. Unknown ones are
// -32602, and notifications/cancelled is not for tasks.
func TestExtensionTaskCancel(t *testing.T) {
	withTasks(t, mcp.Latest, nil, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, g *gate) {
		task := p.create("slow", `{"seconds":50}`)
		synctest.Wait() // it works
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, p.last))
		if got := p.state(task.TaskID); got.Status != mcp.TaskWorking {
			t.Errorf("after notifications/cancelled: got %+v", got)
		}
		ended := p.create("must", `{}`)
		p.until(ended.TaskID, mcp.TaskCompleted)
		for _, id := range []string{task.TaskID, task.TaskID, ended.TaskID} {
			var raw map[string]json.RawMessage
			err := p.do(mcp.MethodCancelTask, about(id), &raw)
			delete(raw, "_meta")
			if err != nil || len(raw) != 1 || string(raw["resultType"]) != `"complete"` {
				t.Errorf("tasks/cancel: got %s, %v, want an empty result", raw, err)
			}
		}
		<-g.ended
		if got := p.state(task.TaskID); got.Status != mcp.TaskCancelled {
			t.Errorf("got %+v, want it cancelled", got)
		}
		if got := p.state(ended.TaskID); got.Status != mcp.TaskCompleted {
			t.Errorf("one that had ended: got %+v", got)
		}
		for _, method := range []string{mcp.MethodGetTask, mcp.MethodCancelTask} {
			wantCode(t, method, p.do(method, about("unknown"), nil), mcp.CodeInvalidParams)
		}
		wantCode(t, "tasks/update", p.do(mcp.MethodUpdateTask, `{"taskId":"unknown","inputResponses":{}}`, nil), mcp.CodeInvalidParams)
	})
}

const accepted = `{"action":"accept","content":{"ok":true}}`

func (p *taskPeer) update(id, responses string) *mcp.Error {
	p.t.Helper()
	return p.do(mcp.MethodUpdateTask, fmt.Sprintf(`{"taskId":%q,"inputResponses":%s}`, id, responses), nil)
}

// XTASK-05, XTASK-06, XTASK-10, XTASK-12, XTASK-20: a task shows what it wants to know,
// and goes on when it has all answers.
func TestExtensionTaskAsks(t *testing.T) {
	withTasks(t, mcp.Latest, nil, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, _ *gate) {
		one := p.create("confirm", `{}`)
		asked := p.until(one.TaskID, mcp.TaskInputRequired)
		if got := asked.InputRequests["confirm"]; got.Method != mcp.MethodElicit || !strings.Contains(string(got.Params), "Really?") {
			t.Errorf("asked %+v", asked.InputRequests)
		}
		if err := p.update(one.TaskID, `{"confirm":`+accepted+`}`); err != nil {
			t.Error(err)
		}
		if got := p.until(one.TaskID, mcp.TaskCompleted); !strings.Contains(string(got.Result), "confirmed: true") {
			t.Errorf("got %s", got.Result)
		}
		both := p.create("both", `{}`)
		p.until(both.TaskID, mcp.TaskInputRequired)
		for i, step := range []struct{ responses, open string }{
			{`{}`, "first second"}, {`{"third":{},"x":{}}`, "first second"}, {`{"second":` + accepted + `}`, "first"}, {`{"second":{"action":"cancel"}}`, "first"},
		} {
			if err := p.update(both.TaskID, step.responses); err != nil {
				t.Errorf("%s: %v", step.responses, err)
			}
			synctest.Wait()
			got := p.state(both.TaskID)
			_, first := got.InputRequests["first"]
			_, second := got.InputRequests["second"]
			if got.Status != mcp.TaskInputRequired || !first || second != strings.Contains(step.open, "second") {
				t.Errorf("%d: got %s with %+v, want %s open", i, got.Status, got.InputRequests, step.open)
			}
		}
		for _, bad := range []string{`{"first":5}`, `{"first":null}`, `{"first":[]}`, `null`, `5`} { // MRTR-07
			wantCode(t, bad, p.update(both.TaskID, bad), mcp.CodeInvalidParams)
		}
		if err := p.update(both.TaskID, `{"first":{"action":"decline"}}`); err != nil {
			t.Error(err)
		}
		if got := p.until(both.TaskID, mcp.TaskCompleted); !strings.Contains(string(got.Result), "decline accept") {
			t.Errorf("got %s", got.Result)
		}
	})
}

// XTASK-05: what the handler asks before it begins a task is asked in rounds of the
// call; no task result carries a requestState (XTASK-20).
func TestExtensionRoundsFirst(t *testing.T) {
	withTasks(t, mcp.Latest, nil, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, _ *gate) {
		var round mcp.InputRequiredResult
		if err := p.do(mcp.MethodCallTool, `{"name":"late","arguments":{}}`, &round); err != nil {
			t.Fatal(err)
		}
		if _, ok := round.InputRequests["user_name"]; !ok || round.RequestState == nil || round.ResultType != mcp.ResultInputRequired {
			t.Fatalf("got %+v, want a round that asks for a name", round)
		}
		state, _ := json.Marshal(round.RequestState)
		var task mcp.ExtensionTask
		params := fmt.Sprintf(`{"name":"late","arguments":{},"inputResponses":{"user_name":{"action":"accept","content":{"name":"Ada"}}},"requestState":%s}`, state)
		if err := p.do(mcp.MethodCallTool, params, &task); err != nil || task.ResultType != mcp.ResultTask || task.Status != mcp.TaskWorking || task.Extra["requestState"] != nil {
			t.Fatalf("got %+v, %v, want a task", task, err)
		}
		if got := p.state(task.TaskID); got.Status != mcp.TaskWorking {
			t.Errorf("tasks/get: got %+v", got)
		}
		if got := p.until(task.TaskID, mcp.TaskCompleted); !strings.Contains(string(got.Result), "Hello, Ada") {
			t.Errorf("got %+v", got)
		}
		p.extra = ""
		wantCode(t, "without the extension", p.do(mcp.MethodCallTool, `{"name":"late","arguments":{}}`, nil), mcp.CodeMissingClientCapability)
	})
}

// XTASK-05: a task that a handler has begun is cancelled as any other.
func TestExtensionRoundsFirstCancelled(t *testing.T) {
	withTasks(t, mcp.Latest, nil, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, _ *gate) {
		var round mcp.InputRequiredResult
		if err := p.do(mcp.MethodCallTool, `{"name":"late","arguments":{}}`, &round); err != nil {
			t.Fatal(err)
		}
		state, _ := json.Marshal(round.RequestState)
		var task mcp.ExtensionTask
		params := fmt.Sprintf(`{"name":"late","arguments":{},"inputResponses":{"user_name":{"action":"accept","content":{"name":"Ada"}}},"requestState":%s}`, state)
		if err := p.do(mcp.MethodCallTool, params, &task); err != nil || task.TaskID == "" {
			t.Fatalf("got %+v, %v, want a task", task, err)
		}
		if err := p.do(mcp.MethodCancelTask, about(task.TaskID), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := p.state(task.TaskID); got.Status != mcp.TaskCancelled {
			t.Errorf("got %+v, want cancelled", got)
		}
	})
}

// XTASK-14: who listens for a task hears how it is, as tasks/get would say, and nobody
// hears of what is not theirs or without the extension.
func TestExtensionTaskNotices(t *testing.T) {
	withTasks(t, mcp.Latest, nil, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, _ *gate) {
		task := p.create("confirm", `{}`)
		p.until(task.TaskID, mcp.TaskInputRequired)
		stream := p.begin(mcp.MethodListen, fmt.Sprintf(`{"notifications":{"taskIds":[%q,"unknown"]}}`, task.TaskID))
		acks := p.heard(mcp.NotificationListenAcknowledged)
		if len(acks) != 1 || !strings.Contains(string(acks[0].Params), fmt.Sprintf(`"taskIds":[%q]`, task.TaskID)) {
			t.Fatalf("acknowledged %+v, want the one task", acks)
		}
		if err := p.update(task.TaskID, `{"confirm":`+accepted+`}`); err != nil {
			t.Fatal(err)
		}
		p.until(task.TaskID, mcp.TaskCompleted)
		var told []string
		for _, m := range p.heard(mcp.NotificationTask) {
			var state mcp.ExtensionTask
			if err := json.Unmarshal(m.Params, &state); err != nil || state.ValidateDetailed() != nil || state.TaskID != task.TaskID || !strings.Contains(string(m.Params), fmt.Sprintf(`"io.modelcontextprotocol/subscriptionId":%s`, stream)) {
				t.Errorf("got %s (%v)", m.Params, err)
			}
			told = append(told, state.Status)
		}
		if got := fmt.Sprint(told); !strings.HasPrefix(got, "[input_required") || !strings.HasSuffix(got, "completed]") {
			t.Errorf("told of %s", got)
		}
		p.extra = ""
		wantCode(t, "without the extension", p.do(mcp.MethodListen, `{"notifications":{"taskIds":["x"]}}`, nil), mcp.CodeMissingClientCapability)
	})
}

// XTASK-22: what was begun in a session of 2025-11-25 is read and cancelled in
// 2026-07-28.
func TestTasksAcrossEras(t *testing.T) {
	withTasks(t, mcp.V2025_11_25, nil, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, g *gate) {
		modern := func(method, id string, result any) *mcp.Error { return p.doIn(mcp.Latest, method, about(id), result) }
		task, asks := p.create("slow", `{"seconds":50}`), p.create("confirm", `{}`)
		p.until(asks.TaskID, mcp.TaskInputRequired)
		var got mcp.ExtensionTask
		for _, id := range []string{task.TaskID, asks.TaskID} { // what is asked in the session can not be answered here
			if err := modern(mcp.MethodGetTask, id, &got); err != nil || got.Status != mcp.TaskWorking || got.TTLMs == nil {
				t.Errorf("tasks/get: got %+v, %v", got, err)
			}
		}
		if err := modern(mcp.MethodCancelTask, task.TaskID, nil); err != nil {
			t.Errorf("tasks/cancel: %v", err)
		}
		<-g.ended
		if err := modern(mcp.MethodGetTask, task.TaskID, &got); err != nil || got.Status != mcp.TaskCancelled {
			t.Errorf("tasks/get: got %+v, %v", got, err)
		}
		if got := p.state(task.TaskID); got.Status != mcp.TaskCancelled {
			t.Errorf("in the session: got %+v", got)
		}
		done := p.create("must", `{}`)
		p.until(done.TaskID, mcp.TaskCompleted)
		if err := modern(mcp.MethodGetTask, done.TaskID, &got); err != nil || got.ValidateDetailed() != nil || !strings.Contains(string(got.Result), "done") {
			t.Errorf("a result: got %+v, %v", got, err)
		}
	})
}

// A middleware stands around whatever is done with tasks: what it refuses is not done.
func TestTasksPassMiddleware(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		var mu sync.Mutex
		var passed []string
		refuse := ""
		opts := &mcpserver.Options{Middleware: []mcpserver.Middleware{func(ctx context.Context, in *mcpserver.Incoming, next mcpserver.Next) (json.RawMessage, error) {
			mu.Lock()
			passed = append(passed, fmt.Sprint(in.Method, " ", in.Name, in.Task != ""))
			refused := in.Method == refuse
			mu.Unlock()
			if refused {
				return nil, mcp.Errorf(1234, "not for you")
			}
			return next(ctx)
		}}}
		withTasks(t, v, opts, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, _ *gate) {
			mu.Lock()
			passed = nil
			mu.Unlock()
			task := p.create("slow", `{"seconds":50}`)
			synctest.Wait()
			last := mcp.MethodTaskResult
			if v == mcp.V2026_07_28 {
				last = mcp.MethodUpdateTask
			}
			for _, method := range []string{mcp.MethodGetTask, mcp.MethodCancelTask, last} {
				mu.Lock()
				refuse = method
				mu.Unlock()
				wantCode(t, method, p.do(method, fmt.Sprintf(`{"taskId":%q,"inputResponses":{}}`, task.TaskID), nil), 1234)
			}
			mu.Lock()
			refuse = ""
			want := []string{"tools/call slowfalse", "tools/call slowtrue"}
			for _, method := range []string{mcp.MethodGetTask, mcp.MethodCancelTask, last} {
				want = append(want, method+" "+task.TaskID+"false")
			}
			if !slices.Equal(passed, want) {
				t.Errorf("passed %q, want %q", passed, want)
			}
			mu.Unlock()
			if got := p.state(task.TaskID); got.Status != mcp.TaskWorking {
				t.Errorf("got %+v, want that nothing was done", got)
			}
		})
	}
}
