// Package replay runs a recorded run again: the model, the tools and the person say what the
// recording has, and no call leaves the process.
package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runfile"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// Recording is what a run has said, heard and been told.
type Recording struct {
	entries []runlog.Entry
	began   *runlog.RunStarted
	turns   []*runlog.ModelResult
	failed  map[int]string // turns that failed, by their place among those that were asked for
	results map[string]*mcp.CallToolResult
	asked   map[string]bool // the calls that a person was asked about
	settled map[string]*runlog.AskSettled
	intents []intent
	parts   []part
	whole   bool      // it has an outcome of its own
	left    *likeness // of a replay with another model; nil for the recorded one
}

// intent is a call that was decided on.
type intent struct {
	key, tool, args string
	traits          runlog.Traits
}

// part is what one agent has done of the run.
type part struct {
	agent, system string
	tools         []string
	handOff       string // the tool by which it handed over; empty for the last one
}

// Unreplayable says why a run cannot be replayed by its recording alone.
type Unreplayable struct{ Why string }

func (e *Unreplayable) Error() string { return "the run cannot be replayed: " + e.Why }

// New reads a recording.
func New(rec *runfile.Recording) (*Recording, error) {
	entries, err := rec.Entries()
	if err != nil {
		return nil, err
	}
	r := &Recording{failed: make(map[int]string), results: make(map[string]*mcp.CallToolResult), asked: make(map[string]bool), settled: make(map[string]*runlog.AskSettled)}
	for i := range entries {
		if r.add(&entries[i]) {
			r.entries = append(r.entries, entries[i])
		}
	}
	if r.began == nil || len(r.began.Input) == 0 {
		return nil, &Unreplayable{"its journal does not say what it began with"}
	}
	return r, nil
}

// add takes an event in, and reports whether a replay has it too.
func (r *Recording) add(e *runlog.Entry) bool {
	key := suffix(e.Key)
	switch b := e.Body.(type) {
	case *runlog.RunStarted:
		r.began = b
		r.parts = []part{{agent: b.Agent, system: b.System}}
	case *runlog.ToolsListed:
		p := &r.parts[len(r.parts)-1]
		for _, t := range b.Tools {
			if !slices.Contains(p.tools, t.Name) {
				p.tools = append(p.tools, t.Name)
			}
		}
	case *runlog.AgentChanged:
		last := &r.parts[len(r.parts)-1]
		for _, in := range r.intents {
			if in.key == key {
				last.handOff = in.tool
			}
		}
		r.parts = append(r.parts, part{agent: b.To, system: b.System})
	case *runlog.ModelResult:
		r.turns = append(r.turns, b)
	case *runlog.ModelFailed:
		if b.Lost { // its process ended, and the turn was asked for again
			return false
		}
		r.failed[len(r.turns)] = b.Error
		r.turns = append(r.turns, nil)
	case *runlog.ToolIntent:
		r.intents = append(r.intents, intent{key, b.Tool, canonical(b.Arguments), b.Traits})
	case *runlog.ToolResult:
		r.results[key] = b.Result
	case *runlog.AskOpened:
		// A server's: a replay has none. Nor has it a worker, but the question of one is no part of the run.
		if b.Ask.Kind != runlog.AskKind && b.Ask.Kind != runlog.AskLimit && b.Ask.Kind != runlog.AskJob {
			return false
		}
		r.asked[key] = true
	case *runlog.AskSettled:
		if !r.asked[key] {
			return false
		}
		r.settled[key] = b
	case *runlog.RunFinished:
		r.whole = b.State != store.Cancelled
		return r.whole
	}
	return true
}

// suffix is the part of a key that is the same in each run: the turn and the number of a call.
func suffix(key string) string {
	parts := strings.Split(key, "-")
	return strings.Join(parts[max(len(parts)-2, 0):], "-")
}

func canonical(raw []byte) string {
	if c, err := jsonx.Exact(raw); err == nil {
		return string(c)
	}
	return string(raw)
}

// Options change a replay; nil is the same as the zero value.
type Options struct {
	// Config is the definition of the agent. Of its Tools and those that the recording names only
	// the definitions count: the recording answers their calls. Nil makes one from the recording.
	Config *agent.Config
	// Runtime is the rest of the runtime. Its Model, Servers, Tools, OnAsk and Store are not used.
	Runtime agent.Options
	// Live makes the calls of Config's Tools.
	Live bool
	// Model is asked in place of the recorded one. Calls have the recorded results of calls of the
	// same tool with the same arguments, in their order; one that the recording does not have is
	// refused, and so a difference. Nil says what the recording has.
	Model llm.Model
}

// Run replays the run, and returns the steps of the recording and those of the replay: see
// [runfile.Steps]. They are the same where nothing has changed.
func (r *Recording) Run(ctx context.Context, s store.Store, o *Options) (want, got []string, err error) {
	opts := cmp.Or(o, new(Options))
	if err := r.replayable(opts); err != nil {
		return nil, nil, err
	}
	set := opts.Runtime
	set.Model, set.Retry, set.Store, set.Servers, set.Tools, set.OnAsk = &model{r: r}, &llm.RetryOptions{MaxAttempts: 1}, s, nil, nil, r.answer
	if opts.Model != nil {
		set.Model, set.Retry, set.OnAsk = opts.Model, opts.Runtime.Retry, r.answerLike
		r = r.live(opts.Model.Name())
	}
	rt, err := agent.Open(ctx, &set)
	if err != nil {
		return nil, nil, err
	}
	got, err = r.play(ctx, rt, s, opts)
	if err := errors.Join(err, rt.Close()); err != nil {
		return nil, nil, err
	}
	want = runfile.Steps(r.entries)
	if opts.Config != nil { // the recorded answers do not depend on it
		system := func(step string) bool { return strings.HasPrefix(step, runfile.System) }
		want, got = slices.DeleteFunc(want, system), slices.DeleteFunc(got, system)
	}
	if !r.whole { // it was ended, or has not ended
		got = got[:min(len(got), len(want))]
	}
	return want, got, nil
}

// replayable refuses a run whose functions are not here.
func (r *Recording) replayable(o *Options) error {
	if o.Config != nil {
		return nil
	}
	for _, e := range r.entries {
		switch e.Body.(type) {
		case *runlog.GuardActed, *runlog.StopMet:
			return &Unreplayable{fmt.Sprintf("event %d is of a guard or a condition, which are functions of the program. A test of that program can replay it: see package agenttest", e.Seq)}
		case *runlog.HistoryCut:
			return &Unreplayable{fmt.Sprintf("event %d cuts the conversation, by settings that are not in the journal", e.Seq)}
		}
	}
	return nil
}

func (r *Recording) play(ctx context.Context, rt *agent.Runtime, s store.Store, o *Options) ([]string, error) {
	a, err := r.agent(rt, o)
	if err != nil {
		return nil, err
	}
	input := r.began.Input
	run, err := a.Start(ctx, input[len(input)-1].Content.Text(), &agent.RunOptions{Output: r.began.Schema, History: input[:len(input)-1]})
	if err != nil {
		return nil, err
	}
	if _, err := run.Wait(ctx); ctx.Err() != nil {
		run.Cancel(err)
		return nil, err
	}
	entries, err := runlog.Entries(ctx, s, run.ID())
	return runfile.Steps(entries), err
}

// agent defines the agents of the run, the last one first, and returns the first one.
func (r *Recording) agent(rt *agent.Runtime, o *Options) (a *agent.Agent, err error) {
	for i, p := range slices.Backward(r.parts) {
		var cfg agent.Config
		if o.Config != nil && i == 0 {
			cfg = *o.Config
		} else {
			cfg = agent.Config{Instructions: p.system, Limits: r.limits(), Approve: r.approve()}
		}
		cfg.Model, cfg.Servers = nil, []string{}
		if i == 0 {
			cfg.MaxResult, cfg.MaxRepeats = r.began.MaxResult, cmp.Or(r.began.Repeats, cfg.MaxRepeats)
		}
		cfg.Tools = r.tools(&cfg, p, o.Live)
		if next := a; next != nil && p.handOff != "" {
			cfg.Tools = slices.DeleteFunc(cfg.Tools, func(t agent.Tool) bool { return t.Name == p.handOff })
			cfg.Tools = append(cfg.Tools, agent.HandOff(next)...)
		}
		if a, err = rt.Agent(p.agent, &cfg); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (r *Recording) limits() agent.Limits {
	b := r.began
	return agent.Limits{Steps: b.Steps, Tokens: b.Tokens, ModelCalls: b.ModelCalls, ToolCalls: b.ToolCalls, Depth: b.Depth,
		Wall: time.Duration(b.WallMS) * time.Millisecond, OnLimit: agent.OnLimit(b.OnLimit)}
}

// tools are those of a part, whose calls the recording answers.
func (r *Recording) tools(cfg *agent.Config, p part, live bool) []agent.Tool {
	tools := slices.Clone(cfg.Tools)
	for i := range tools {
		if !live {
			tools[i].Call = r.callOf(tools[i].Name)
		}
	}
	for _, name := range p.tools {
		if !slices.ContainsFunc(tools, func(t agent.Tool) bool { return t.Name == name }) {
			var traits runlog.Traits
			for _, in := range r.intents {
				if in.tool == name {
					traits = in.traits
				}
			}
			tools = append(tools, r.left.define(agent.Tool{Name: name, Call: r.callOf(name), Polls: traits.Polls, ReadOnly: traits.ReadOnly}))
		}
	}
	return tools
}

// callOf returns the function that answers the calls of a tool.
func (r *Recording) callOf(tool string) func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
	if r.left == nil {
		return r.call
	}
	return func(_ context.Context, args json.RawMessage) (*mcp.CallToolResult, error) {
		if key, ok := r.left.next(tool, canonical(args)); ok && r.results[key] != nil {
			return r.results[key], nil
		}
		return nil, errors.New("the recording has no such call: a replay makes none")
	}
}

// call returns what the recording has of a call.
func (r *Recording) call(ctx context.Context, _ json.RawMessage) (*mcp.CallToolResult, error) {
	if result, ok := r.results[suffix(agent.CallKey(ctx))]; ok && result != nil {
		return result, nil
	}
	return nil, errors.New("the recording has no result of this call")
}

// approve asks about the calls that a person was asked about.
func (r *Recording) approve() agent.ApprovePolicy {
	var mu sync.Mutex // guards left: a policy is a function, and may be called from many goroutines
	left := slices.Clone(r.intents)
	return func(_ context.Context, call *agent.ToolCall) agent.Verdict {
		mu.Lock()
		defer mu.Unlock()
		i := slices.IndexFunc(left, func(in intent) bool { return in.tool == call.Tool && in.args == canonical(call.Arguments) })
		if i < 0 {
			return agent.VerdictAllow
		}
		asked := r.asked[left[i].key]
		if left = slices.Delete(left, i, i+1); asked {
			return agent.VerdictAskAgain
		}
		return agent.VerdictAllow
	}
}

// answer answers a question as the recording has it.
func (r *Recording) answer(_ context.Context, ask agent.Ask) (agent.Decision, error) {
	d := r.settled[suffix(ask.ID)]
	switch {
	case d == nil:
		return agent.Decline("the recording has no answer to this question"), nil
	case d.Status != store.AskAccepted:
		return agent.Decline(cmp.Or(d.Reason, runlog.Reason(d.Answer))), nil
	case ask.Kind == agent.KindLimit:
		more, err := runlog.More(d.Answer)
		return agent.AcceptMore(more), err
	case d.Scope == runlog.ScopeRun:
		return agent.AcceptForRun(), nil
	}
	return agent.Accept(), nil
}

// model says what the model of the recording has said, turn by turn. It is asked by one run, one
// turn after the other.
type model struct {
	r *Recording
	n int
}

func (m *model) Name() string { return m.r.began.Model }

func (m *model) Stream(context.Context, *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		n := m.n
		m.n++
		if n >= len(m.r.turns) {
			yield(nil, fmt.Errorf("the recording has %d turns, and one more is asked for", len(m.r.turns)))
			return
		}
		turn := m.r.turns[n]
		if turn == nil {
			yield(nil, errors.New(m.r.failed[n]))
			return
		}
		calls := 0
		var cut []llm.ToolCall
		for _, c := range turn.Message.Content {
			var ev llm.Event
			switch c := c.(type) {
			case *mcp.TextContent:
				ev = llm.TextDelta{Text: c.Text}
			case *mcp.ToolUseContent:
				call := llm.ToolCall{Index: calls, ID: c.ID, Name: c.Name, Arguments: c.Input}
				if slices.Contains(turn.Spoilt, c.ID) && runlog.Cut(turn.Finish) {
					cut = append(cut, call)
					continue
				}
				ev = call
				calls++
			default:
				continue
			}
			if !yield(ev, nil) {
				return
			}
		}
		if yield(llm.Usage{Input: turn.Usage.Input, Output: turn.Usage.Output, Estimated: turn.Usage.Estimated}, nil) {
			yield(llm.Finish{Reason: turn.Finish, Model: turn.Model, Cut: cut}, nil)
		}
	}
}
