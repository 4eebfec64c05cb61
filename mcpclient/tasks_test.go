package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// worker is a server with tasks, of either era, on top of an asker.
type worker struct {
	*asker
	caps string // of the handshake
	list string // of tools/list

	status string // of task t1
	extra  string // members of tasks/get beside
	result string // of tasks/result, or an error if it begins with "!"
	create func(m *mcp.Message) string
	gate   chan struct{} // tasks/result waits for it, if not nil
}

const (
	coreCaps   = `{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}`
	modernCaps = `{"tools":{},"resources":{},"prompts":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	tripleList = `{"tools":[{"name":"must","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}},{"name":"may","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}},{"name":"not","inputSchema":{"type":"object"}}]}`
)

func newWorker(t *testing.T, v mcp.Version) *worker {
	w := &worker{asker: newAsker(t, v), caps: coreCaps, list: tripleList, status: mcp.TaskWorking, result: `{"content":[]}`}
	modern := v.Era() == mcp.EraModern
	if modern {
		w.caps = modernCaps
	}
	w.create = func(*mcp.Message) string {
		if modern {
			return w.task(`"resultType":"task",`)
		}
		return `{"task":` + w.task("") + `}`
	}
	w.on[mcp.MethodInitialize] = func(_ *asker, m *mcp.Message) string {
		var params mcp.InitializeParams
		if err := m.DecodeParams(&params); err != nil {
			t.Error(err)
		}
		w.mu.Lock()
		w.declared = params.Capabilities
		w.mu.Unlock()
		return resultOf(m, `{"protocolVersion":"`+string(v)+`","capabilities":`+w.caps+`,"serverInfo":{"name":"x","version":"1"}}`)
	}
	w.on[mcp.MethodDiscover] = func(_ *asker, m *mcp.Message) string {
		return resultOf(m, `{"resultType":"complete","supportedVersions":["`+string(v)+`"],"capabilities":`+w.caps+`}`)
	}
	w.on[mcp.MethodListTools] = func(_ *asker, m *mcp.Message) string {
		return resultOf(m, strings.TrimSuffix(w.list, "}")+`,"resultType":"complete","ttlMs":100000000}`)
	}
	w.on[mcp.MethodCallTool] = func(_ *asker, m *mcp.Message) string {
		if !modern && !strings.Contains(string(m.Params), `"task"`) {
			return resultOf(m, `{"content":[{"type":"text","text":"plain"}]}`)
		}
		if created := w.create(m); created != "" {
			return resultOf(m, created)
		}
		return ""
	}
	w.on[mcp.MethodGetTask] = func(_ *asker, m *mcp.Message) string {
		if w.get() == "gone" {
			return errorOf(m, mcp.CodeInvalidParams, "no such task")
		}
		if modern {
			return resultOf(m, w.task(`"resultType":"complete",`))
		}
		return resultOf(m, w.task(""))
	}
	w.on[mcp.MethodTaskResult] = func(_ *asker, m *mcp.Message) string {
		if w.gate != nil {
			<-w.gate
		}
		if text, failed := strings.CutPrefix(w.result, "!"); failed {
			return errorOf(m, mcp.CodeInternal, text)
		}
		return resultOf(m, w.result)
	}
	w.on[mcp.MethodCancelTask] = func(_ *asker, m *mcp.Message) string {
		if modern {
			return resultOf(m, `{"resultType":"complete"}`)
		}
		w.set(mcp.TaskCancelled, "")
		return resultOf(m, w.task(""))
	}
	return w
}

// dial connects a client that takes tasks in every revision.
func (w *worker) dial(opts *Options) *Client {
	w.t.Helper()
	opts.Extensions = map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage("{}")}
	return w.asker.dial(opts)
}

func errorOf(m *mcp.Message, code int64, text string) string {
	return string(mcp.AppendError(nil, m.ID, mcp.Errorf(code, "%s", text)))
}

func (w *worker) set(status, extra string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status, w.extra = status, extra
}

func (w *worker) get() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

// task is t1 as it is now; more are members before.
func (w *worker) task(more string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	ms := ""
	if w.version.Era() == mcp.EraModern {
		ms = "Ms"
	}
	extra := w.extra
	if strings.Contains(more, `"task"`) {
		extra = ""
	}
	return fmt.Sprintf(`{%s"taskId":"t1","status":%q,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl%s":60000,"pollInterval%s":1000%s}`, more, w.status, ms, ms, extra)
}

// methods are those that the client has used since the handshake, in short.
func (w *worker) methods() string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, m := range w.heard {
		switch m.Method {
		case "", mcp.MethodInitialize, mcp.MethodDiscover, mcp.NotificationInitialized, mcp.MethodListTools:
		default:
			out = append(out, m.Method)
		}
	}
	return strings.Join(out, " ")
}

// TASK-02, TASK-05: a call is a task where server and tool say so, and not otherwise.
func TestTaskSupport(t *testing.T) {
	const noCalls = `{"tools":{},"tasks":{"list":{},"cancel":{}}}`
	tests := []struct {
		caps, tool string
		version    mcp.Version
		wants, is  bool
	}{
		{coreCaps, "must", mcp.V2025_11_25, false, true},
		{coreCaps, "may", mcp.V2025_11_25, false, false},
		{coreCaps, "may", mcp.V2025_11_25, true, true},
		{coreCaps, "not", mcp.V2025_11_25, true, false},
		{coreCaps, "unheard-of", mcp.V2025_11_25, true, false},
		{noCalls, "must", mcp.V2025_11_25, true, false},
		{coreCaps, "must", mcp.V2025_06_18, true, false},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s %s %v", tt.version, tt.tool, tt.wants), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := newWorker(t, tt.version)
				w.caps = tt.caps
				w.set(mcp.TaskCompleted, "")
				c := w.dial(&Options{})
				if _, err := c.CallTool(t.Context(), tt.tool, json.RawMessage(`{"a":1}`), &CallOptions{Task: tt.wants}); err != nil {
					t.Fatal(err)
				}
				params := string(w.requests(mcp.MethodCallTool)[0].Params)
				if is := strings.Contains(params, `"arguments":{"a":1},"task":{}`); is != tt.is {
					t.Errorf("asked with %s, want a task: %v", params, tt.is)
				}
				_, err := c.CallToolTask(t.Context(), tt.tool, nil, &TaskOptions{TTL: time.Second})
				if tt.tool != "may" && errors.Is(err, ErrUnsupported) == tt.is {
					t.Errorf("CallToolTask: got %v, want a task: %v", err, tt.is)
				}
				if calls := w.requests(mcp.MethodCallTool); tt.is && !strings.Contains(string(calls[1].Params), `"task":{"ttl":1000}`) {
					t.Errorf("asked with %s, want a ttl", calls[1].Params)
				}
			})
		})
	}
}

// TASK-02: a server that answers as if nobody had asked for a task.
func TestTaskIgnored(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorker(t, mcp.V2025_11_25)
		w.create = func(*mcp.Message) string { return `{"content":[{"type":"text","text":"at once"}]}` }
		c := w.dial(&Options{})
		res, err := c.CallTool(t.Context(), "must", nil, nil)
		if err != nil || len(res.Content) != 1 {
			t.Errorf("CallTool: got %+v, %v", res, err)
		}
		task, err := c.CallToolTask(t.Context(), "must", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := task.Wait(t.Context()); err != nil || len(res.Content) != 1 || task.ID() != "" {
			t.Errorf("Wait: got %+v, %v", res, err)
		}
		w.create = func(*mcp.Message) string { return `{"task":{"taskId":"","status":"dancing"}}` }
		if _, err := c.CallTool(t.Context(), "must", nil, nil); !errors.Is(err, call.ErrInvalidResponse) {
			t.Errorf("a task that is none: got %v, want %v", err, call.ErrInvalidResponse)
		}
	})
}

// TASK-03, TASK-08, TASK-09, TASK-10, TASK-11, TASK-19, PROG-06, TIME-05: a tool that
// must be a task reports progress, asks a question, and ends; to the caller it is one
// call. Its maximum stands still while somebody is asked.
func TestToolTask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorker(t, mcp.V2025_11_25)
		w.gate = make(chan struct{})
		tokens := make(chan string, 1)
		w.create = func(m *mcp.Message) string {
			tokens <- m.Progress.String()
			return `{"task":` + w.task("") + `,"_meta":{"io.modelcontextprotocol/model-immediate-response":"soon"}}`
		}
		w.result = `{"content":[{"type":"text","text":"done"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}`
		human := &decider{decide: func(context.Context, *Ask) (*Decision, error) {
			time.Sleep(5 * time.Minute)
			return &Decision{Action: mcp.ActionAccept, Content: map[string]json.RawMessage{"a": json.RawMessage(`"yes"`)}}, nil
		}}
		c := w.dial(&Options{AskOptions: AskOptions{Human: human}})
		w.set(mcp.TaskWorking, "")
		var progress []float64
		var tasks []*Task
		go func() {
			token := <-tokens
			time.Sleep(5 * time.Second)
			for i := 1; i < 4; i++ {
				w.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}}`, token, i))
			}
			w.set(mcp.TaskInputRequired, "")
			for len(w.requests(mcp.MethodTaskResult)) == 0 {
				time.Sleep(time.Second)
			}
			answer := w.ask("q", mcp.MethodElicit, `{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}`)
			if !strings.Contains(answer, `"yes"`) {
				t.Errorf("the question was answered with %s", answer)
			}
			w.set(mcp.TaskCompleted, "")
			close(w.gate)
		}()
		res, err := c.CallTool(t.Context(), "must", nil, &CallOptions{
			Max: time.Minute, Idle: 2 * time.Second, Path: []string{"agent"},
			Progress: func(p Progress) { progress = append(progress, p.Progress) },
			OnTask:   func(task *Task) { tasks = append(tasks, task) },
		})
		if err != nil || len(res.Content) != 1 {
			t.Fatalf("CallTool: got %+v, %v", res, err)
		}
		if fmt.Sprint(progress) != "[1 2 3]" {
			t.Errorf("progress: got %v, want that of the task", progress)
		}
		if len(tasks) != 1 || tasks[0].ID() != "t1" || tasks[0].Immediate() != "soon" {
			t.Errorf("OnTask: got %v", tasks)
		}
		if asks := human.seen(); len(asks) != 1 || len(asks[0].Calls) != 1 || asks[0].Calls[0].Name != "must" || fmt.Sprint(asks[0].Path) != "[agent]" {
			t.Errorf("asked %d times, %+v, want it to belong to the call", len(asks), *asks[0])
		}
		for _, method := range []string{mcp.MethodGetTask, mcp.MethodTaskResult} {
			for _, m := range w.requests(method) {
				if strings.Contains(string(m.Params), "related-task") || !strings.Contains(string(m.Params), `"taskId":"t1"`) { // TASK-11
					t.Errorf("%s: asked with %s", method, m.Params)
				}
			}
		}
		if n := len(w.requests(mcp.MethodTaskResult)); n != 1 {
			t.Errorf("tasks/result was asked for %d times, want once", n)
		}
	})
}

// CANC-05, TASK-12, XTASK-13, XTASK-15: a call that is given up is cancelled as a task:
// never with notifications/cancelled, neither before the task is known nor after.
func TestToolTaskGivenUp(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		for _, known := range []bool{true, false} {
			for _, timeout := range []bool{true, false} {
				if !known && v == mcp.V2026_07_28 {
					continue // nobody knows that it will be a task: an ordinary request
				}
				t.Run(fmt.Sprintf("%s known=%v timeout=%v", v, known, timeout), func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						w := newWorker(t, v)
						create := w.create
						w.create = func(m *mcp.Message) string {
							if !known {
								time.Sleep(time.Minute)
							}
							return create(m)
						}
						c := w.dial(&Options{})
						o := &CallOptions{Max: 10 * time.Second}
						ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
						defer cancel()
						want := context.DeadlineExceeded
						if timeout {
							ctx, want = t.Context(), call.ErrTimeout
						}
						if _, err := c.CallTool(ctx, "must", nil, o); !errors.Is(err, want) {
							t.Errorf("CallTool: got %v, want %v", err, want)
						}
						time.Sleep(2 * time.Minute)
						got := w.methods()
						if !strings.HasSuffix(got, mcp.MethodCancelTask) || strings.Count(got, mcp.MethodCancelTask) != 1 || strings.Contains(got, mcp.NotificationCancelled) {
							t.Errorf("the server heard %s, want one tasks/cancel at the end", got)
						}
					})
				})
			}
		}
	}
}

// TASK-07, XTASK-06, XTASK-08: what a task ends with, as the caller of the tool sees it.
func TestToolTaskOutcomes(t *testing.T) {
	tests := []struct {
		name    string
		v       mcp.Version
		status  string
		extra   string
		result  string
		isError bool
		want    error
	}{
		{"failed tool", mcp.V2025_11_25, mcp.TaskFailed, "", `{"content":[],"isError":true}`, true, nil},
		{"failed request", mcp.V2025_11_25, mcp.TaskFailed, "", "!broken", false, mcp.ErrInternal},
		{"cancelled", mcp.V2025_11_25, mcp.TaskCancelled, "", "", false, ErrTaskCancelled},
		{"gone", mcp.V2025_11_25, "gone", "", "", false, ErrTaskUnknown},
		{"failed tool", mcp.V2026_07_28, mcp.TaskCompleted, `,"result":{"content":[],"isError":true}`, "", true, nil},
		{"failed request", mcp.V2026_07_28, mcp.TaskFailed, `,"error":{"code":-32603,"message":"broken"}`, "", false, mcp.ErrInternal},
		{"cancelled", mcp.V2026_07_28, mcp.TaskCancelled, "", "", false, ErrTaskCancelled},
		{"gone", mcp.V2026_07_28, "gone", "", "", false, ErrTaskUnknown},
		{"no result", mcp.V2026_07_28, mcp.TaskCompleted, `,"result":{"content":5}`, "", false, call.ErrInvalidResponse},
	}
	for _, tt := range tests {
		t.Run(tt.name+" "+string(tt.v), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := newWorker(t, tt.v)
				w.result = tt.result
				c := w.dial(&Options{})
				time.AfterFunc(3*time.Second, func() { w.set(tt.status, tt.extra) })
				res, err := c.CallTool(t.Context(), "must", nil, nil)
				if !errors.Is(err, tt.want) || tt.want == nil && (err != nil || res.IsError != tt.isError) {
					t.Errorf("CallTool: got %+v, %v, want isError %v, %v", res, err, tt.isError, tt.want)
				}
			})
		})
	}
}

// XTASK-01, XTASK-02, XTASK-03, XTASK-09, XTASK-10, XTASK-12, XTASK-15, XTASK-16,
// XTASK-19, XTASK-21: every request declares the extension, and only that; a call that
// the server makes a task of is polled and asked for input, and ends as a call does.
func TestExtensionTask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorker(t, mcp.V2026_07_28)
		human := says(mcp.ActionAccept, "a", `"yes"`)
		c := w.dial(&Options{AskOptions: AskOptions{Human: human}})
		w.on[mcp.MethodUpdateTask] = func(_ *asker, m *mcp.Message) string {
			w.set(mcp.TaskCompleted, `,"result":{"content":[{"type":"text","text":"done"}]}`)
			return resultOf(m, `{"resultType":"complete"}`)
		}
		time.AfterFunc(10*time.Second, func() {
			w.set(mcp.TaskInputRequired, `,"inputRequests":{"k":{"method":"elicitation/create","params":{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}}}}`)
		})
		res, err := c.CallTool(t.Context(), "not", nil, &CallOptions{Idle: 2 * time.Second})
		if err != nil || len(res.Content) != 1 {
			t.Fatalf("CallTool: got %+v, %v", res, err)
		}
		updates := w.requests(mcp.MethodUpdateTask)
		if len(updates) != 1 || !strings.Contains(string(updates[0].Params), `"inputResponses":{"k":{"action":"accept","content":{"a":"yes"}}}`) {
			t.Errorf("answered with %v", updates)
		}
		if n := len(human.seen()); n != 1 {
			t.Errorf("asked %d times, want once", n)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, m := range w.heard {
			params := string(m.Params)
			if m.Kind == mcp.KindRequest && (!strings.Contains(params, `"extensions":{"io.modelcontextprotocol/tasks":{}}`) || strings.Contains(params, `"tasks":{"`)) {
				t.Errorf("%s declares %s", m.Method, params)
			}
			if m.Method == mcp.MethodTaskResult || m.Method == mcp.MethodCallTool && strings.Contains(params, `"task":`) {
				t.Errorf("the core's tasks are used: %s %s", m.Method, params)
			}
		}
	})
}

// XTASK-14: where the server announces a task it is told of its end, and hardly asked.
func TestTaskIsAnnounced(t *testing.T) {
	for _, announces := range []bool{true, false} {
		t.Run(fmt.Sprint(announces), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := newWorker(t, mcp.V2026_07_28)
				a := &announcer{asker: w.asker}
				w.on[mcp.MethodListen] = func(_ *asker, m *mcp.Message) string {
					filter := filterOf(m)
					if !announces {
						filter = "{}"
					}
					a.notify(mcp.NotificationListenAcknowledged, m.ID.String(), `,"notifications":`+filter)
					return ""
				}
				c := w.dial(&Options{ListenForTasks: true})
				time.AfterFunc(5*time.Minute+time.Second/2, func() {
					w.set(mcp.TaskCompleted, `,"result":{"content":[]}`)
					ids, filters := a.open()
					if len(ids) != 1 || filters[0] != `{"taskIds":["t1"]}` {
						t.Errorf("open: %v %v", ids, filters)
						return
					}
					a.notify(mcp.NotificationTask, ids[0].String(), ","+strings.Trim(w.task(""), "{")[:len(w.task(""))-2])
				})
				begin := time.Now()
				if _, err := c.CallTool(t.Context(), "not", nil, &CallOptions{Max: time.Hour}); err != nil {
					t.Fatal(err)
				}
				took, polls := time.Since(begin), len(w.requests(mcp.MethodGetTask))
				if announces && (polls > 12 || took > 5*time.Minute+time.Second) || !announces && polls < 200 {
					t.Errorf("announced: %v; asked %d times, it took %v", announces, polls, took)
				}
				time.Sleep(time.Second)
				if ids, _ := a.open(); len(ids) != 0 {
					t.Errorf("still listening: %v", ids)
				}
			})
		})
	}
}

// EXT-02, XTASK-01, XTASK-16: the extension is off unless the program wants it; then
// nothing of it is declared or used, and a task is no answer.
func TestTasksAreOptIn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorker(t, mcp.V2026_07_28)
		c := w.asker.dial(&Options{})
		if _, err := c.CallTool(t.Context(), "not", nil, nil); !errors.Is(err, call.ErrInvalidResponse) {
			t.Errorf("a task that nobody declared: got %v, want %v", err, call.ErrInvalidResponse)
		}
		if _, err := c.Task(t.Context(), "t1"); !errors.Is(err, ErrUnsupported) {
			t.Errorf("Task: got %v, want %v", err, ErrUnsupported)
		}
		w.create = func(*mcp.Message) string { return `{"resultType":"complete","content":[]}` }
		task, err := c.CallToolTask(t.Context(), "not", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok, err := task.Result(); !ok || err != nil {
			t.Errorf("Result: got %v, %v", ok, err)
		}
		for _, m := range w.requests(mcp.MethodCallTool) {
			if strings.Contains(string(m.Params), "tasks") {
				t.Errorf("declared %s", m.Params)
			}
		}
	})
}

// XTASK-03, XTASK-22, BASE-12: a task for what can be none, or in a legacy session, is
// no answer; and there the extension is not declared.
func TestTaskWhereNoneCanBe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorker(t, mcp.V2026_07_28)
		w.on[mcp.MethodGetPrompt] = func(_ *asker, m *mcp.Message) string { return resultOf(m, w.task(`"resultType":"task",`)) }
		c := w.dial(&Options{})
		if _, err := c.GetPrompt(t.Context(), "p", nil, nil); !errors.Is(err, call.ErrInvalidResponse) {
			t.Errorf("prompts/get: got %v, want %v", err, call.ErrInvalidResponse)
		}
		if got := w.methods(); got != mcp.MethodGetPrompt {
			t.Errorf("the server heard %s", got)
		}
	})
	inBubble(t, func(t *testing.T) {
		w := newWorker(t, mcp.V2025_11_25)
		w.on[mcp.MethodCallTool] = func(_ *asker, m *mcp.Message) string { return resultOf(m, w.task(`"resultType":"task",`)) }
		c := w.dial(&Options{})
		if _, err := c.CallTool(t.Context(), "not", nil, nil); err == nil {
			t.Error("an extension's task in a legacy session: got no error")
		}
		if w.declared.Extensions != nil || w.declared.Tasks != nil {
			t.Errorf("declared %+v, want no tasks", w.declared)
		}
	})
}

// A task goes on over a reconnect as long as the server knows it, and so does the call
// that waits for it.
func TestTaskOutlivesConnection(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		for _, knows := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s %v", v, knows), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					w := newWorker(t, v)
					c := w.dial(&Options{})
					time.AfterFunc(5*time.Second, func() {
						w.mu.Lock()
						p := w.proc
						w.mu.Unlock()
						if !knows {
							w.set("gone", "")
						}
						p.end("signal: killed")
					})
					time.AfterFunc(time.Minute, func() {
						if knows {
							w.set(mcp.TaskCompleted, `,"result":{"content":[]}`)
						}
					})
					_, err := c.CallTool(t.Context(), "must", nil, nil)
					if knows && err != nil || !knows && !errors.Is(err, ErrTaskUnknown) {
						t.Errorf("CallTool: got %v", err)
					}
					if n := c.Status().Generation; n != 2 {
						t.Errorf("generation %d, want 2", n)
					}
				})
			})
		}
	}
}

// The handle of a task: it is waited for, left, found again, asked about and cancelled.
func TestTaskHandle(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		t.Run(string(v), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := newWorker(t, v)
				c := w.dial(&Options{})
				task, err := c.CallToolTask(t.Context(), "must", nil, nil)
				if err != nil || task.ID() != "t1" || task.State().Status != mcp.TaskWorking {
					t.Fatalf("CallToolTask: got %+v, %v", task, err)
				}
				if _, ok, _ := task.Result(); ok {
					t.Error("there is a result")
				}
				if s, err := task.Status(t.Context()); err != nil || s.Status != mcp.TaskWorking || s.TTL != time.Minute {
					t.Errorf("Status: got %+v, %v", s, err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if _, err := task.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Wait: got %v", err)
				}
				before := w.methods()
				time.Sleep(time.Hour)
				if got := w.methods(); got != before || strings.Contains(got, "cancel") {
					t.Errorf("the server heard %s after %s, want nothing more", got, before)
				}
				found, err := c.Task(t.Context(), "t1")
				if err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(3*time.Second, func() { w.set(mcp.TaskCompleted, `,"result":{"content":[]}`) })
				var wg sync.WaitGroup
				for _, h := range []*Task{task, found, task} {
					wg.Go(func() {
						if res, err := h.Wait(t.Context()); err != nil || res == nil {
							t.Errorf("Wait: got %v, %v", res, err)
						}
					})
				}
				wg.Wait()
				if res, ok, err := found.Result(); !ok || err != nil || res == nil {
					t.Errorf("Result: got %v, %v, %v", res, ok, err)
				}
				w.set(mcp.TaskWorking, "")
				other, err := c.CallToolTask(t.Context(), "must", nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := other.Cancel(t.Context()); err != nil {
					t.Errorf("Cancel: %v", err)
				}
				w.set(mcp.TaskCancelled, "")
				if _, err := other.Wait(t.Context()); !errors.Is(err, ErrTaskCancelled) {
					t.Errorf("Wait: got %v, want %v", err, ErrTaskCancelled)
				}
				w.set("gone", "")
				lost, err := c.Task(t.Context(), "t9")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := lost.Wait(t.Context()); !errors.Is(err, ErrTaskUnknown) {
					t.Errorf("Wait: got %v, want %v", err, ErrTaskUnknown)
				}
				if _, err := lost.Status(t.Context()); !errors.Is(err, mcp.ErrInvalidParams) {
					t.Errorf("Status: got %v, want -32602", err)
				}
			})
		})
	}
}

// TASK-13, XTASK-19, CAP-03: the list of tasks, where there is one.
func TestListTasks(t *testing.T) {
	tests := []struct {
		v    mcp.Version
		caps string
		want int
	}{
		{mcp.V2025_11_25, coreCaps, 3}, {mcp.V2025_11_25, `{"tools":{},"tasks":{}}`, -1}, {mcp.V2025_11_25, `{"tools":{}}`, -1},
		{mcp.V2025_06_18, coreCaps, -1}, {mcp.V2026_07_28, modernCaps, -1},
	}
	for _, tt := range tests {
		t.Run(string(tt.v)+tt.caps, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := newWorker(t, tt.v)
				w.caps = tt.caps
				w.on[mcp.MethodListTasks] = func(_ *asker, m *mcp.Message) string {
					if strings.Contains(string(m.Params), `"cursor":"2"`) {
						return resultOf(m, `{"tasks":[`+w.task("")+`]}`)
					}
					return resultOf(m, `{"tasks":[`+w.task("")+`,{"taskId":"broken"},`+w.task("")+`],"nextCursor":"2"}`)
				}
				c := w.dial(&Options{})
				tasks, err := c.ListTasks(t.Context())
				if tt.want < 0 && !errors.Is(err, ErrUnsupported) || tt.want >= 0 && (err != nil || len(tasks) != tt.want) {
					t.Errorf("ListTasks: got %v, %v, want %d", tasks, err, tt.want)
				}
			})
		})
	}
}

// TASK-14: a notice of a task's status is a hint; without one the task is asked for.
func TestTaskStatusNotice(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorker(t, mcp.V2025_11_25)
		w.create = func(*mcp.Message) string {
			return `{"task":` + strings.Replace(w.task(""), `"pollInterval":1000`, `"pollInterval":200000`, 1) + `}`
		}
		c := w.dial(&Options{})
		time.AfterFunc(5*time.Second, func() {
			w.say(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":1}}`)
			w.set(mcp.TaskCompleted, "")
			w.say(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":` + w.task("") + `}`)
		})
		begin := time.Now()
		if _, err := c.CallTool(t.Context(), "must", nil, nil); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("it took %v, want the hint to be followed", took)
		}
	})
}

// TASK-02, TASK-03, TASK-04, TASK-08, TASK-09, TASK-11, TASK-12, TASK-13, TASK-16,
// TASK-20, SAMP-42, ELIC-15: questions of a server as tasks of ours.
func TestServedTasks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorker(t, mcp.V2025_11_25)
		human := &decider{decide: func(ctx context.Context, a *Ask) (*Decision, error) {
			select {
			case <-time.After(5 * time.Minute):
				return &Decision{Action: mcp.ActionDecline}, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}}
		w.dial(&Options{AskOptions: AskOptions{Human: human, Sampler: model("hello"), SampleFreely: true}})
		raw, err := mcp.Marshal(w.declared.Tasks)
		if err != nil {
			t.Fatal(err)
		}
		wantJSON(t, "declared", string(raw), `{"list":{},"cancel":{},"requests":{"sampling":{"createMessage":{}},"elicitation":{"create":{}}}}`)

		begin := time.Now()
		created := func(id, method, params string) mcp.Task {
			var res mcp.CreateTaskResult
			answer := w.ask(id, method, strings.TrimSuffix(params, "}")+`,"task":{"ttl":3600000}}`)
			if err := decode([]byte(answer), &res); err != nil {
				t.Fatalf("%s: got %s", method, answer)
			}
			return res.Task
		}
		form := created("1", mcp.MethodElicit, elicitForm("hi"))
		sample := created("2", mcp.MethodCreateMessage, sampleHello)
		doomed := created("3", mcp.MethodElicit, elicitForm("hi"))
		if took := time.Since(begin); took > time.Second || *form.TTL != 3_600_000 || form.Status != mcp.TaskWorking {
			t.Errorf("created %+v after %v", form, took)
		}
		if got := w.ask("4", mcp.MethodGetTask, `{"taskId":"`+form.TaskID+`"}`); !strings.Contains(got, `"status":"working"`) || strings.Contains(got, "related-task") {
			t.Errorf("tasks/get: got %s", got)
		}
		if got := w.ask("5", mcp.MethodTaskResult, `{"taskId":"`+sample.TaskID+`"}`); !strings.Contains(got, `"hello"`) || !strings.Contains(got, `"io.modelcontextprotocol/related-task":{"taskId":"`+sample.TaskID+`"}`) {
			t.Errorf("tasks/result: got %s", got)
		}
		if got := w.ask("6", mcp.MethodCancelTask, `{"taskId":"`+doomed.TaskID+`"}`); !strings.Contains(got, `"status":"cancelled"`) {
			t.Errorf("tasks/cancel: got %s", got)
		}
		for i, ask := range []string{mcp.MethodCancelTask, mcp.MethodCancelTask, mcp.MethodGetTask, mcp.MethodTaskResult} {
			id := doomed.TaskID
			if i > 0 {
				id = "unknown"
			}
			if got := w.ask(fmt.Sprint("7", i), ask, `{"taskId":"`+id+`","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"`+form.TaskID+`"}}}`); !strings.HasPrefix(got, "-32602") {
				t.Errorf("%s of %s: got %s, want -32602", ask, id, got)
			}
		}
		for i, params := range []string{`{"cursor":"?"}`, `{}`, ``} {
			got := w.ask(fmt.Sprint("8", i), mcp.MethodListTasks, params)
			if i == 0 != strings.HasPrefix(got, "-32602") || i > 0 && strings.Count(got, `"taskId"`) != 3 {
				t.Errorf("tasks/list %s: got %s", params, got)
			}
		}
		if got := w.ask("9", mcp.MethodElicit, strings.TrimSuffix(elicitForm("hi"), "}")+`,"task":5}`); !strings.HasPrefix(got, "-32602") {
			t.Errorf("a task of the wrong shape: got %s", got)
		}
		waited := w.ask("10", mcp.MethodTaskResult, `{"taskId":"`+form.TaskID+`"}`)
		if took := time.Since(begin); took != 5*time.Minute || !strings.Contains(waited, `"action":"decline"`) {
			t.Errorf("tasks/result: got %s after %v, want it to wait", waited, took)
		}
		synctest.Wait()
		if n := len(w.requests(mcp.NotificationTaskStatus)); n != 3 {
			t.Errorf("told of %d changes, want 3", n)
		}
	})
}

// TASK-02: where it was not declared, the wish for a task is ignored.
func TestServedTasksNotDeclared(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2025_06_18)
		s.dial(&Options{AskOptions: AskOptions{Human: says(mcp.ActionDecline)}})
		if s.declared.Tasks != nil {
			t.Errorf("declared %+v", s.declared.Tasks)
		}
		wantJSON(t, "an elicitation", s.ask("1", mcp.MethodElicit, strings.TrimSuffix(elicitForm("hi"), "}")+`,"task":{}}`), `{"action":"decline"}`)
		if got := s.ask("2", mcp.MethodGetTask, `{"taskId":"x"}`); !strings.HasPrefix(got, "-32601") {
			t.Errorf("tasks/get: got %s, want -32601", got)
		}
	})
}
