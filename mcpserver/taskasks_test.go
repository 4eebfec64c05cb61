package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// SHM-08, XTASK-05: the same retry again gets the same task, and not what becomes of it.
func TestTheSameRetryOfATask(t *testing.T) {
	withTasks(t, mcp.Latest, nil, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, _ *gate) {
		var round mcp.InputRequiredResult
		if err := p.do(mcp.MethodCallTool, `{"name":"late","arguments":{}}`, &round); err != nil {
			t.Fatal(err)
		}
		state, _ := json.Marshal(round.RequestState)
		params := fmt.Sprintf(`{"name":"late","arguments":{},"inputResponses":{"user_name":{"action":"accept","content":{"name":"Ada"}}},"requestState":%s}`, state)
		var ids []string
		for range 3 {
			var task mcp.ExtensionTask
			if err := p.do(mcp.MethodCallTool, params, &task); err != nil || task.ResultType != mcp.ResultTask {
				t.Fatalf("got %+v, %v, want a task", task, err)
			}
			ids = append(ids, task.TaskID)
		}
		if ids[0] != ids[1] || ids[0] != ids[2] {
			t.Errorf("got %v, want one task", ids)
		}
		p.until(ids[0], mcp.TaskCompleted)
		var task mcp.ExtensionTask
		if err := p.do(mcp.MethodCallTool, params, &task); err != nil || task.TaskID != ids[0] {
			t.Errorf("after its end: got %+v, %v, want the same task", task, err)
		}
	})
}

// XTASK-05, CAP-05: a call that was begun without the extension goes on as a call, with
// its answers, when a retry declares it.
func TestExtensionDeclaredLater(t *testing.T) {
	for _, noParking := range []bool{false, true} {
		withTasks(t, mcp.Latest, &mcpserver.Options{Rounds: mcpserver.RoundOptions{NoParking: noParking}}, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, _ *gate) {
			p.extra = ""
			var round mcp.InputRequiredResult
			if err := p.do(mcp.MethodCallTool, `{"name":"confirm","arguments":{}}`, &round); err != nil || round.RequestState == nil {
				t.Fatalf("got %+v, %v, want a round", round, err)
			}
			p.extra = extensionOn
			state, _ := json.Marshal(round.RequestState)
			var got struct {
				ResultType string
				Content    []struct{ Text string }
			}
			params := fmt.Sprintf(`{"name":"confirm","arguments":{},"inputResponses":{"confirm":{"action":"accept","content":{"ok":true}}},"requestState":%s}`, state)
			if err := p.do(mcp.MethodCallTool, params, &got); err != nil || len(got.Content) != 1 || got.Content[0].Text != "confirmed: true" {
				t.Errorf("run again %v: got %+v, %v, want the tool's result", noParking, got, err)
			}
		})
	}
}

// ELIC-13, TASK-10: a task's question is for the client that made the task: another one
// of the same principal, whose answers go elsewhere, only gets the result.
func TestTaskAsksItsClient(t *testing.T) {
	withTasks(t, mcp.V2025_11_25, nil, func(t *testing.T, s *mcpserver.Server, p *taskPeer, _ *gate) {
		other := newTaskPeer(t, s, mcp.V2025_11_25)
		err := mcpserver.AddTool(s, taskTool("later", mcp.TaskRequired), func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			time.Sleep(time.Second)
			in, err := mcpserver.Elicit[okIn](ctx, req, "confirm", "Really?")
			return fmt.Sprint("confirmed: ", in.OK), err
		})
		if err != nil {
			t.Fatal(err)
		}
		task := p.create("later", `{}`)
		waiting := other.begin(mcp.MethodTaskResult, about(task.TaskID))
		synctest.Wait()
		time.Sleep(2 * time.Second)
		if got := other.heard(mcp.MethodElicit); len(got) != 0 {
			t.Errorf("another client is asked %s", got[0].Params)
		}
		asked := p.heard(mcp.MethodElicit)
		if len(asked) != 1 {
			t.Fatalf("the client is asked %d times, want once", len(asked))
		}
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"ok":true}}}`, asked[0].ID))
		if m := other.answer(waiting); !strings.Contains(string(m.Result), "confirmed: true") {
			t.Errorf("tasks/result: got %s, %v", m.Result, m.Error)
		}
	})
}

// TASK-09, ROB-3: of a tasks/result that was cancelled nothing is kept, however long the
// task lasts.
func TestCancelledTaskResults(t *testing.T) {
	withTasks(t, mcp.V2025_11_25, nil, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, _ *gate) {
		task := p.create("slow", `{"seconds":200}`)
		p.check = nil
		heap := func() uint64 {
			synctest.Wait()
			var m runtime.MemStats
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		long := strings.Repeat("x", 8<<10)
		some := func(n int) {
			for i := range n {
				id := fmt.Sprintf(`"%d%s"`, i, long)
				p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tasks/result","params":%s}`, id, about(task.TaskID)))
				p.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
				if i%50 == 0 {
					synctest.Wait()
				}
			}
			clear(p.asked)
		}
		some(100)
		before := heap()
		some(1000)
		if after := heap(); after > before+3<<20 {
			t.Errorf("1000 cancelled requests keep %d KiB", (after-before)>>10)
		}
	})
}

// TASK-10: questions of a task, and requests for its result that come and go, do not
// wait for each other for ever.
func TestTaskResultsComeAndGo(t *testing.T) {
	s, err := mcpserver.New(mcp.Implementation{Name: "test", Version: "1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n := 300
	if raceEnabled {
		n = 100
	}
	created := make(chan struct{}) // closed when the client knows of the task
	err = mcpserver.AddTool(s, taskTool("asks", mcp.TaskRequired), func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
		<-created
		for i := range n {
			if _, err := req.Roots(ctx, "roots"); err != nil {
				return "", fmt.Errorf("question %d: %w", i, err)
			}
		}
		return "asked", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	a := openAsked(t, s, mcp.V2025_11_25, allCapabilities)
	a.peer.check = nil
	var answer struct {
		Result struct{ Task mcp.Task }
	}
	if err := json.Unmarshal([]byte(a.peer.ask(a.line(mcp.MethodCallTool, `{"name":"asks","arguments":{},"task":{}}`))), &answer); err != nil {
		t.Fatal(err)
	}
	id := answer.Result.Task.TaskID
	close(created)
	for i := 0; ; {
		line := a.receive()
		m := readMessage(t, line)
		switch {
		case m.Method == mcp.MethodListRoots: // a request that is cancelled when the next question comes
			i++
			a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"r%d","method":"tasks/result","params":%s}`, i, about(id)))
			a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"roots":[]}}`, m.ID))
			a.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"r%d"}}`, i))
		case strings.Contains(line, mcp.NotificationTaskStatus) && strings.Contains(line, mcp.TaskCompleted):
			return
		}
	}
}

// TASK-17, ROB-3: records without a principal do not use up the room for the tasks of principals.
func TestRecordsWithoutPrincipal(t *testing.T) {
	records := memstore.New(nil)
	for i := range store.MaxOwned {
		r := store.Record{Kind: "ticket", Key: fmt.Sprint(i), Expires: time.Now().Add(1000 * time.Hour)}
		if err := records.PutRecord(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	withTasks(t, mcp.Latest, &mcpserver.Options{Records: records, Principal: ada}, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, _ *gate) {
		p.until(p.create("slow", `{"seconds":30}`).TaskID, mcp.TaskCompleted)
	})
}
