package mcpserver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// XTASK-11: a key stands for one question in the life of a task: one that the handler
// uses again is another to the client, and a late answer to the first is not taken for
// the second's.
func TestTaskKeysAreNotReused(t *testing.T) {
	withTasks(t, mcp.Latest, nil, func(t *testing.T, s *mcpserver.Server, p *taskPeer, _ *gate) {
		const rounds = 4
		err := mcpserver.AddTool(s, taskTool("again", mcp.TaskRequired), func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			var heard []string
			for i := range rounds {
				key := "again"
				if i == 2 {
					key = "again-2" // which we may have used ourselves
				}
				in, err := mcpserver.Elicit[nameIn](ctx, req, key, fmt.Sprint("Round ", i))
				if err != nil {
					return "", err
				}
				heard = append(heard, in.Name)
			}
			return strings.Join(heard, " "), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		task := p.create("again", `{}`)
		answered := make(map[string]bool)
		for i := range rounds {
			open := p.until(task.TaskID, mcp.TaskInputRequired).InputRequests
			if len(open) != 1 {
				t.Fatalf("round %d: got %+v, want one question", i, open)
			}
			for key, q := range open {
				if answered[key] || !strings.Contains(string(q.Params), fmt.Sprint("Round ", i)) {
					t.Errorf("round %d: got %s under the key %q", i, q.Params, key)
				}
				for old := range answered { // a client that is late
					if err := p.update(task.TaskID, fmt.Sprintf(`{%q:{"action":"accept","content":{"name":"late"}}}`, old)); err != nil {
						t.Error(err)
					}
				}
				answered[key] = true
				if err := p.update(task.TaskID, fmt.Sprintf(`{%q:{"action":"accept","content":{"name":"n%d"}}}`, key, i)); err != nil {
					t.Error(err)
				}
			}
		}
		if got := p.until(task.TaskID, mcp.TaskCompleted); !strings.Contains(string(got.Result), "n0 n1 n2 n3") {
			t.Errorf("got %s", got.Result)
		}
	})
}

// EXT-06: what the extension adds is checked: settings that are none declare nothing,
// and ids, answers and wishes that are none are refused, or mean nothing.
func TestTaskDataIsChecked(t *testing.T) {
	withTasks(t, mcp.Latest, nil, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, _ *gate) {
		task := p.create("confirm", `{}`)
		p.until(task.TaskID, mcp.TaskInputRequired)
		for _, id := range []string{`7`, `null`, `{}`, `[]`, `""`, `true`, fmt.Sprintf(`[%q]`, task.TaskID), fmt.Sprintf(`%q`, task.TaskID+" "), `"` + strings.Repeat("x", 1<<20) + `"`} {
			for _, method := range []string{mcp.MethodGetTask, mcp.MethodCancelTask, mcp.MethodUpdateTask} {
				err := p.do(method, `{"taskId":`+id+`,"inputResponses":{}}`, nil)
				if wantCode(t, method+" "+clip(id), err, mcp.CodeInvalidParams); err != nil && len(err.Message) > 200 {
					t.Errorf("%s %s: a message of %d bytes", method, clip(id), len(err.Message))
				}
			}
		}
		for _, bad := range []string{`7`, `null`, `[]`, `{"confirm":7}`, `{"confirm":null}`, `{"confirm":"yes"}`} {
			wantCode(t, bad, p.update(task.TaskID, bad), mcp.CodeInvalidParams)
		}
		if got := p.state(task.TaskID); got.Status != mcp.TaskInputRequired {
			t.Errorf("after all that: got %+v", got)
		}
		for _, settings := range []string{`7`, `"{}"`, `[]`, `true`} {
			p.extra = `,"extensions":{"io.modelcontextprotocol/tasks":` + settings + `}`
			err := p.do(mcp.MethodGetTask, about(task.TaskID), nil)
			if err == nil || !errors.Is(err, &mcp.Error{Code: mcp.CodeMissingClientCapability}) && !errors.Is(err, &mcp.Error{Code: mcp.CodeInvalidParams}) {
				t.Errorf("with the settings %s: got %v, want an error", settings, err)
			}
		}
		p.extra = extensionOn
		if err := p.update(task.TaskID, `{"confirm":`+accepted+`}`); err != nil {
			t.Error(err)
		}
		p.until(task.TaskID, mcp.TaskCompleted)
	})
}

// CANC-05: notifications/cancelled does not end a task, neither by the id of the request
// that has made it nor by its own; tasks/cancel does.
func TestTasksEndByTheirOwnCancel(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		withTasks(t, v, nil, func(t *testing.T, _ *mcpserver.Server, p *taskPeer, g *gate) {
			task := p.create("slow", `{"seconds":60}`)
			for _, id := range []string{fmt.Sprint(p.last), fmt.Sprintf("%q", task.TaskID)} {
				p.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
			}
			synctest.Wait()
			if got := p.state(task.TaskID); got.Status != mcp.TaskWorking || len(g.ended) != 0 {
				t.Errorf("%s: after notifications/cancelled: got %s, %d handlers have ended", v, got.Status, len(g.ended))
			}
			if err := p.do(mcp.MethodCancelTask, about(task.TaskID), nil); err != nil {
				t.Errorf("%s: tasks/cancel: %v", v, err)
			}
			<-g.ended
			if got := p.state(task.TaskID); got.Status != mcp.TaskCancelled {
				t.Errorf("%s: after tasks/cancel: got %s", v, got.Status)
			}
		})
	}
}
