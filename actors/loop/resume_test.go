package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// dying is the store of a process that ends at an append: just before it is durable, or just
// after. It may be left in order then.
type dying struct {
	store.Store
	mu      sync.Mutex
	left    int
	written bool // the last one is durable
	dead    bool
	suspend chan *loop.Run // gives the run, which is suspended in place of the death; nil for none
}

func (d *dying) Append(ctx context.Context, a store.Append) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left--
	if d.suspend != nil {
		if d.left == 0 && !d.written {
			(<-d.suspend).BeginSuspend()
		}
		last, err := d.Store.Append(ctx, a)
		if d.left == 0 && d.written {
			(<-d.suspend).BeginSuspend()
		}
		d.dead = d.dead || d.left == 0
		return last, err
	}
	if d.dead || d.left > 0 {
		if d.dead {
			return 0, store.ErrFenced
		}
		return d.Store.Append(ctx, a)
	}
	if d.dead = true; d.written {
		_, _ = d.Store.Append(ctx, a)
	}
	return 0, store.ErrFenced
}

func (d *dying) Renew(ctx context.Context, run, owner string, epoch int64, ttl time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead && d.suspend == nil {
		return store.ErrFenced
	}
	return d.Store.Renew(ctx, run, owner, epoch, ttl)
}

// effects counts the calls that were made, by their keys.
type effects struct {
	mu   sync.Mutex
	made map[string]int
}

func (e *effects) of(call string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.made[call]
}

func (e *effects) tool(name string, safe bool) loop.Tool {
	t := tool(name, func(_ context.Context, call *loop.Call) (string, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.made[name+" "+call.Key]++
		return name + string(call.Arguments), nil
	})
	t.Safe = safe
	return t
}

// answerAll lets every question have its answer from elsewhere.
func (b *bench) answerAll() {
	for {
		select {
		case a := <-b.sink.asked:
			b.answer(a)
		case <-b.t.Context().Done():
			return
		}
	}
}

// answerAway answers the questions that are open while no process works on the run.
func (b *bench) answerAway() {
	asks, err := b.store.Asks(b.t.Context(), store.AskQuery{Status: store.AskPending})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, a := range asks {
		b.answer(a)
	}
}

func (b *bench) answer(a store.Ask) {
	d := accept()
	if a.Kind == runlog.AskOutcome {
		way := runlog.OutcomeAgain
		if b.made.of(a.Tool+" "+strings.TrimSuffix(a.ID, a.ID[strings.LastIndexByte(a.ID, '.'):])) > 0 {
			way = runlog.OutcomeHappened
		}
		d = runlog.OutcomeDecision(way, "so it was")
	}
	if a.Tool == "no" {
		d = store.Decision{Status: store.AskDeclined, By: "ada", Answer: runlog.DeclineAnswer("not today")}
	}
	_, _ = b.store.SettleAsk(context.Background(), a.ID, d) // it may be settled
}

// resume starts the run again in another process: it claims it and folds its journal.
func (b *bench) resume(cfg *loop.Config) (*bench, *loop.Run) { return b.resumeAs(cfg, "") }

// resumeAs is resume with a policy for calls of unknown outcome.
func (b *bench) resumeAs(cfg *loop.Config, unknown string) (*bench, *loop.Run) {
	b.t.Helper()
	next := &bench{t: b.t, sys: b.sys, agents: b.agents, store: b.store, made: b.made, sink: &recorder{asked: make(chan store.Ask, 100)}}
	head, err := b.store.Claim(b.t.Context(), "r1", "second", time.Minute)
	if err != nil {
		b.t.Fatalf("Claim: %v", err)
	}
	state, err := runlog.Fold(b.t.Context(), b.store, "r1")
	if err != nil {
		b.t.Fatalf("Fold: %v", err)
	}
	asks, err := b.store.Asks(b.t.Context(), store.AskQuery{Run: "r1"})
	if err != nil {
		b.t.Fatal(err)
	}
	decided := make(map[string]store.Ask)
	for _, a := range asks {
		if a.Status != store.AskPending {
			decided[a.ID] = a
		}
	}
	cfg.Owner, cfg.Sink, cfg.Origin = "second", next.sink, nil
	cfg.Resumes = &loop.Resumption{Head: head, Claimed: time.Now(), State: state, Unknown: unknown, Decided: decided}
	return next, next.start(cfg)
}

// TestResumeAtEveryBoundary: a run whose process ends just before or just after any of its
// appends is durable goes on in another one to the same answer, by the same conversation; a
// call that is not declared safe is made once, also where a person has to say whether it was, and
// none without its approval; its cost is the sum of its events. So does a run that is suspended there,
// and of it no call's outcome is unknown.
func TestResumeAtEveryBoundary(t *testing.T) { eachWay(t, resumeAtEveryBoundary) }

func resumeAtEveryBoundary(t *testing.T) {
	call := func(names ...string) llmtest.Turn {
		var calls []llmtest.Turn
		for _, name := range names {
			calls = append(calls, llmtest.Call(name, nil))
		}
		return llmtest.Calls(calls...)
	}
	say, cut := llmtest.Say("done"), llmtest.Call("write", `{"a":`).Finish(llm.FinishLength)
	tests := []struct {
		name   string
		model  []llmtest.Turn
		config func(*loop.Config)
	}{
		{"an answer", []llmtest.Turn{say}, nil},
		{"calls", []llmtest.Turn{call("write", "write"), call("read", "write"), say}, nil},
		{"calls that ask", []llmtest.Turn{call("ask", "write", "no"), call("ask"), say}, nil},
		{"calls that are refused", []llmtest.Turn{call("missing", "write"), say}, nil},
		{"the same call again and again", []llmtest.Turn{call("read"), call("read"), call("read"), call("read"), say}, nil},
		{"the same call to the end", []llmtest.Turn{call("read"), call("read"), call("read"), call("read"), call("read"), call("read"), say}, nil},
		{"the same rounds to the end", []llmtest.Turn{call("read"), call("write"), call("read"), call("write"), call("read"), call("write"), call("read"), call("write"), say},
			func(c *loop.Config) { c.Repeats = 2 }},
		{"the same error to the end", []llmtest.Turn{call("missing"), call("missing", "missing"), call("missing"), call("missing"), say}, func(c *loop.Config) { c.Repeats = 2 }},
		{"polls", []llmtest.Turn{call("read"), call("poll", "read"), call("poll"), call("poll", "read"), call("read"), say}, func(c *loop.Config) {
			poll := tool("poll", echo)
			poll.Safe, poll.Polls = true, true
			c.Tools, c.Repeats = append(c.Tools.(tools), poll), 2
		}},
		{"poor answers", []llmtest.Turn{llmtest.Say("no"), call("write"), llmtest.Say("no"), say}, func(c *loop.Config) {
			c.Check = func(text string) (json.RawMessage, error) {
				if text != "done" {
					return nil, errors.New("it is not done")
				}
				return nil, nil
			}
		}},
		{"a refused answer", []llmtest.Turn{llmtest.Say("secret"), call("write"), say}, func(c *loop.Config) {
			c.Guards = []guard.Guard{{AfterModel: func(_ context.Context, g *guard.Reply) guard.Result {
				if g.Response.Text() == "secret" {
					return guard.Refused("no")
				}
				return guard.Result{}
			}}}
		}},
		{"an empty answer", []llmtest.Turn{call("write"), llmtest.Turn{}, call("write"), say}, nil},
		{"nothing but empty answers", []llmtest.Turn{call("write"), llmtest.Turn{}, llmtest.Turn{}}, nil},
		{"a call that was cut", []llmtest.Turn{llmtest.Join(llmtest.Call("write", nil), llmtest.Call("write", `{"a":`)).Finish(llm.FinishLength), say}, nil},
		{"calls that are cut again and again", []llmtest.Turn{cut, cut, cut}, nil},
		{"a last turn that calls", []llmtest.Turn{call("write"), call("write"), llmtest.Join(llmtest.Say("so far"), call("write", "missing")), say}, func(c *loop.Config) {
			c.Limits.ToolCalls, c.Limits.OnLimit = 1, runlog.LimitWrapUp
		}},
		{"a last turn that calls again", []llmtest.Turn{call("write"), call("write"), llmtest.Join(llmtest.Say("so far"), call("write")), call("write")}, func(c *loop.Config) {
			c.Limits.ToolCalls, c.Limits.OnLimit = 1, runlog.LimitWrapUp
		}},
		{"more steps", []llmtest.Turn{call("write"), call("ask"), say}, func(c *loop.Config) {
			c.Limits.Steps, c.Limits.OnLimit = 1, runlog.LimitAsk
		}},
		{"more tool calls", []llmtest.Turn{call("write", "write"), call("write"), say}, func(c *loop.Config) {
			c.Limits.ToolCalls, c.Limits.OnLimit = 1, runlog.LimitAsk
		}},
		{"another agent", []llmtest.Turn{call("write"), call("over"), call("theirs"), say}, func(c *loop.Config) {
			theirs := tool("theirs", echo)
			over := tool("over", echo)
			over.HandOff = func() *loop.Config {
				return &loop.Config{Agent: "other", Model: c.Model, Own: loop.Own{Tools: tools{theirs}, Gate: allow}}
			}
			c.Tools = append(c.Tools.(tools), over)
		}},
		{"a condition", []llmtest.Turn{call("write"), call("write"), say}, func(c *loop.Config) {
			c.StopWhen = func(info *guard.TurnInfo) (string, bool) { return "enough", info.Turn == 2 }
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				want, wantOut := "", loop.Outcome{}
				each := func(b *bench, n int, written, suspended bool) (ended bool) {
					made := &effects{made: make(map[string]int)}
					b.made = made
					config := func(b *bench) *loop.Config {
						cfg := b.config(llmtest.ByHistory(tt.model...), made.tool("write", false), made.tool("read", true), made.tool("ask", false), made.tool("no", false))
						cfg.Gate = func(_ context.Context, t *loop.Tool, _ json.RawMessage) guard.Verdict {
							if t.Name == "ask" || t.Name == "no" {
								return guard.Ask
							}
							return guard.Allow
						}
						cfg.AskExpiry = 24 * time.Hour
						if tt.config != nil {
							tt.config(cfg)
						}
						return cfg
					}
					cfg := config(b)
					d := &dying{Store: b.store, left: n, written: written}
					if cfg.Journal = d; n == 0 {
						d.left = 1 << 30 // the undisturbed run
					}
					if suspended && n > 0 {
						d.suspend = make(chan *loop.Run, 1)
					}
					go b.answerAll()
					first := b.start(cfg)
					if d.suspend != nil {
						d.suspend <- first
					}
					out := b.finish(first)
					if n > 0 && !d.dead {
						return true
					}
					if head, err := b.store.Run(t.Context(), "r1"); err != nil || n > 0 && head.State.Ended() {
						return false
					}
					if n > 0 {
						if suspended && !errors.Is(out.Err, loop.ErrSuspended) {
							t.Errorf("suspended at append %d: got %+v", n, out)
						} else if !suspended {
							time.Sleep(2 * time.Minute) // the lease is over
						}
						b.answerAway()
						b, first = b.resume(config(b))
						go b.answerAll()
						out = b.finish(first)
					}
					state, err := runlog.Fold(t.Context(), b.store, "r1")
					if err != nil {
						t.Fatal(err)
					}
					got, reported := inJSON(t, state.Messages()), false
					for key, times := range made.made {
						if times > 1 && key[:4] != "read" || key[:2] == "no" {
							t.Errorf("died at append %d (durable: %v): %s was made %d times", n, written, key, times)
						}
					}
					for _, c := range state.Calls {
						if !c.Done {
							t.Errorf("died at append %d (durable: %v): the outcome of %s is unknown", n, written, c.Key)
						}
						reported = reported || c.Outcome != nil
					}
					if n == 0 {
						want, wantOut = got, out
						return false
					}
					if out.State != wantOut.State || out.Text != wantOut.Text || out.Steps != wantOut.Steps || out.ToolCalls != wantOut.ToolCalls || !reported && got != want || reported && suspended {
						t.Errorf("died at append %d (durable: %v, suspended: %v): the outcome is %+v, want %+v; the conversation is\n%swant\n%s%v %+v",
							n, written, suspended, out, wantOut, got, want, b.types(), out.Err)
					}
					return false
				}
				for n, ended := 0, false; !ended && n < 80; n++ {
					for way := range 4 {
						if written := way%2 == 1; n == 0 && way == 0 || n > 0 && (written || !testing.Short()) {
							ended = each(b.anew(), n, written, way > 1) || ended
						}
					}
				}
			})
		})
	}
}

// TestRefusedResume: a run that cannot go on with what it is resumed with is left as it is: its question stays, nothing is decided,
// and it goes on with the right configuration. Where its journal is not kept it fails.
func TestRefusedResume(t *testing.T) {
	for name, change := range map[string]func(*loop.Config){
		"another agent":    func(cfg *loop.Config) { cfg.Agent = "another" },
		"tools that panic": func(cfg *loop.Config) { cfg.Tools = brokenTools{} },
	} {
		for _, stored := range []bool{true, false} {
			inBubble(t, func(t *testing.T, b *bench) {
				cfg := b.askAboutWrite(time.Second)
				run := b.start(cfg)
				row := <-b.sink.asked
				synctest.Wait()
				if err := run.Suspend(t.Context()); err != nil {
					t.Fatal(err)
				}
				b.finish(run)
				wrong := b.askAboutWrite(time.Second)
				change(wrong)
				wrong.Stored = stored
				b, again := b.resume(wrong)
				out := b.finish(again)
				refused, ok := errors.AsType[*loop.RefusedError](out.Err)
				if !stored {
					if ok || out.State != store.Failed {
						t.Errorf("%s: not kept: %+v", name, out)
					}
					return
				}
				if !ok || refused.Run != "r1" || out.State != store.Waiting {
					t.Fatalf("%s: %+v", name, out)
				}
				if types := b.types(); types[len(types)-1] != runlog.RunParkedType || types[len(types)-2] != runlog.RunResumedType {
					t.Errorf("%s: the journal: %v", name, types)
				}
				if head, err := b.store.Run(t.Context(), "r1"); err != nil || head.State != store.Waiting || head.Leased(time.Now()) {
					t.Errorf("%s: its row: %+v, %v", name, head, err)
				}
				if a, err := b.store.Ask(t.Context(), row.ID); err != nil || a.Status != store.AskPending {
					t.Errorf("%s: its question: %+v, %v", name, a, err)
				}
				right := b.askAboutWrite(time.Second)
				right.Model = llmtest.Script(llmtest.Say("ok"))
				b, again = b.resume(right)
				if _, err := again.Answer(t.Context(), row.ID, accept()); err != nil {
					t.Errorf("%s: Answer: %v", name, err)
				}
				if out := b.finish(again); out.Text != "ok" || out.ToolCalls != 2 {
					t.Errorf("%s: at last: %+v", name, out)
				}
			})
		}
	}
}

type brokenTools struct{}

func (brokenTools) Offer(context.Context) (*loop.Offer, []runlog.Absent) { panic("broken") }
