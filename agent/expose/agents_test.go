package expose_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/expose"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// choose answers approvals with one of their choices.
func choose(choice string) func(context.Context, *mcpclient.Ask) (*mcpclient.Decision, error) {
	return func(context.Context, *mcpclient.Ask) (*mcpclient.Decision, error) {
		raw, err := json.Marshal(choice)
		return &mcpclient.Decision{Action: mcp.ActionAccept, Content: map[string]json.RawMessage{"decision": raw}}, err
	}
}

// Whether a call of a run may be made is a question to the client, with what would be sent.
func TestApproval(t *testing.T) {
	tests := []struct{ choice, want string }{
		{"allow", "done"},
		{"allow for the rest of the run", "done"},
		{"deny", "the user does not allow it"},
	}
	for _, way := range ways[:5] {
		for _, tt := range tests {
			t.Run(way.name+"/"+tt.choice, func(t *testing.T) {
				t.Parallel()
				f := newFront(t, "modern", func(ro *agent.Options, _ *expose.Options) { ro.Approve = agent.AskAlways })
				u := f.dial(t, way.transport, way.protocol, nil)
				u.form = choose(tt.choice)
				if got := text(u.ask(t, "agent", "progress").Content); !strings.Contains(got, tt.want) {
					t.Errorf("progress: got %q, want %q", got, tt.want)
				}
				asks := u.asked()
				if want := "helper wants to call down › progress with {}"; len(asks) != 1 || !strings.HasPrefix(asks[0].Message, "front") && asks[0].Message != want {
					t.Errorf("questions: got %+v, want one, %q", asks, want)
				}
			})
		}
	}
}

// What the client cannot be asked is declined, or waits in the inbox.
func TestUnanswered(t *testing.T) {
	bare := func(o *mcpclient.Options) { o.AskOptions = mcpclient.AskOptions{} }
	for _, way := range ways {
		t.Run("decline/"+way.name, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, "legacy", func(ro *agent.Options, _ *expose.Options) { ro.Approve = agent.AskAlways })
			u := f.dial(t, way.transport, way.protocol, bare)
			if got := text(u.ask(t, "agent", "progress").Content); !strings.Contains(got, "declined") {
				t.Errorf("progress: got %q, want that it is declined", got)
			}
			f.down.mu.Lock()
			defer f.down.mu.Unlock()
			if f.down.calls["progress"] != 0 {
				t.Error("a call was made that nobody has allowed")
			}
		})
		t.Run("inbox/"+way.name, func(t *testing.T) {
			t.Parallel()
			inbox := memstore.New(nil)
			f := newFront(t, "legacy", func(ro *agent.Options, _ *expose.Options) { ro.Store = inbox })
			u := f.dial(t, way.transport, way.protocol, bare)
			over := make(chan string, 1)
			go func() {
				res, err := u.call(t.Context(), "gateway", "form")
				if err != nil {
					over <- err.Error()
					return
				}
				over <- text(res.Content)
			}()
			row := waiting(t, inbox)
			d, err := json.Marshal(&mcpclient.Decision{Action: mcp.ActionAccept, Content: map[string]json.RawMessage{"name": json.RawMessage(`"Eve"`)}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := inbox.SettleAsk(t.Context(), row.ID, store.Decision{Status: store.AskAccepted, Answer: d, By: "test", Scope: "once"}); err != nil {
				t.Fatal(err)
			}
			if got := <-over; got != "Hello, Eve" {
				t.Errorf("form: got %q, want Hello, Eve", got)
			}
		})
	}
}

// waiting returns the one question of a store, when it is there.
func waiting(t *testing.T, s store.Asks) store.Ask {
	t.Helper()
	for {
		rows, err := s.Asks(t.Context(), store.AskQuery{})
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) > 0 {
			return rows[0]
		}
		if t.Context().Err() != nil {
			t.Fatal("no question came")
		}
	}
}

// CAP-03: servers are told of what the client can do, and of nothing else.
func TestDeclared(t *testing.T) {
	for _, way := range ways {
		for _, era := range eras {
			t.Run(way.name+"/"+era, func(t *testing.T) {
				t.Parallel()
				f := newFront(t, era, nil)
				u := f.dial(t, way.transport, way.protocol, func(o *mcpclient.Options) {
					o.Human, o.Roots, o.RootsFunc = nil, nil, nil
				})
				u.ask(t, "gateway", "progress")
				f.down.mu.Lock()
				defer f.down.mu.Unlock()
				caps := f.down.caps[0]
				if caps.Sampling == nil || caps.Roots != nil || caps.ElicitForm() || caps.ElicitURL() {
					t.Errorf("declared to the server: got %+v, want sampling alone", caps)
				}
			})
		}
	}
}

// SECA-7: what one client is asked no other sees, though there is one server.
func TestTwoClients(t *testing.T) {
	for _, way := range ways[:5] {
		for _, era := range eras {
			t.Run(way.name+"/"+era, func(t *testing.T) {
				t.Parallel()
				f := newFront(t, era, func(_ *agent.Options, o *expose.Options) { o.Server.HTTP.Authenticate = byHeader })
				type client struct {
					*upstream
					name string
					over chan string
				}
				var clients []client
				for _, name := range []string{"Ada", "Bob", "Eve"} {
					c := client{f.dialAs(t, name, way.transport, way.protocol), name, make(chan string, 1)}
					raw, err := json.Marshal(name)
					if err != nil {
						t.Fatal(err)
					}
					c.form = func(context.Context, *mcpclient.Ask) (*mcpclient.Decision, error) {
						return &mcpclient.Decision{Action: mcp.ActionAccept, Content: map[string]json.RawMessage{"name": raw}}, nil
					}
					clients = append(clients, c)
				}
				for _, c := range clients {
					for _, by := range []string{"agent", "gateway"} {
						go func() {
							res, err := c.call(t.Context(), by, "form")
							if err != nil {
								c.over <- err.Error()
								return
							}
							c.over <- text(res.Content)
						}()
					}
				}
				for _, c := range clients {
					for range 2 {
						if got, want := <-c.over, "Hello, "+c.name; got != want {
							t.Errorf("form of %s: got %q, want %q", c.name, got, want)
						}
					}
					if n := len(c.asked()); n != 2 {
						t.Errorf("questions to %s: got %d, want 2", c.name, n)
					}
				}
			})
		}
	}
}

// byHeader takes the name in the header as the principal.
func byHeader(r *http.Request) (*mcpserver.Principal, error) {
	name := r.Header.Get("X-User")
	if name == "" {
		return nil, errors.New("who is it?")
	}
	return &mcpserver.Principal{ID: name}, nil
}

// MRTR-30, MRTR-32: a handler that runs again finds what it had set going: nothing is
// called or asked twice.
func TestHandlerRunsAgain(t *testing.T) {
	for _, way := range []string{"pipe", "http"} {
		for _, era := range eras {
			for _, by := range []string{"agent", "gateway"} {
				t.Run(way+"/"+era+"/"+by, func(t *testing.T) {
					t.Parallel()
					f := newFront(t, era, func(_ *agent.Options, o *expose.Options) { o.Server.Rounds.NoParking = true })
					u := f.dial(t, way, "2026-07-28", nil)
					for _, tt := range []struct{ tool, want string }{{"form", "Hello, Ada"}, {"sample", "ha"}, {"roots", "file:///home/ada"}} {
						if got := text(u.ask(t, by, tt.tool).Content); got != tt.want {
							t.Errorf("%s: got %q, want %q", tt.tool, got, tt.want)
						}
						if n := f.down.count(tt.tool); n != 1 {
							t.Errorf("calls of %s: got %d, want 1", tt.tool, n)
						}
					}
					if n := len(u.asked()); n != 1 {
						t.Errorf("questions to the person: got %d, want 1", n)
					}
				})
			}
		}
	}
}

// TASK-03, XTASK-05: a long run becomes a task where the client takes one, and ends with it.
func TestRunAsTask(t *testing.T) {
	tasks := func(o *mcpclient.Options) {
		o.Extensions = map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage("{}")}
	}
	for _, way := range []struct{ transport, protocol string }{{"pipe", "2025-11-25"}, {"http", "2025-11-25"}, {"pipe", "2026-07-28"}, {"http", "2026-07-28"}} {
		t.Run(way.transport+" "+way.protocol, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, "modern", nil)
			f.SetTaskAfter(1)
			u := f.dial(t, way.transport, way.protocol, tasks)
			task, err := u.CallToolTask(t.Context(), "helper", json.RawMessage(`{"prompt":"wait"}`), nil)
			if err != nil {
				t.Fatal(err)
			}
			if task.ID() == "" {
				t.Fatal("the call is no task")
			}
			<-f.down.waiting
			if err := task.Cancel(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-f.down.cancelled
			if _, err := task.Wait(t.Context()); !errors.Is(err, mcpclient.ErrTaskCancelled) {
				t.Errorf("the task: got %v, want %v", err, mcpclient.ErrTaskCancelled)
			}

			task, err = u.CallToolTask(t.Context(), "helper", json.RawMessage(`{"prompt":"form"}`), nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := task.Wait(t.Context())
			if err != nil || text(res.Content) != "Hello, Ada" {
				t.Errorf("the task with a form: got %v, %v, want Hello, Ada", res, err)
			}
		})
	}
}

// RES-05: runs are resources of who has started them, and tell when there is more.
func TestRunsAreResources(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, "modern", func(_ *agent.Options, o *expose.Options) { o.Gateway, o.Server.HTTP.Authenticate = false, byHeader })
			ada, bob := f.dialAs(t, "Ada", way.transport, way.protocol), f.dialAs(t, "Bob", way.transport, way.protocol)
			res := ada.ask(t, "agent", "progress")
			var id string
			if err := json.Unmarshal(res.Meta[agent.MetaRun], &id); err != nil && has(t, ada, mcp.FeatureTitles) {
				t.Fatalf("the result's _meta: %v", err)
			}
			list, err := ada.ListResources(t.Context())
			if err != nil || len(list) != 1 || id != "" && list[0].URI != "troupe://runs/"+id {
				t.Fatalf("resources: got %v, %v, want the run %q", list, err, id)
			}
			got, err := ada.ReadResource(t.Context(), list[0].URI, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Contents) != 2 || !strings.Contains(got.Contents[0].Text, "helper calls down › progress") || !strings.Contains(got.Contents[1].Text, `"state":"finished"`) {
				t.Errorf("the transcript: got %+v", got.Contents)
			}
			if list, err := bob.ListResources(t.Context()); way.transport != "pipe" && (err != nil || len(list) != 0) {
				t.Errorf("resources of another client: got %v, %v, want none", list, err)
			}
			if _, err := bob.ReadResource(t.Context(), list[0].URI, nil); way.transport != "pipe" && !errors.Is(err, mcpclient.ErrNotFound) {
				t.Errorf("reading another's run: got %v, want %v", err, mcpclient.ErrNotFound)
			}
			templates, err := ada.ListResourceTemplates(t.Context())
			if err != nil || !slices.ContainsFunc(templates, func(r mcp.ResourceTemplate) bool { return r.URITemplate == "troupe://runs/{id}" }) {
				t.Errorf("templates: got %v, %v", templates, err)
			}
		})
	}
}

// SUB-03: a run under way tells those who watch it.
func TestRunIsWatched(t *testing.T) {
	for _, way := range ways[:5] {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, "modern", func(_ *agent.Options, o *expose.Options) { o.Gateway, o.Server.HTTP.Authenticate = false, byHeader })
			u := f.dialAs(t, "Ada", way.transport, way.protocol)
			ctx, cancel := context.WithCancel(t.Context())
			over, begun := make(chan error, 1), make(chan struct{}, 1)
			go func() {
				_, err := u.CallTool(ctx, "helper", json.RawMessage(`{"prompt":"wait"}`), &mcpclient.CallOptions{Progress: func(mcpclient.Progress) {
					select {
					case begun <- struct{}{}:
					default:
					}
				}})
				over <- err
			}()
			<-begun // a run reports progress after it is listed; a server may be called before
			<-f.down.waiting
			list, err := u.ListResources(t.Context())
			if err != nil || len(list) != 1 {
				t.Fatalf("resources: got %v, %v, want one run", list, err)
			}
			heard := make(chan string, 16)
			sub, err := u.Subscribe(t.Context(), list[0].URI, func(uri string) { heard <- uri })
			if err != nil {
				t.Fatal(err)
			}
			defer sub.Close()
			cancel()
			if uri := <-heard; uri != list[0].URI {
				t.Errorf("told of %q, want %q", uri, list[0].URI)
			}
			<-over
		})
	}
}

// PRM-01: an agent's instructions are a prompt.
func TestInstructionsArePrompts(t *testing.T) {
	f := newFront(t, "modern", func(_ *agent.Options, o *expose.Options) { o.Gateway = false })
	u := f.dial(t, "pipe", "2025-06-18", nil)
	list, err := u.ListPrompts(t.Context())
	if err != nil || len(list) != 1 || list[0].Name != "helper" {
		t.Fatalf("prompts: got %v, %v, want helper", list, err)
	}
	got, err := u.GetPrompt(t.Context(), "helper", map[string]string{"prompt": "Say hello."}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, m := range got.Messages {
		said = append(said, text(mcp.Contents{m.Content}))
	}
	if want := []string{"Be brief.", "Say hello."}; !slices.Equal(said, want) {
		t.Errorf("the prompt: got %q, want %q", said, want)
	}
}

// TOOL-11: an agent with schemas takes and gives what they say.
func TestStructured(t *testing.T) {
	rt, err := agent.Open(t.Context(), &agent.Options{Model: llmtest.Script(llmtest.Say(`{"sum":5}`)), Logger: logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	adder, err := rt.Agent("adder", &agent.Config{
		Input:  json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}`),
		Output: json.RawMessage(`{"type":"object","properties":{"sum":{"type":"integer"}},"required":["sum"]}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	ef, err := expose.New(rt, &expose.Options{Agents: []*agent.Agent{adder}, Logger: logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer ef.Close()
	f := &front{Front: ef, rt: rt}
	u := f.dial(t, "pipe", "2025-11-25", nil)
	if res, err := u.CallTool(t.Context(), "adder", json.RawMessage(`{"a":2}`), nil); err != nil || !res.IsError {
		t.Errorf("an input that does not fit: got %v, %v, want an error", res, err)
	}
	res, err := u.CallTool(t.Context(), "adder", json.RawMessage(`{"a":2,"b":3}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(res.StructuredContent); got != `{"sum":5}` || text(res.Content) != got {
		t.Errorf("the result: got %s and %q, want {\"sum\":5}", got, text(res.Content))
	}
}

// A client reads that an answer is not whole.
func TestIncomplete(t *testing.T) {
	rt, err := agent.Open(t.Context(), &agent.Options{Model: llmtest.Script(llmtest.Say("so far").Finish(llm.FinishLength), llmtest.Say("whole")), Logger: logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	teller, err := rt.Agent("teller", &agent.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ef, err := expose.New(rt, &expose.Options{Agents: []*agent.Agent{teller}, Logger: logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer ef.Close()
	u := (&front{Front: ef, rt: rt}).dial(t, "pipe", "2025-11-25", nil)
	for _, want := range []string{"so far[the answer is not complete: the limit of output tokens cut it]", "whole"} {
		res, err := u.CallTool(t.Context(), "teller", json.RawMessage(`{"prompt":"Tell."}`), nil)
		if err != nil || res.IsError {
			t.Fatalf("CallTool: got %v, %v", res, err)
		}
		got, lacks := "", ""
		for _, c := range res.Content {
			got += c.(*mcp.TextContent).Text
		}
		if _, err := res.Meta.Get(agent.MetaIncomplete, &lacks); err != nil || got != want || (lacks == string(agent.IncompleteLength)) != (want != "whole") {
			t.Errorf("got %q, and %q in _meta, %v, want %q", got, lacks, err, want)
		}
	}
}

// SECA-9: a client's list of resources has no run that the front has forgotten.
func TestRunsLeaveTheList(t *testing.T) {
	f := newFront(t, "modern", nil)
	u := f.dial(t, ways[0].transport, ways[0].protocol, nil)
	const most = 128
	for range most + 2 {
		u.ask(t, "agent", "progress")
	}
	list, err := u.ListResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	for _, r := range list {
		if !strings.HasPrefix(r.URI, "troupe://runs/") {
			continue
		}
		runs++
		if _, err := u.ReadResource(t.Context(), r.URI, nil); err != nil {
			t.Errorf("reading a listed run: %v", err)
		}
	}
	if runs != most {
		t.Errorf("runs in the list: got %d, want %d", runs, most)
	}
}
