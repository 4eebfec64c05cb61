package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	mcpschema "github.com/troupe-dev/troupe/internal/mcptest/schema"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

type (
	waitIn struct {
		Seconds float64 `json:"seconds,omitempty"`
	}
	nameIn struct {
		Name string `json:"name"`
	}
	okIn struct {
		OK bool `json:"ok"`
	}
)

func taskTool(name, support string) *mcp.Tool {
	return &mcp.Tool{Name: name, Execution: &mcp.ToolExecution{TaskSupport: support}}
}

// addTaskTools adds tools that may, or must, be tasks.
func addTaskTools(t testing.TB, s *mcpserver.Server, g *gate) {
	t.Helper()
	err := errors.Join(
		mcpserver.AddTool(s, taskTool("slow", mcp.TaskOptional), func(ctx context.Context, req *mcpserver.ToolRequest, in waitIn) (string, error) {
			req.Progress(1, 2, "half")
			req.Log(mcp.LogWarning, "slow", "working")
			select {
			case <-time.After(time.Duration(in.Seconds * float64(time.Second))):
				req.Progress(2, 2, "all")
				return "slept", nil
			case <-ctx.Done():
				note(g.ended, context.Cause(ctx))
				return "", context.Cause(ctx)
			}
		}),
		mcpserver.AddFunc(s, taskTool("must", mcp.TaskRequired), func(context.Context, struct{}) (string, error) { return "done", nil }),
		mcpserver.AddFunc(s, taskTool("fails", mcp.TaskRequired), func(context.Context, struct{}) (string, error) {
			return "", errors.New("no paper")
		}),
		mcpserver.AddFunc(s, taskTool("breaks", mcp.TaskRequired), func(context.Context, struct{}) (string, error) {
			return "", mcp.Errorf(1234, "broken")
		}),
		mcpserver.AddFunc(s, taskTool("panics", mcp.TaskRequired), func(context.Context, struct{}) (string, error) {
			panic("the password is hunter2")
		}),
		mcpserver.AddTool(s, taskTool("confirm", mcp.TaskOptional), func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			in, err := mcpserver.Elicit[okIn](ctx, req, "confirm", "Really?")
			if err != nil {
				return "", err
			}
			return fmt.Sprint("confirmed: ", in.OK), nil
		}),
		mcpserver.AddTool(s, taskTool("both", mcp.TaskRequired), func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			first := mcpserver.FormQuestion("first", askFor("ok"))
			second := mcpserver.FormQuestion("second", askFor("ok"))
			if err := req.Ask(ctx, first, second); err != nil {
				return "", err
			}
			return fmt.Sprintf("%s %s", first.Elicited.Action, second.Elicited.Action), nil
		}),
		mcpserver.AddTool(s, taskTool("late", mcp.TaskRequired), func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			who, err := mcpserver.Elicit[nameIn](ctx, req, "user_name", "Who are you?")
			if err != nil {
				return "", err
			}
			if err := req.BeginTask(ctx); err != nil {
				return "", err
			}
			select {
			case <-time.After(5 * time.Second):
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
			return "Hello, " + who.Name, nil
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
}

func askFor(name string) *mcp.ElicitParams {
	schema := fmt.Sprintf(`{"type":"object","properties":{%q:{"type":"boolean"}},"required":[%q]}`, name, name)
	return &mcp.ElicitParams{Message: "?", RequestedSchema: json.RawMessage(schema)}
}

var lateOptions = map[string]mcpserver.TaskPolicy{"late": {ByHandler: true}, "must": {Immediate: "soon", TTL: time.Minute}}

// withTasks runs f in a bubble with a peer of a server whose tools may be tasks.
func withTasks(t *testing.T, v mcp.Version, opts *mcpserver.Options, f func(t *testing.T, s *mcpserver.Server, p *taskPeer, g *gate)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var o mcpserver.Options
		if opts != nil {
			o = *opts
		}
		var tasks mcpserver.TaskOptions
		if o.Tasks != nil {
			tasks = *o.Tasks
		}
		tasks.Tools = lateOptions
		o.Tasks = &tasks
		s, g := newServer(t, &o)
		addTaskTools(t, s, g)
		f(t, s, newTaskPeer(t, s, v), g)
	})
}

// taskPeer is a client that has tasks.
type taskPeer struct {
	*peer
	last   int
	tasks  *mcpschema.Schemas // of the extension; nil where there are none
	extra  string             // of the capabilities of modern requests
	others []message          // received and not yet looked at
}

// message is what the server says.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *mcp.Error      `json:"error"`
}

const extensionOn = `,"extensions":{"io.modelcontextprotocol/tasks":{}}`

func newTaskPeer(t *testing.T, s *mcpserver.Server, v mcp.Version) *taskPeer {
	t.Helper()
	p := &taskPeer{peer: serve(t, s), extra: extensionOn}
	if official(t, v) != nil {
		p.tasks = mcpschema.LoadTasks(t)
	}
	p.open(v)
	return p
}

// begin sends a request and returns its id.
func (p *taskPeer) begin(method, params string) string {
	p.t.Helper()
	return p.beginIn(p.version, method, params)
}

func (p *taskPeer) beginIn(v mcp.Version, method, params string) string {
	p.t.Helper()
	p.last++
	line := request(v, p.last, method, params)
	line = strings.Replace(line, `"elicitation":{"form":{}}`, `"elicitation":{"form":{}}`+p.extra, 1)
	p.send(line)
	id := fmt.Sprint(p.last)
	if method == mcp.MethodCallTool {
		p.asked[id] = "" // what shape it has is checked where it is known
	}
	return id
}

// answer waits for the answer to a request; what else comes is kept in others.
func (p *taskPeer) answer(id string) message {
	p.t.Helper()
	for i := 0; ; i++ {
		if i == len(p.others) {
			p.others = append(p.others, p.next())
		}
		if m := p.others[i]; m.Method == "" && string(m.ID) == id {
			p.others = slices.Delete(p.others, i, i+1)
			return m
		}
	}
}

// next is the next message of the server.
func (p *taskPeer) next() message {
	p.t.Helper()
	line := p.receive()
	var m message
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		p.t.Fatalf("got %s: %v", clip(line), err)
	}
	switch {
	case p.tasks == nil:
	case m.Method == mcp.NotificationTask:
		p.tasks.Check(p.t, "TaskStatusNotification", []byte(line))
	case m.Method == mcp.NotificationTaskStatus:
		p.check.Check(p.t, "TaskStatusNotification", []byte(line))
	}
	return m
}

// heard takes what was kept, and what has come since, of one method.
func (p *taskPeer) heard(method string) (got []message) {
	p.t.Helper()
	synctest.Wait()
	for len(p.lines) > 0 {
		p.others = append(p.others, p.next())
	}
	var rest []message
	for _, m := range p.others {
		if m.Method == method {
			got = append(got, m)
		} else {
			rest = append(rest, m)
		}
	}
	p.others = rest
	return got
}

// do sends a request and decodes its result.
func (p *taskPeer) do(method, params string, result any) *mcp.Error {
	p.t.Helper()
	return p.doIn(p.version, method, params, result)
}

func (p *taskPeer) doIn(v mcp.Version, method, params string, result any) *mcp.Error {
	p.t.Helper()
	m := p.answer(p.beginIn(v, method, params))
	if m.Error != nil {
		return m.Error
	}
	p.checkTask(v, method, m.Result)
	if result != nil {
		if err := json.Unmarshal(m.Result, result); err != nil {
			p.t.Fatalf("%s: got %s: %v", method, clip(string(m.Result)), err)
		}
	}
	return nil
}

// checkTask holds a result against the schema of its design.
func (p *taskPeer) checkTask(v mcp.Version, method string, result json.RawMessage) {
	p.t.Helper()
	if p.tasks == nil {
		return
	}
	schemas, defs := p.check, map[string]string{
		mcp.MethodGetTask: "GetTaskResult", mcp.MethodCancelTask: "CancelTaskResult", mcp.MethodListTasks: "ListTasksResult", mcp.MethodTaskResult: "GetTaskPayloadResult",
	}
	if v.Era() == mcp.EraModern {
		schemas, defs = p.tasks, map[string]string{
			mcp.MethodGetTask: "GetTaskResult", mcp.MethodCancelTask: "CancelTaskResult", mcp.MethodUpdateTask: "UpdateTaskResult",
		}
	}
	if def := defs[method]; def != "" {
		schemas.Check(p.t, def, result)
	}
}

// create calls a tool and returns its task.
func (p *taskPeer) create(tool, arguments string) mcp.ExtensionTask {
	p.t.Helper()
	return p.createWith(tool, arguments, `{}`)
}

func (p *taskPeer) createWith(tool, arguments, wish string) mcp.ExtensionTask {
	p.t.Helper()
	if p.version.Era() == mcp.EraModern {
		var raw json.RawMessage
		if err := p.do(mcp.MethodCallTool, fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments), &raw); err != nil {
			p.t.Fatalf("calling %s: %v", tool, err)
		}
		if p.tasks != nil {
			p.tasks.Check(p.t, "CreateTaskResult", raw)
		}
		var task mcp.ExtensionTask
		if err := json.Unmarshal(raw, &task); err != nil || task.ResultType != mcp.ResultTask {
			p.t.Fatalf("calling %s: got %s (%v), want a task", tool, raw, err)
		}
		return task
	}
	var raw json.RawMessage
	if err := p.do(mcp.MethodCallTool, fmt.Sprintf(`{"name":%q,"arguments":%s,"task":%s,"_meta":{"progressToken":"p"}}`, tool, arguments, wish), &raw); err != nil {
		p.t.Fatalf("calling %s: %v", tool, err)
	}
	if p.check != nil {
		p.check.Check(p.t, "CreateTaskResult", raw)
	}
	var created mcp.CreateTaskResult
	if err := mcp.Unmarshal(raw, &created); err != nil {
		p.t.Fatalf("calling %s: got %s (%v), want a task", tool, raw, err)
	}
	if got := created.Meta.RelatedTask(); got != created.Task.TaskID { // TASK-11
		p.t.Errorf("the creation of %s says that it belongs to %q", created.Task.TaskID, got)
	}
	c := created.Task
	return mcp.ExtensionTask{TaskID: c.TaskID, Status: c.Status, CreatedAt: c.CreatedAt, LastUpdatedAt: c.LastUpdatedAt, TTLMs: c.TTL, PollIntervalMs: c.PollInterval, Meta: created.Meta}
}

func about(id string) string { return fmt.Sprintf(`{"taskId":%q}`, id) }

// state asks for a task, in either design.
func (p *taskPeer) state(id string) (task mcp.ExtensionTask) {
	p.t.Helper()
	if p.version.Era() == mcp.EraModern {
		if err := p.do(mcp.MethodGetTask, about(id), &task); err != nil {
			p.t.Fatalf("tasks/get: %v", err)
		}
		if err := task.ValidateDetailed(); err != nil || task.ResultType != mcp.ResultComplete {
			p.t.Errorf("tasks/get: got %+v (%v)", task, err)
		}
		return task
	}
	var core mcp.Task
	if err := p.do(mcp.MethodGetTask, about(id), &core); err != nil {
		p.t.Fatalf("tasks/get: %v", err)
	}
	return mcp.ExtensionTask{TaskID: core.TaskID, Status: core.Status, StatusMessage: core.StatusMessage, CreatedAt: core.CreatedAt, LastUpdatedAt: core.LastUpdatedAt, TTLMs: core.TTL, PollIntervalMs: core.PollInterval}
}

// until waits for a status.
func (p *taskPeer) until(id, status string) mcp.ExtensionTask {
	p.t.Helper()
	for range 100 {
		synctest.Wait()
		if task := p.state(id); task.Status == status {
			return task
		}
		time.Sleep(time.Second)
	}
	p.t.Fatalf("the task %s does not become %s: %+v", id, status, p.state(id))
	return mcp.ExtensionTask{}
}

// wantCode compares the code of an error.
func wantCode(t testing.TB, what string, err *mcp.Error, code int64) {
	t.Helper()
	if err == nil || err.Code != code {
		t.Errorf("%s: got %v, want error %d", what, err, code)
	}
}
