package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// workTime is how long a tool of these tests works.
const workTime = time.Second

type sure struct {
	Sure bool `json:"sure"`
}

// taskServer is a server of ours whose tools are tasks.
func taskServer(t *testing.T, opts *mcpserver.Options) *mcpserver.Server {
	t.Helper()
	sys, err := actors.NewSystem(nil)
	if err != nil {
		t.Fatal(err)
	}
	var o mcpserver.Options
	if opts != nil {
		o = *opts
	}
	o.System = sys
	o.Tasks = &mcpserver.TaskOptions{Poll: 100 * time.Millisecond, Tools: map[string]mcpserver.TaskPolicy{"order": {ByHandler: true}}}
	s, err := mcpserver.New(mcp.Implementation{Name: "tasks", Version: "1"}, &o)
	if err != nil {
		t.Fatal(err)
	}
	tool := func(name string) *mcp.Tool {
		return &mcp.Tool{Name: name, Description: name, Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskRequired}}
	}
	wait := func(ctx context.Context, d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	err = errors.Join(
		mcpserver.AddTool(s, tool("work"), func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			req.Progress(1, 2, "half")
			return "worked", wait(ctx, workTime)
		}),
		mcpserver.AddFunc(s, tool("hold"), func(ctx context.Context, _ struct{}) (string, error) {
			return "held", wait(ctx, time.Hour)
		}),
		mcpserver.AddTool(s, tool("remove"), func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			if err := wait(ctx, time.Second); err != nil {
				return "", err
			}
			in, err := mcpserver.Elicit[sure](ctx, req, "sure", "Really remove it?")
			if err != nil {
				return "", err
			}
			if !in.Sure {
				return "kept", nil
			}
			return "removed", nil
		}),
		mcpserver.AddTool(s, tool("order"), func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			in, err := mcpserver.Elicit[sure](ctx, req, "sure", "Really order it?")
			if err != nil || !in.Sure {
				return "not ordered", err
			}
			if err := req.BeginTask(ctx); err != nil {
				return "", err
			}
			return "ordered", wait(ctx, workTime)
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing the server: %v", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := sys.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if c := sys.Census(); c.Live() != 0 || len(c.Tasks) != 0 {
			t.Errorf("left over: %+v", c)
		}
		time.Sleep(time.Second)
	})
	return s
}

// taskClient is a client that takes tasks; person answers for it.
func taskClient(t *testing.T, server mcpclient.Server, person *Person) *mcpclient.Client {
	t.Helper()
	c, err := mcpclient.Dial(t.Context(), server, &mcpclient.Options{
		Extensions: map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage(`{}`)},
		AskOptions: mcpclient.AskOptions{Human: person},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("closing the client: %v", err)
		}
	})
	return c
}

// eachTaskClient runs f for both designs of tasks, in memory and over HTTP; its clock is
// a real one there.
func eachTaskClient(t *testing.T, f func(t *testing.T, c *mcpclient.Client, person *Person)) {
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		run := func(t *testing.T, server mcpclient.Server) {
			server.Name, server.Protocol = "tasks", string(v)
			person := &Person{Fills: map[string]json.RawMessage{"sure": json.RawMessage("true")}}
			f(t, taskClient(t, server, person), person)
		}
		t.Run(string(v)+"/memory", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { run(t, mcpclient.Server{Connect: taskServer(t, nil)}) })
		})
		t.Run(string(v)+"/http", func(t *testing.T) {
			t.Parallel()
			web := httptest.NewServer(taskServer(t, nil).Handler())
			t.Cleanup(web.Close)
			run(t, mcpclient.Server{URL: web.URL})
		})
	}
}

// TASK-03, TASK-08, TASK-09, XTASK-02, XTASK-06: the client of this module sees only the
// result of a call that is a task at the server.
func TestServerTaskResult(t *testing.T) {
	eachTaskClient(t, func(t *testing.T, c *mcpclient.Client, _ *Person) {
		var made []*mcpclient.Task
		res, err := c.CallTool(t.Context(), "work", nil, &mcpclient.CallOptions{OnTask: func(task *mcpclient.Task) { made = append(made, task) }})
		if err != nil || res.Content.Text() != "worked" || len(made) != 1 {
			t.Errorf("CallTool: got %+v, %v, and %d tasks", res, err, len(made))
		}
	})
}

// TASK-10, XTASK-05, XTASK-10: a task's question reaches the person, also one that comes
// before there is a task, and its answer the handler.
func TestServerTaskAsks(t *testing.T) {
	eachTaskClient(t, func(t *testing.T, c *mcpclient.Client, person *Person) {
		for tool, want := range map[string]string{"remove": "removed", "order": "ordered"} {
			res, err := c.CallTool(t.Context(), tool, nil, nil)
			if err != nil || res.Content.Text() != want {
				t.Errorf("CallTool(%q): got %q, %v, want %s", tool, res.Content.Text(), err, want)
			}
		}
		person.mu.Lock()
		defer person.mu.Unlock()
		if len(person.asks) != 2 {
			t.Errorf("the person was asked %d times, want twice", len(person.asks))
		}
	})
}

// TASK-12, XTASK-13, XTASK-09: a task is found again by its id, and cancelled.
func TestServerTaskCancelled(t *testing.T) {
	eachTaskClient(t, func(t *testing.T, c *mcpclient.Client, _ *Person) {
		task, err := c.CallToolTask(t.Context(), "hold", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := task.Status(t.Context()); err != nil || s.Status != mcp.TaskWorking {
			t.Errorf("Status: got %+v, %v", s, err)
		}
		again, err := c.Task(t.Context(), task.ID())
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Cancel(t.Context()); err != nil {
			t.Errorf("Cancel: %v", err)
		}
		if _, err := task.Wait(t.Context()); !errors.Is(err, mcpclient.ErrTaskCancelled) {
			t.Errorf("Wait: got %v, want that it was cancelled", err)
		}
		unknown, err := c.Task(t.Context(), "unknown")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := unknown.Wait(t.Context()); !errors.Is(err, mcpclient.ErrTaskUnknown) {
			t.Errorf("Wait for an unknown one: got %v", err)
		}
	})
}

// XTASK-14: a client that listens for its tasks hears of their end at once.
func TestServerTaskAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := mcpclient.Dial(t.Context(), mcpclient.Server{Name: "tasks", Protocol: string(mcp.Latest), Connect: taskServer(t, nil)}, &mcpclient.Options{
			Extensions:     map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage(`{}`)},
			ListenForTasks: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		begin := time.Now()
		if res, err := c.CallTool(t.Context(), "work", nil, nil); err != nil || res.Content.Text() != "worked" || time.Since(begin) > workTime+100*time.Millisecond {
			t.Errorf("CallTool: got %+v, %v after %v, want its result after 1 s", res, err, time.Since(begin))
		}
	})
}

// TASK-13, TASK-17, XTASK-18, SECA-12: tasks of one principal are not there for another,
// in either design, by whatever id.
func TestServerTasksOfPrincipals(t *testing.T) {
	s := taskServer(t, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{Authenticate: func(r *http.Request) (*mcpserver.Principal, error) {
		who := r.Header.Get("X-User")
		if who == "" {
			return nil, nil
		}
		return &mcpserver.Principal{ID: who}, nil
	}}})
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	dial := func(who string, v mcp.Version) *mcpclient.Client {
		server := mcpclient.Server{Name: who + string(v), URL: web.URL, Protocol: string(v)}
		if who != "" {
			server.Headers = map[string]string{"X-User": who}
		}
		return taskClient(t, server, &Person{})
	}
	versions := []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28}
	for _, v := range versions {
		owner := dial("ada", v)
		task, err := owner.CallToolTask(t.Context(), "hold", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range versions {
			for _, who := range []string{"bob", "ADA", ""} {
				thief := dial(who, w)
				theirs, err := thief.Task(t.Context(), task.ID())
				if err != nil {
					t.Fatal(err)
				}
				if s, err := theirs.Status(t.Context()); !errors.Is(err, mcp.ErrInvalidParams) {
					t.Errorf("%s of %q: got %+v, %v, want -32602", w, who, s, err)
				}
				if err := theirs.Cancel(t.Context()); !errors.Is(err, mcp.ErrInvalidParams) {
					t.Errorf("%s of %q: Cancel: got %v, want -32602", w, who, err)
				}
				if w == mcp.V2025_11_25 && who != "" {
					if all, err := thief.ListTasks(t.Context()); err != nil || len(all) != 0 {
						t.Errorf("ListTasks of %q: got %+v, %v, want none", who, all, err)
					}
				}
			}
			same := dial("ada", w) // XTASK-22
			found, err := same.Task(t.Context(), task.ID())
			if err != nil {
				t.Fatal(err)
			}
			if s, err := found.Status(t.Context()); err != nil || s.Status != mcp.TaskWorking {
				t.Errorf("%s of the same: got %+v, %v", w, s, err)
			}
		}
		if err := task.Cancel(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if all, err := dial("ada", mcp.V2025_11_25).ListTasks(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("ListTasks: got %d, %v, want both", len(all), err)
	}
}
