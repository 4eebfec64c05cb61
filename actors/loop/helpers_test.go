package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// recorder is a sink that keeps everything.
type recorder struct {
	mu       sync.Mutex
	entries  []runlog.Entry
	text     strings.Builder
	progress []float64
	closed   []loop.Outcome
	asked    chan store.Ask
}

func (r *recorder) Journalled(entries []runlog.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range entries {
		r.entries = append(r.entries, e)
		if a, ok := e.Body.(*runlog.AskOpened); ok {
			r.asked <- a.Ask
		}
	}
}

func (r *recorder) Text(_ int, delta string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text.WriteString(delta)
}

func (r *recorder) Thinking(int, string)     {}
func (r *recorder) Retried(int, llm.Attempt) {}
func (r *recorder) Chose(int, llm.Choice)    {}
func (r *recorder) Restarted(int)            {}
func (r *recorder) Stalled(error)            {}
func (r *recorder) Resumed()                 {}

func (r *recorder) Progress(_ string, done, _ float64, _ string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress = append(r.progress, done)
}

func (r *recorder) Closed(out loop.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = append(r.closed, out)
}

func (r *recorder) types() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]string, len(r.entries))
	for i, e := range r.entries {
		out[i] = e.Type
	}
	return out
}

// tools is a fixed list of tools.
type tools []loop.Tool

func (t tools) Offer(context.Context) (*loop.Offer, []runlog.Absent) { return loop.NewOffer(t), nil }

// tool makes a tool from a function of its arguments.
func tool(name string, do func(ctx context.Context, call *loop.Call) (string, error)) loop.Tool {
	return loop.Tool{Tool: llm.Tool{Name: name}, Hash: "hash-" + name,
		Do: func(ctx context.Context, call *loop.Call) (*mcp.CallToolResult, error) {
			text, err := do(ctx, call)
			if err != nil {
				return nil, err
			}
			return &mcp.CallToolResult{Content: mcp.Contents{mcp.Text(text)}}, nil
		}}
}

func echo(_ context.Context, call *loop.Call) (string, error) { return string(call.Arguments), nil }

func allow(context.Context, *loop.Tool, json.RawMessage) guard.Verdict { return guard.Allow }

// parent starts runs.
type parent struct{}

type startRun struct {
	run   *loop.Run
	reply *actors.Reply[struct{}]
}

func (parent) Receive(c *actors.Context, msg any) {
	if m, ok := msg.(startRun); ok {
		m.reply.Complete(struct{}{}, m.run.Start(c))
	}
}

// bench is everything a run needs.
type bench struct {
	t      *testing.T
	sys    *actors.System
	agents actors.Ref
	store  *memstore.Store
	sink   *recorder
	made   *effects // by tools of tests that look at it
	trace  *actors.Tracer
	unsaid bool     // a tool spends of the account without a word
	subs   sync.Map // the newest run of each tool that is one
}

// inBubble runs f with a system that must be empty at its end.
func inBubble(t *testing.T, f func(t *testing.T, b *bench)) {
	t.Helper()
	checkFolds := loop.Folds()
	defer func() {
		if _, wrong := checkFolds(); len(wrong) > 0 {
			t.Errorf("the journal does not say what the run knows: %s", wrong[0])
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		b := (&bench{t: t}).anew()
		b.trace = &actors.Tracer{Keep: func(ev actors.TraceEvent) bool { return ev.Actor.Kind() == actors.KindRun }}
		sys, err := actors.NewSystem(&actors.Options{Trace: b.trace.Record})
		if err != nil {
			t.Fatal(err)
		}
		b.sys = sys
		b.agents, err = sys.Spawn(actors.Spec{Kind: actors.KindAgents, Name: "agents", New: func() actors.Actor { return parent{} }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := sys.Shutdown(ctx); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
			time.Sleep(time.Second) // virtual: what is asleep in the bubble ends
		})
		f(t, b)
	})
}

// config is one that works; tests change it.
func (b *bench) config(model llm.Model, list ...loop.Tool) *loop.Config {
	return &loop.Config{Own: loop.Own{ID: "r1", Path: []string{"tester"}, Nonce: "nonce", Tools: tools(list), Gate: allow, Sink: b.sink,
		Origin: &loop.Origin{InputHash: "in", Input: []llm.Message{llm.User("go")}}},
		Agent: "tester", Model: model, Journal: b.store, Owner: "test"}
}

// anew is the bench with an empty store, in the same system: one is slow to make.
func (b *bench) anew() *bench {
	return &bench{t: b.t, sys: b.sys, agents: b.agents, store: memstore.New(nil), sink: &recorder{asked: make(chan store.Ask, 100)}, trace: b.trace}
}

// start starts a run and waits until it is recorded.
func (b *bench) start(cfg *loop.Config) *loop.Run {
	b.t.Helper()
	run, err := loop.New(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := actors.Ask(b.t.Context(), b.agents, func(r *actors.Reply[struct{}]) any { return startRun{run, r} }); err != nil {
		b.t.Fatal(err)
	}
	return run
}

// finish waits for the outcome, and checks that there is just one.
func (b *bench) finish(run *loop.Run) loop.Outcome {
	b.t.Helper()
	select {
	case <-run.Ended():
	case <-time.After(24 * time.Hour):
		b.t.Fatal("the run did not end in a day")
	}
	<-run.Stopped()
	b.sink.mu.Lock()
	defer b.sink.mu.Unlock()
	if n := len(b.sink.closed); n != 1 {
		b.t.Errorf("outcomes: got %d, want 1", n)
	}
	if _, lost := errors.AsType[*loop.JournalError](run.Outcome().Err); !lost && !b.unsaid {
		b.compareSpent()
	}
	return run.Outcome()
}

// compareSpent compares what the events of the only run say of its cost with what its
// end says.
func (b *bench) compareSpent() {
	b.t.Helper()
	if runs, err := b.store.Runs(context.Background(), store.Query{}); err != nil || len(runs) != 1 || runs[0].ID != "r1" {
		return
	}
	var own, all runlog.Usage
	requests := 0
	add := func(u *runlog.Usage, more runlog.Usage) {
		u.Input, u.Output, u.Cost, u.Estimated = u.Input+more.Input, u.Output+more.Output, u.Cost+more.Cost, u.Estimated || more.Estimated
	}
	turn := func(u runlog.Usage, attempts int) {
		add(&own, u)
		add(&all, u)
		requests += max(attempts, 1)
	}
	for _, e := range b.events() {
		switch body := e.Body.(type) {
		case *runlog.ModelResult:
			turn(body.Usage, body.Attempts)
		case *runlog.ModelFailed:
			turn(body.Usage, body.Attempts)
			if body.Unbilled {
				requests--
			}
		case *runlog.Spent:
			add(&all, body.Usage)
			requests++
		case *runlog.RunFinished:
			u := body.Usage
			u.Over, u.OverCost = 0, 0
			if own != u || all.Total() != body.Spent.Tokens || all.Cost != body.Spent.Cost || requests != body.Spent.ModelCalls {
				b.t.Errorf("the end says %+v and %+v, its events %+v, and with %+v of others %d requests", body.Usage, body.Spent, own, all, requests)
			}
		}
	}
}

// events reads the journal back.
func (b *bench) events() []runlog.Entry {
	b.t.Helper()
	var out []runlog.Entry
	for ev, err := range store.Replay(context.Background(), b.store, "r1", 0) {
		if err != nil {
			b.t.Fatal(err)
		}
		e, err := runlog.Decode(ev)
		if err != nil {
			b.t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

func (b *bench) types() []string {
	var out []string
	for _, e := range b.events() {
		out = append(out, e.Type)
	}
	return out
}

// wantTypes compares the journal with types separated by spaces, in which i, d, r
// and u are an intent, a dispatch, a result and an unknown outcome.
func (b *bench) wantTypes(want string) {
	b.t.Helper()
	short := map[string]string{"i": store.ToolIntent, "d": store.ToolDispatched, "r": store.ToolResult, "u": store.ToolUnknown}
	types := strings.Fields(want)
	for i, s := range types {
		if long := short[s]; long != "" {
			types[i] = long
		}
	}
	got := b.types()
	if !slices.Equal(got, types) {
		b.t.Errorf("journal:\n got %v\nwant %v", got, types)
	}
}

// results are the texts of all tool results the model was shown last.
func results(req *llm.Request) []string {
	var out []string
	for _, c := range req.Messages[len(req.Messages)-1].Content {
		if r, ok := c.(*mcp.ToolResultContent); ok {
			text := r.Content.Text()
			if r.IsError {
				text = "error: " + text
			}
			out = append(out, text)
		}
	}
	return out
}

type rawJSON = json.RawMessage

// sameIDs is a model that gives every call the same id.
type sameIDs struct{ turns int }

func (m *sameIDs) Name() string { return "same" }

func (m *sameIDs) Stream(_ context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if err := req.Validate(); err != nil {
			yield(nil, err)
			return
		}
		if m.turns++; m.turns > 3 {
			_ = yield(llm.TextDelta{Text: "ok"}, nil) && yield(llm.Finish{Reason: llm.FinishStop}, nil)
			return
		}
		call := llm.ToolCall{ID: "call", Name: "echo", Arguments: json.RawMessage("{}")}
		_ = yield(call, nil) && yield(llm.Finish{Reason: llm.FinishToolCalls}, nil)
	}
}

// allText are the texts of all blocks that the model was shown, results included.
func allText(req *llm.Request) []string {
	var out []string
	for _, m := range req.Messages {
		out = append(out, m.Content.Text())
		for _, c := range m.Content {
			if r, ok := c.(*mcp.ToolResultContent); ok {
				out = append(out, r.Content.Text())
			}
		}
	}
	return out
}
