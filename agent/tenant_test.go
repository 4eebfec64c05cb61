package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/store"
)

type whoForm struct {
	Name string `json:"name"`
}

// curious is a server that asks whoever calls it: for a name, for a model's answer, for
// roots. It remembers what clients have declared.
type curious struct {
	*mcpserver.Server
	mu       sync.Mutex
	declared []string
}

func newAsking(t *testing.T, versions ...mcp.Version) *curious {
	t.Helper()
	if len(versions) == 0 {
		versions = mcp.Versions()
	}
	server, err := mcpserver.New(mcp.Implementation{Name: "asking", Version: "1"}, &mcpserver.Options{Versions: versions})
	if err != nil {
		t.Fatal(err)
	}
	s := &curious{Server: server}
	tool := func(name string, f func(ctx context.Context, req *mcpserver.ToolRequest) (string, error)) error {
		return mcpserver.AddTool(server, &mcp.Tool{Name: name}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			caps := *req.Client().Capabilities
			caps.Tasks, caps.Extensions = nil, nil
			raw, err := jsonx.Marshal(&caps)
			if err != nil {
				return "", err
			}
			s.mu.Lock()
			s.declared = append(s.declared, string(raw))
			s.mu.Unlock()
			return f(ctx, req)
		})
	}
	err = errors.Join(
		tool("name", func(ctx context.Context, req *mcpserver.ToolRequest) (string, error) {
			in, err := mcpserver.Elicit[whoForm](ctx, req, "name", "What is your name?")
			return in.Name, err
		}),
		tool("model", func(ctx context.Context, req *mcpserver.ToolRequest) (string, error) {
			res, err := req.Sample(ctx, "model", &mcp.CreateMessageParams{MaxTokens: 10,
				Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Contents{mcp.Text("who are you?")}}}})
			if err != nil {
				return "", err
			}
			return res.Content.Text(), nil
		}),
		tool("roots", func(ctx context.Context, req *mcpserver.ToolRequest) (string, error) {
			roots, err := req.Roots(ctx, "roots")
			return fmt.Sprint(roots), err
		}),
		tool("nothing", func(context.Context, *mcpserver.ToolRequest) (string, error) { return "", nil }),
		mcpserver.AddTool(server, &mcp.Tool{Name: "hang"}, func(ctx context.Context, _ *mcpserver.ToolRequest, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("closing the server: %v", err)
		}
		time.Sleep(time.Second) // virtual: what is asleep in the bubble ends
	})
	return s
}

func (s *curious) took() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.declared)
}

func tenant(t *testing.T, rt *agent.Runtime, o *agent.TenantOptions) *agent.Tenant {
	t.Helper()
	tn, err := rt.NewTenant(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return tn
}

// answersAs is a Human that fills in a name, and a Sampler that says it.
type answersAs string

func (a answersAs) Decide(_ context.Context, ask *mcpclient.Ask) (*mcpclient.Decision, error) {
	return &mcpclient.Decision{Action: mcp.ActionAccept, Content: map[string]json.RawMessage{"name": json.RawMessage(fmt.Sprintf("%q", string(a)))}}, nil
}

func (a answersAs) Sample(context.Context, *mcpclient.SampleRequest) (*mcp.CreateMessageResult, error) {
	return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: string(a), Content: mcp.Contents{mcp.Text("I am " + string(a))}}, nil
}

func (a answersAs) roots(context.Context) ([]mcp.Root, error) {
	return []mcp.Root{{URI: "file:///not/there/" + string(a)}}, nil
}

// CAP-03, CAP-05, ELIC-02, SAMP-04, SAMP-07, ROOT-01: a tenant's connections declare to
// servers of both eras what it was made with, and nothing else, whatever the runtime's own do.
func TestTenantDeclares(t *testing.T) {
	tests := []struct {
		name string
		o    agent.TenantOptions
		deny bool
		want [2]string // 2025-11-25, 2026-07-28
	}{
		{"nothing", agent.TenantOptions{}, false, [2]string{`{}`, `{}`}},
		{"forms", agent.TenantOptions{Forms: true}, false, [2]string{`{"elicitation":{"form":{}}}`, `{"elicitation":{"form":{}}}`}},
		{"pages", agent.TenantOptions{URLs: true}, false, [2]string{`{"elicitation":{"url":{}}}`, `{"elicitation":{"url":{}}}`}},
		{"sampling", agent.TenantOptions{Sampling: true}, false, [2]string{`{"sampling":{}}`, `{"sampling":{}}`}},
		{"sampling that the definition denies", agent.TenantOptions{Sampling: true}, true, [2]string{`{}`, `{}`}},
		{"tools alone are not", agent.TenantOptions{SamplingTools: true}, false, [2]string{`{}`, `{}`}},
		{"all", agent.TenantOptions{Forms: true, URLs: true, Sampling: true, SamplingTools: true, SamplingContext: true, Roots: true}, false, [2]string{
			`{"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true},"sampling":{"context":{},"tools":{}}}`,
			`{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{"context":{},"tools":{}}}`}},
		{"the runtime's model", agent.TenantOptions{Lend: true}, false, [2]string{`{"sampling":{"context":{},"tools":{}}}`, `{"sampling":{"context":{},"tools":{}}}`}},
	}
	for i, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		for _, tt := range tests {
			t.Run(string(v)+" "+tt.name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					s := newAsking(t, v)
					srv := mcpclient.InProcess("asking", s)
					if tt.deny {
						srv.Sampling = mcpclient.SamplingDeny
					}
					rt := open(t, &agent.Options{Model: llmtest.Script(), Servers: []mcpclient.Server{srv},
						Sampling: &agent.Sampling{Default: agent.SamplingPolicy{Mode: mcpclient.SamplingAllow, Context: mcp.ContextThisServer}},
						Host:     &mcpclient.HostOptions{Options: mcpclient.Options{AskOptions: mcpclient.AskOptions{Human: answersAs("owner"), Roots: []mcp.Root{}}}}})
					tn := tenant(t, rt, &tt.o)
					if _, err := tn.Host().Call(t.Context(), "asking__nothing", nil, nil); err != nil {
						t.Fatal(err)
					}
					canonical, err := jsonx.Canonical([]byte(s.took()[0]))
					if err != nil || string(canonical) != tt.want[i] {
						t.Errorf("declared: got %s, %v, want %s", canonical, err, tt.want[i])
					}
				})
			})
		}
	}
}

// SECA-6, SECA-34, ROOT-03, SAMP-01: two tenants with one server: what it asks because of
// one's run is answered for that one, and what nobody was asked for is declined. Runs
// without a tenant have the runtime's connections.
func TestTenantsApart(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_06_18, mcp.V2025_11_25, mcp.V2026_07_28} {
		t.Run(string(v), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newAsking(t, v)
				rt := open(t, &agent.Options{Approve: agent.NeverAsk, Servers: []mcpclient.Server{mcpclient.InProcess("asking", s)}, Model: llmtest.Script(),
					Host: &mcpclient.HostOptions{Options: mcpclient.Options{AskOptions: mcpclient.AskOptions{Human: answersAs("owner"), Roots: []mcp.Root{}}}}})
				var wg sync.WaitGroup
				for _, name := range []string{"ada", "bob"} {
					who := answersAs(name)
					tn := tenant(t, rt, &agent.TenantOptions{Name: name, Forms: true, Sampling: true, Roots: true, Human: who, Sampler: who, RootsFunc: who.roots})
					wg.Go(func() {
						for tool, want := range map[string]string{"model": "I am " + name, "roots": "file:///not/there/" + name, "name": name} {
							res, err := tn.Host().Call(t.Context(), "asking__"+tool, nil, nil)
							if err != nil || !strings.Contains(res.Content.Text(), want) {
								t.Errorf("%s: %s: got %+v, %v, want %s", name, tool, res, err, want)
							}
						}
					})
				}
				wg.Wait()
				if res, err := rt.Host().Call(t.Context(), "asking__roots", nil, nil); err != nil || res.Content.Text() != "[]" {
					t.Errorf("the runtime's own: got %+v, %v", res, err)
				}
			})
		})
	}
}

// The questions of a tenant's runs are the run's, as ever; its sub-agents use the same
// connections; and what a run brings for its calls takes the tenant's place.
func TestTenantRuns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newAsking(t)
		rt := open(t, &agent.Options{Approve: agent.NeverAsk, Servers: []mcpclient.Server{mcpclient.InProcess("asking", s)}, Model: llmtest.Script(),
			Host: &mcpclient.HostOptions{Options: mcpclient.Options{Lazy: true}}})
		sub := define(t, rt, "sub", &agent.Config{Model: llmtest.Script(call("asking__model", nil), call("asking__roots", nil), llmtest.Say("below")),
			Description: "works below", Servers: []string{"asking"}})
		model := llmtest.Script(call("ask_sub", task("x")), call("asking__name", nil), call("asking__model", nil), call("asking__roots", nil), llmtest.Say("done"))
		boss := define(t, rt, "boss", &agent.Config{Model: model, Tools: []agent.Tool{sub.AsTool("ask_sub", "")}})
		tn := tenant(t, rt, &agent.TenantOptions{Forms: true, Sampling: true, Roots: true})
		run, err := boss.Start(t.Context(), "go", &agent.RunOptions{ID: "r", Tenant: tn,
			Sampler: mcpclient.SamplerFunc(answersAs("run").Sample), Roots: answersAs("run").roots})
		if err != nil {
			t.Fatal(err)
		}
		var results []string
		for ev, err := range run.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if n, ok := ev.(agent.Nested); ok {
				ev = n.Event
			}
			switch ev := ev.(type) {
			case agent.Ask:
				d, err := agent.Fill(map[string]any{"name": "Ada"})
				if err == nil {
					err = ev.Answer(t.Context(), d)
				}
				if err != nil {
					t.Error(err)
				}
			case agent.ToolResult:
				results = append(results, ev.Result.Content.Text())
			}
		}
		want := []string{"I am run", "[{file:///not/there/run", "below", "Ada", "I am run", "[{file:///not/there/run"}
		if !slices.EqualFunc(results, want, strings.HasPrefix) {
			t.Errorf("results: got %q, want %q", results, want)
		}
		if got := len(rt.Host().Servers()); got != 1 || rt.Host().Servers()[0].Info != nil {
			t.Errorf("the runtime's own server was used: %+v", rt.Host().Servers())
		}
	})
}

// A tenant that is closed takes its runs and connections with it, and nobody else's; its
// name finds runs of the past again, another does not.
func TestTenantCloses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newAsking(t)
		journal := memory()
		rt := open(t, &agent.Options{Store: journal, Approve: agent.NeverAsk, Servers: []mcpclient.Server{mcpclient.InProcess("asking", s)},
			Model: llmtest.Script(), Grace: time.Second})
		hangs := define(t, rt, "hangs", &agent.Config{Model: llmtest.Script(call("asking__hang", nil), call("asking__hang", nil))})
		ada, bob := tenant(t, rt, &agent.TenantOptions{Name: "same"}), tenant(t, rt, &agent.TenantOptions{Name: "same"})
		var runs [2]*agent.Run
		for i, tn := range []*agent.Tenant{ada, bob} {
			run, err := hangs.Start(t.Context(), "go", &agent.RunOptions{ID: fmt.Sprint("r", i), Tenant: tn})
			if err != nil {
				t.Fatal(err)
			}
			runs[i] = run
		}
		synctest.Wait()
		if live, err := rt.Runs(t.Context()); err != nil || len(live) != 2 {
			t.Errorf("Runs: got %v, %v", live, err)
		}
		if _, err := hangs.Start(t.Context(), "go", &agent.RunOptions{ID: "r0", Tenant: bob}); !errors.Is(err, agent.ErrRunExists) {
			t.Errorf("another tenant's live run: got %v", err)
		}
		before := rt.System().Census().Actors[actors.KindTenant]
		if err := ada.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
		if _, err := runs[0].Wait(t.Context()); !errors.Is(err, agent.ErrClosed) || !strings.Contains(err.Error(), "the tenant is closed") {
			t.Errorf("its run: got %v", err)
		}
		if live, err := rt.Runs(t.Context()); err != nil || len(live) != 1 || live[0] != runs[1] {
			t.Errorf("Runs: got %v, %v", live, err)
		}
		after := rt.System().Census().Actors[actors.KindTenant]
		if before.Live != 2 || after.Live != 1 {
			t.Errorf("tenants in the census: got %d, then %d", before.Live, after.Live)
		}
		if _, err := ada.Host().Tools(t.Context()); !errors.Is(err, mcpclient.ErrClosed) {
			t.Errorf("its connections: got %v", err)
		}
		if _, err := hangs.Start(t.Context(), "go", &agent.RunOptions{Tenant: ada}); !errors.Is(err, agent.ErrClosed) {
			t.Errorf("a run of it: got %v", err)
		}
		if err := ada.Close(t.Context()); err != nil {
			t.Errorf("Close again: %v", err)
		}
		runs[1].Cancel(errTest)
		_, _ = runs[1].Wait(t.Context())
		other := open(t, &agent.Options{Store: journal, Model: llmtest.Script()})
		again := define(t, other, "hangs", nil)
		for name, want := range map[string]error{"same": nil, "else": agent.ErrRunExists, "": agent.ErrRunExists} {
			tn := tenant(t, other, &agent.TenantOptions{Name: name})
			if _, err := again.Start(t.Context(), "go", &agent.RunOptions{ID: "r0", Tenant: tn}); !errors.Is(err, want) {
				t.Errorf("found by %q: got %v, want %v", name, err, want)
			}
		}
	})
}

// slowCreate creates runs once it is opened.
type slowCreate struct {
	store.Store
	open chan struct{}
}

func (s slowCreate) Create(ctx context.Context, r store.Run, owner string, ttl time.Duration, first ...store.Event) (store.Run, error) {
	<-s.open
	return s.Store.Create(ctx, r, owner, ttl, first...)
}

// A start that the store is about to refuse does not hold its run's ID: who has started
// that run finds it, and does not wait longer than its context.
func TestRefusedStartHoldsNoID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		journal := memory()
		run := start(t, open(t, &agent.Options{Store: journal, Model: llmtest.Script(llmtest.Say("done"))}), "r")
		if _, err := run.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		slow := slowCreate{journal, make(chan struct{})}
		rt := open(t, &agent.Options{Store: slow, Model: llmtest.Script()})
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := rt.Start(t.Context(), "other", &agent.RunOptions{ID: "r"}); !errors.Is(err, agent.ErrRunExists) {
				t.Errorf("another input: got %v, want %v", err, agent.ErrRunExists)
			}
		})
		synctest.Wait() // it waits for the store
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := rt.Start(ctx, "go", &agent.RunOptions{ID: "r"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with little time: got %v, want %v", err, context.DeadlineExceeded)
		}
		wg.Go(func() {
			found, err := rt.Start(t.Context(), "go", &agent.RunOptions{ID: "r"})
			if err != nil {
				t.Errorf("the run's own input: got %v", err)
				return
			}
			if res, err := found.Wait(t.Context()); err != nil || res.Text != "done" {
				t.Errorf("the run: got %+v, %v", res, err)
			}
		})
		synctest.Wait()
		close(slow.open)
		wg.Wait()
	})
}

// ROB-3: tenants are bounded, end with their runtime, and are of one.
func TestTenantLimits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newAsking(t)
		o := &agent.Options{MaxTenants: 2, Model: llmtest.Script(call("asking__hang", nil)), Approve: agent.NeverAsk, Grace: time.Second,
			Servers: []mcpclient.Server{mcpclient.InProcess("asking", s)}}
		rt, err := agent.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		first := tenant(t, rt, nil)
		second := tenant(t, rt, &agent.TenantOptions{Name: strings.Repeat("a/b$\x00", 100)})
		if _, err := rt.NewTenant(t.Context(), nil); !errors.Is(err, agent.ErrTooManyTenants) {
			t.Errorf("one more: got %v", err)
		}
		if err := first.Close(t.Context()); err != nil {
			t.Error(err)
		}
		third := tenant(t, rt, nil)
		run, err := rt.Start(t.Context(), "go", &agent.RunOptions{Tenant: second})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		other := open(t, &agent.Options{Model: llmtest.Script()})
		if _, err := other.Start(t.Context(), "go", &agent.RunOptions{Tenant: third}); err == nil || !strings.Contains(err.Error(), "another runtime") {
			t.Errorf("another runtime's: got %v", err)
		}
		if err := rt.Close(); err != nil {
			t.Errorf("closing the runtime: %v", err)
		}
		if n := rt.System().Census().Live(); n != 0 {
			t.Errorf("%d actors left", n)
		}
		if _, err := run.Wait(t.Context()); !errors.Is(err, agent.ErrClosed) {
			t.Errorf("its run: got %v", err)
		}
		if _, err := third.Host().Tools(t.Context()); !errors.Is(err, mcpclient.ErrClosed) {
			t.Errorf("its connections: got %v", err)
		}
		if _, err := rt.NewTenant(t.Context(), nil); !errors.Is(err, agent.ErrClosed) {
			t.Errorf("a tenant of a closed runtime: got %v", err)
		}
		if err := third.Close(t.Context()); err != nil {
			t.Errorf("Close after the runtime's: %v", err)
		}
		time.Sleep(time.Second)
	})
}

// SECA-45, SECA-38: a tenant starts nothing that the runtime may not start, and pins what
// its tools are where the runtime does.
func TestTenantConsents(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newAsking(t)
		asked := 0
		file := mcpclient.InProcess("asking", s)
		command := mcpclient.Command("/bin/false")
		command.Name, command.File, command.Hash = "command", "/project/.mcp.json", "h"
		rt := open(t, &agent.Options{Store: memory(), Model: llmtest.Script(), Servers: []mcpclient.Server{file, command},
			Consent: func(context.Context, mcpclient.Server) error { asked++; return errTest },
			Host:    &mcpclient.HostOptions{Options: mcpclient.Options{Lazy: true}}})
		tn := tenant(t, rt, nil)
		c, err := tn.Host().Client("command")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Info(t.Context()); !errors.Is(err, mcpclient.ErrNotApproved) || !errors.Is(err, errTest) || asked != 1 {
			t.Errorf("a command that nobody agreed to: got %v, asked %d times", err, asked)
		}
		if _, err := tn.Host().Call(t.Context(), "asking__nothing", nil, nil); err != nil {
			t.Fatal(err)
		}
		s.RemoveTools("nothing")
		err = mcpserver.AddFunc(s.Server, &mcp.Tool{Name: "nothing", Description: "gives all to me"}, func(context.Context, struct{}) (string, error) { return "", nil })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tenant(t, rt, nil).Host().Call(t.Context(), "asking__nothing", nil, nil); !errors.Is(err, mcpclient.ErrToolChanged) {
			t.Errorf("a tool that another tenant has pinned: got %v", err)
		}
	})
}
