package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
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

var errUser = errors.New("enough")

// hang is a tool that waits for its context.
var hang = tool("hang", func(ctx context.Context, _ *loop.Call) (string, error) {
	<-ctx.Done()
	return "", context.Cause(ctx)
})

// slowTools are a list that takes an hour.
type slowTools struct{}

func (slowTools) Offer(ctx context.Context) (*loop.Offer, []runlog.Absent) {
	<-ctx.Done()
	return nil, nil
}

// TestCancel cancels a run in each of its states. It ends at once, with one outcome,
// and the trace shows where it was.
func TestCancel(t *testing.T) {
	forever := llmtest.Slow(24 * time.Hour)
	ask := func(context.Context, *loop.Tool, json.RawMessage) guard.Verdict { return guard.Ask }
	think := func(ctx context.Context, _ *loop.Tool, _ json.RawMessage) guard.Verdict {
		<-ctx.Done()
		return guard.Allow
	}
	tests := []struct {
		state  string
		change func(b *bench, cfg *loop.Config)
		trace  string // messages up to the cancel
		events string
	}{
		{"opening", func(b *bench, cfg *loop.Config) {
			cfg.Journal = &slowJournal{Journal: b.store, slowCreate: 3 * time.Second}
		},
			"Started", "run.started run.finished"},
		{"listing", func(_ *bench, cfg *loop.Config) { cfg.Tools = slowTools{} },
			"Started Creation", "run.started run.finished"},
		{"thinking", func(_ *bench, cfg *loop.Config) {
			cfg.Model = llmtest.Script(llmtest.Join(llmtest.Say("Hel"), forever))
		},
			"Started Creation listed appended", "run.started tools.listed model.intent model.failed run.finished"},
		{"deciding", func(_ *bench, cfg *loop.Config) { cfg.Gate = think },
			"Started Creation listed appended modelReplied", "run.started tools.listed model.intent model.result run.finished"},
		{"acting", func(*bench, *loop.Config) {},
			"Started Creation listed appended modelReplied decided appended",
			"run.started tools.listed model.intent model.result i d run.ending u run.finished"},
		{"asking", func(_ *bench, cfg *loop.Config) { cfg.Gate = ask },
			"Started Creation listed appended modelReplied decided appended",
			"run.started tools.listed model.intent model.result i ask.opened run.ending ask.settled run.finished"},
	}
	for _, tt := range tests {
		t.Run(tt.state, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				cfg := b.config(llmtest.Loop(llmtest.Call("hang", nil)), hang)
				cfg.Journal = plain{b.store} // its answers are in the trace
				tt.change(b, cfg)
				run := b.start(cfg)
				synctest.Wait()
				before := strings.ReplaceAll(strings.Join(b.trace.Lines(), " "), "run ", "")
				if before != tt.trace {
					t.Errorf("messages before the cancel:\n got %s\nwant %s", before, tt.trace)
				}
				began := time.Now()
				run.Cancel(errUser)
				run.Cancel(errors.New("a second cause"))
				out := b.finish(run)
				if !errors.Is(out.Err, errUser) || out.State != store.Cancelled || out.Stop != runlog.StopCancelled {
					t.Errorf("outcome: %+v", out)
				}
				if took := time.Since(began); took > 3*time.Second {
					t.Errorf("it took %v to end", took)
				}
				b.wantTypes(tt.events)
				for _, a := range b.allAsks(t) {
					if a.Status != store.AskCancelled {
						t.Errorf("ask: %+v", a)
					}
				}
				if out.ToolCalls != strings.Count(tt.events, " d ") {
					t.Errorf("tool calls: got %d", out.ToolCalls)
				}
			})
		})
	}
}

func (b *bench) allAsks(t *testing.T) []store.Ask {
	t.Helper()
	asks, err := b.store.Asks(context.Background(), store.AskQuery{})
	if err != nil {
		t.Fatal(err)
	}
	return asks
}

// TestLateResult: what a tool did although it was cancelled is recorded as late.
func TestLateResult(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		stubborn := tool("stubborn", func(ctx context.Context, _ *loop.Call) (string, error) {
			<-ctx.Done()
			time.Sleep(2 * time.Second)
			return "done anyway", nil
		})
		run := b.start(b.config(llmtest.Script(llmtest.Call("stubborn", nil)), stubborn))
		synctest.Wait()
		run.Cancel(errUser)
		b.finish(run)
		b.wantTypes("run.started tools.listed model.intent model.result i d run.ending r run.finished")
		for _, e := range b.events() {
			if r, ok := e.Body.(*runlog.ToolResult); ok && (!r.Late || !r.Made) {
				t.Errorf("result: %+v", r)
			}
		}
	})
}

// TestDeafTool: a tool that does not heed its context is given up after the grace.
func TestDeafTool(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		deaf := tool("deaf", func(context.Context, *loop.Call) (string, error) { time.Sleep(time.Minute); return "", nil })
		cfg := b.config(llmtest.Script(llmtest.Call("deaf", nil)), deaf)
		cfg.Grace = 7 * time.Second
		run := b.start(cfg)
		synctest.Wait()
		began := time.Now()
		run.Cancel(errUser)
		out := b.finish(run)
		if took := time.Since(began); took != cfg.Grace || !errors.Is(out.Err, errUser) {
			t.Errorf("ended after %v with %v", took, out.Err)
		}
		b.wantTypes("run.started tools.listed model.intent model.result i d run.ending u run.finished")
		time.Sleep(time.Minute)
	})
}

// TestCancelBetweenDispatchAndCall: a call whose dispatch is being written when the
// run ends is not made, and the journal says so.
func TestCancelBetweenDispatchAndCall(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		made := false
		effect := tool("effect", func(context.Context, *loop.Call) (string, error) { made = true; return "", nil })
		cfg := b.config(llmtest.Script(llmtest.Call("effect", nil)), effect)
		cfg.Journal = &slowJournal{Journal: b.store, slow: store.ToolDispatched, wait: 2 * time.Second}
		run := b.start(cfg)
		synctest.Wait()
		run.Cancel(errUser)
		out := b.finish(run)
		if made || out.ToolCalls != 0 {
			t.Errorf("made: %v, counted: %d", made, out.ToolCalls)
		}
		b.wantTypes("run.started tools.listed model.intent model.result i d run.ending r run.finished")
	})
}

// slowJournal waits, or fails, before it appends events of one type.
type slowJournal struct {
	loop.Journal
	slowCreate time.Duration
	slow       string
	wait       time.Duration
	fail       error
	deaf       bool // does not heed its context
}

func (j *slowJournal) Create(ctx context.Context, r store.Run, owner string, ttl time.Duration, first ...store.Event) (store.Run, error) {
	time.Sleep(j.slowCreate)
	return j.Journal.Create(context.WithoutCancel(ctx), r, owner, ttl, first...)
}

func (j *slowJournal) Append(ctx context.Context, a store.Append) (int64, error) {
	if slices.ContainsFunc(a.Events, func(e store.Event) bool { return e.Type == j.slow }) {
		if j.deaf {
			time.Sleep(j.wait)
		} else if j.wait > 0 {
			select {
			case <-time.After(j.wait):
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		}
		if j.fail != nil {
			return 0, j.fail
		}
	}
	return j.Journal.Append(ctx, a)
}

// TestJournalFails: nothing happens whose events are not durable, and the run ends.
func TestJournalFails(t *testing.T) {
	damaged := store.ErrCorrupt // which does not pass
	tests := []struct {
		at     string
		fail   error
		made   bool
		events string
	}{
		{runlog.ModelIntentType, damaged, false, "run.started model.failed run.finished"},
		{store.ModelResult, damaged, false, "run.started tools.listed model.intent run.finished"},
		{store.ToolIntent, damaged, false, "run.started tools.listed model.intent run.finished"},
		{store.ToolResult, damaged, true, "run.started tools.listed model.intent model.result i d model.failed run.finished"},
		{store.RunFinished, damaged, true, "run.started tools.listed model.intent model.result i d r model.intent"},
		{store.ToolIntent, store.ErrFenced, false, "run.started tools.listed model.intent"},
	}
	for _, tt := range tests {
		t.Run(tt.at+" "+tt.fail.Error(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				made := false
				effect := tool("effect", func(context.Context, *loop.Call) (string, error) { made = true; return "", nil })
				cfg := b.config(llmtest.Script(llmtest.Call("effect", nil), llmtest.Say("ok")), effect)
				cfg.Journal = &slowJournal{Journal: b.store, slow: tt.at, fail: tt.fail}
				out := b.finish(b.start(cfg))
				var journal *loop.JournalError
				state := store.Failed
				if tt.fail == store.ErrFenced { // the run is left
					state = store.Waiting
				}
				if !errors.As(out.Err, &journal) || !errors.Is(out.Err, tt.fail) || out.State != state || errors.Is(out.Err, loop.ErrLeft) != (tt.fail == store.ErrFenced) {
					t.Errorf("outcome: %+v", out)
				}
				if made != tt.made {
					t.Errorf("the call was made: %v, want %v", made, tt.made)
				}
				b.wantTypes(tt.events)
			})
		})
	}
}

// TestSlowJournal: the run waits for its journal, however long.
func TestSlowJournal(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		var at time.Duration
		began := time.Now()
		effect := tool("effect", func(context.Context, *loop.Call) (string, error) { at = time.Since(began); return "", nil })
		cfg := b.config(llmtest.Script(llmtest.Call("effect", nil), llmtest.Say("ok")), effect)
		cfg.Journal = &slowJournal{Journal: b.store, slow: store.ToolDispatched, wait: 10 * time.Minute}
		if out := b.finish(b.start(cfg)); out.Err != nil || at != 10*time.Minute {
			t.Errorf("the call was made after %v, outcome %+v", at, out)
		}
	})
}

// TestStuckJournal: a run that is cancelled while its journal is stuck ends within two
// graces all the same.
func TestStuckJournal(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		inBubble(t, func(t *testing.T, b *bench) {
			cfg := b.config(llmtest.Script(llmtest.Say("ok")))
			cfg.Journal = &slowJournal{Journal: b.store, slow: runlog.ModelIntentType, wait: time.Hour, deaf: deaf}
			run := b.start(cfg)
			synctest.Wait()
			began := time.Now()
			run.Cancel(errUser)
			out := b.finish(run)
			var journal *loop.JournalError
			if took := time.Since(began); took > 10*time.Second || !errors.Is(out.Err, errUser) || !errors.As(out.Err, &journal) {
				t.Errorf("deaf=%v: ended after %v: %+v", deaf, took, out)
			}
			if deaf {
				time.Sleep(time.Hour)
			}
		})
	}
}

// TestFencedByAnother: a run whose lease somebody else has claimed stops, and leaves
// the journal to the new owner.
func TestFencedByAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		run := b.start(b.config(llmtest.Script(llmtest.Join(llmtest.Slow(time.Hour), llmtest.Say("ok")))))
		synctest.Wait()
		head, err := b.store.Claim(t.Context(), "r1", "test", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		out := b.finish(run)
		if !errors.Is(out.Err, store.ErrFenced) || !errors.Is(out.Err, loop.ErrLeft) || time.Since(began) > time.Minute {
			t.Errorf("ended after %v: %+v", time.Since(began), out)
		}
		if now, err := b.store.Run(t.Context(), "r1"); err != nil || now.State != store.Running || now.Epoch != head.Epoch {
			t.Errorf("head: %+v, %v", now, err)
		}
	})
}

// TestLeaseIsRenewed: nobody can claim a run that is being worked on.
func TestLeaseIsRenewed(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		run := b.start(b.config(llmtest.Script(llmtest.Join(llmtest.Slow(10*time.Minute), llmtest.Say("ok")))))
		for range 9 {
			time.Sleep(time.Minute)
			if _, err := b.store.Claim(t.Context(), "r1", "thief", time.Hour); !errors.Is(err, store.ErrLeased) {
				t.Fatalf("Claim: got %v, want ErrLeased", err)
			}
		}
		if out := b.finish(run); out.Err != nil {
			t.Errorf("outcome: %+v", out)
		}
	})
}

func TestIDThatIsTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		if out := b.finish(b.start(b.config(llmtest.Script(llmtest.Say("ok"))))); out.Err != nil {
			t.Fatal(out.Err)
		}
		cfg := b.config(llmtest.Script())
		cfg.Input = []llm.Message{llm.User("again")}
		run := b.start(cfg)
		head, err := run.Opened(t.Context())
		if !errors.Is(err, store.ErrExists) || head.State != store.Finished {
			t.Errorf("Opened: got %+v, %v", head, err)
		}
		<-run.Stopped()
	})
}
