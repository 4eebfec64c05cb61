package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// diesAt starts a run whose process ends at its n-th append, once that is durable, and waits until
// its lease is over.
func (b *bench) diesAt(n int, cfg *loop.Config) *dying {
	d := &dying{Store: b.store, left: n, written: true}
	cfg.Journal = d
	b.finish(b.start(cfg))
	time.Sleep(2 * time.Minute)
	return d
}

// TestUnknownOutcome: a call that was sent by a process that has ended is a question, bound to that
// call; each answer to it, and each policy in place of it, does what it says. Nothing is made
// again without one. A tool whose definition has changed asks for a new approval.
func TestUnknownOutcome(t *testing.T) {
	decline := store.Decision{Status: store.AskDeclined, By: "ada"}
	tests := []struct {
		name    string
		policy  string
		answer  store.Decision
		changed bool
		then    store.Decision // for the call of the changed tool
		made    int
		says    string // the model reads
		state   store.RunState
	}{
		{name: "it happened", answer: runlog.OutcomeDecision(runlog.OutcomeHappened, "paid as no. 7"), says: "paid as no. 7", state: store.Finished},
		{name: "again", answer: runlog.OutcomeDecision(runlog.OutcomeAgain, ""), made: 1, says: "write{}", state: store.Finished},
		{name: "tell", answer: runlog.OutcomeDecision(runlog.OutcomeTell, "look at the bank's page"), says: "look at the bank's page", state: store.Finished},
		{name: "end", answer: runlog.OutcomeDecision(runlog.OutcomeEnd, ""), state: store.Failed},
		{name: "a plain yes", answer: accept(), says: "is unknown", state: store.Finished},
		{name: "a plain no", answer: decline, says: "is unknown", state: store.Finished},
		{name: "no answer", says: "is unknown", state: store.Finished},
		{name: "again, and the tool is another", answer: runlog.OutcomeDecision(runlog.OutcomeAgain, ""), changed: true, then: accept(), made: 1, says: "write{}", state: store.Finished},
		{name: "again, and the other tool is declined", answer: runlog.OutcomeDecision(runlog.OutcomeAgain, ""), changed: true, then: decline, says: "is unknown", state: store.Finished},
		{name: "policy tell", policy: runlog.OutcomeTell, says: "is unknown", state: store.Finished},
		{name: "policy again", policy: runlog.OutcomeAgain, made: 1, says: "write{}", state: store.Finished},
		{name: "policy again, and the tool is another", policy: runlog.OutcomeAgain, changed: true, then: decline, says: "is unknown", state: store.Finished},
		{name: "policy end", policy: runlog.OutcomeEnd, state: store.Failed},
	}
	for _, tt := range tests {
		for _, away := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bench) {
					first := tool("write", func(ctx context.Context, _ *loop.Call) (string, error) {
						<-ctx.Done() // the process ends
						return "", ctx.Err()
					})
					model := llmtest.ByHistory(llmtest.Call("write", nil), llmtest.Say("done"))
					cfg := b.config(model, first)
					b.diesAt(2, cfg) // the dispatch
					made := &effects{made: make(map[string]int)}
					again := made.tool("write", false)
					if tt.changed {
						again.Hash = "another"
					}
					resume := func() (*bench, *loop.Run) {
						cfg := b.config(model, again)
						cfg.AskExpiry = time.Hour
						return b.resumeAs(cfg, tt.policy)
					}
					b, run := resume()
					if tt.policy == "" {
						ask := <-b.sink.asked
						var p runlog.OutcomePayload
						if err := json.Unmarshal(ask.Payload, &p); err != nil || ask.Kind != runlog.AskOutcome || p.Key != "nonce-1-0" || p.Tool != "write" || p.Sent.IsZero() || ask.Hash == "" {
							t.Errorf("the question: got %+v, %v", ask, err)
						}
						if away { // it is answered while no process works on it
							synctest.Wait()
							if err := run.Suspend(t.Context()); err != nil {
								t.Fatal(err)
							}
							<-run.Stopped()
						}
						if tt.answer.Status != "" {
							if _, err := b.store.SettleAsk(t.Context(), ask.ID, tt.answer); err != nil {
								t.Fatal(err)
							}
						}
						if away {
							b, run = resume()
						}
					}
					if tt.changed {
						ask := <-b.sink.asked
						if ask.Kind != runlog.AskKind || ask.ID == "nonce-1-0" {
							t.Errorf("the question about the changed tool: got %+v", ask)
						}
						if _, err := b.store.SettleAsk(t.Context(), ask.ID, tt.then); err != nil {
							t.Fatal(err)
						}
					}
					out := b.finish(run)
					state, err := runlog.Fold(t.Context(), b.store, "r1")
					if err != nil {
						t.Fatal(err)
					}
					if got := inJSON(t, state.Messages()); out.State != tt.state || !strings.Contains(got, tt.says) || made.of("write nonce-1-0") != tt.made {
						t.Errorf("got %s, made %d times, and\n%swant %s, %d times, with %q", out.State, made.of("write nonce-1-0"), got, tt.state, tt.made, tt.says)
					}
					if tt.state == store.Failed && !errors.Is(out.Err, loop.ErrOutcomeUnknown) {
						t.Errorf("the run ended with %v", out.Err)
					}
					if out.ToolCalls != 1 {
						t.Errorf("got %d tool calls, want 1", out.ToolCalls)
					}
				})
			})
		}
	}
}

// timeOver is an error of a call whose time was over.
type timeOver struct{ error }

func (timeOver) Timeout() bool { return true }

// TestUnknownHere: a call whose outcome becomes unknown while its run lives is handled as after a crash: a
// safe one is made again, a few times, any other is a question, or what the policy says.
func TestUnknownHere(t *testing.T) {
	cut := &loop.UnknownError{Err: errors.New("cut off")}
	tests := []struct {
		name   string
		safe   bool
		unkept bool // the run has no journal
		policy string
		answer []store.Decision // of the questions, in their order
		fails  int              // calls that have no outcome
		err    error            // theirs, in place of cut
		made   int
		says   string // the model reads
		state  store.RunState
	}{
		{name: "safe", safe: true, fails: 2, made: 3, says: "write{}"},
		{name: "safe, and never answered", safe: true, fails: 9, made: 3, says: "is unknown, it may have taken effect: cut off"},
		{name: "safe, and its time was over", safe: true, fails: 9, err: &loop.UnknownError{Err: timeOver{errors.New("too late")}}, made: 1, says: "too late"},
		{name: "it happened", answer: []store.Decision{runlog.OutcomeDecision(runlog.OutcomeHappened, "paid as no. 7")}, fails: 9, made: 1, says: "paid as no. 7"},
		{name: "again", answer: []store.Decision{runlog.OutcomeDecision(runlog.OutcomeAgain, "")}, fails: 1, made: 2, says: "write{}"},
		{name: "again and again", answer: []store.Decision{runlog.OutcomeDecision(runlog.OutcomeAgain, ""), runlog.OutcomeDecision(runlog.OutcomeAgain, ""),
			runlog.OutcomeDecision(runlog.OutcomeAgain, ""), runlog.OutcomeDecision(runlog.OutcomeTell, "give it up")}, fails: 9, made: 4, says: "give it up"},
		{name: "tell", answer: []store.Decision{runlog.OutcomeDecision(runlog.OutcomeTell, "look there")}, fails: 9, made: 1, says: "look there"},
		{name: "end", answer: []store.Decision{runlog.OutcomeDecision(runlog.OutcomeEnd, "")}, fails: 9, made: 1, state: store.Failed},
		{name: "no answer", fails: 9, made: 1, says: "cut off"},
		{name: "policy tell", policy: runlog.OutcomeTell, fails: 9, made: 1, says: "cut off"},
		{name: "policy again", policy: runlog.OutcomeAgain, fails: 1, made: 2, says: "write{}"},
		{name: "policy again, and never answered", policy: runlog.OutcomeAgain, fails: 9, made: 3, says: "cut off"},
		{name: "policy end", policy: runlog.OutcomeEnd, fails: 9, made: 1, state: store.Failed},
		{name: "no journal", unkept: true, fails: 9, made: 1, says: "cut off"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				made := 0
				write := tool("write", func(_ context.Context, call *loop.Call) (string, error) {
					if made++; call.Key != "nonce-1-0" {
						t.Errorf("the key is %q", call.Key)
					}
					if made > tt.fails {
						return "write" + string(call.Arguments), nil
					}
					if tt.err != nil {
						return "", tt.err
					}
					return "", cut
				})
				write.Safe = tt.safe
				model := llmtest.Script(llmtest.Call("write", nil), llmtest.Say("done"))
				cfg := b.config(model, write)
				if cfg.Unknown = tt.policy; tt.unkept {
					cfg.Journal = nil
				}
				run := b.start(cfg)
				for _, answer := range tt.answer {
					ask := <-b.sink.asked
					var p runlog.OutcomePayload
					if err := json.Unmarshal(ask.Payload, &p); err != nil || ask.Kind != runlog.AskOutcome || p.Key != "nonce-1-0" || p.Tool != "write" || p.Why != "cut off" || p.Sent.IsZero() {
						t.Errorf("the question: got %+v, %v", ask, err)
					}
					if _, err := b.store.SettleAsk(t.Context(), ask.ID, answer); err != nil {
						t.Fatal(err)
					}
				}
				out := b.finish(run)
				want, says := store.Finished, ""
				if tt.state != "" {
					want = tt.state
				} else {
					says = strings.Join(results(model.Requests()[1]), " ")
				}
				if out.State != want || made != tt.made || !strings.Contains(says, tt.says) || out.ToolCalls != 1 {
					t.Errorf("got %s, made %d times, %d tool calls, the model reads %q; want %s, %d, 1, %q", out.State, made, out.ToolCalls, says, want, tt.made, tt.says)
				}
				if want == store.Failed && !errors.Is(out.Err, loop.ErrOutcomeUnknown) {
					t.Errorf("the run ended with %v", out.Err)
				}
			})
		})
	}
}

// TestUnknownHereThenKilled: the question about a call of this process is the same one after a crash.
func TestUnknownHereThenKilled(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		made := 0
		write := tool("write", func(context.Context, *loop.Call) (string, error) {
			if made++; made > 1 {
				return "paid", nil
			}
			return "", &loop.UnknownError{Err: errors.New("cut off")}
		})
		model := llmtest.ByHistory(llmtest.Call("write", nil), llmtest.Say("done"))
		config := func() *loop.Config {
			cfg := b.config(model, write)
			cfg.AskExpiry = time.Hour
			return cfg
		}
		b.diesAt(3, config()) // the question
		b, run := b.resume(config())
		synctest.Wait()
		asks, err := b.store.Asks(t.Context(), store.AskQuery{})
		if err != nil || len(asks) != 1 || asks[0].Status != store.AskPending {
			t.Fatalf("questions: got %+v, %v", asks, err)
		}
		if _, err := b.store.SettleAsk(t.Context(), asks[0].ID, runlog.OutcomeDecision(runlog.OutcomeAgain, "")); err != nil {
			t.Fatal(err)
		}
		if out := b.finish(run); out.Text != "done" || made != 2 {
			t.Errorf("got %+v, made %d times", out, made)
		}
	})
}

// TestDiesTwice: a run whose process ends at any append, and the next process at any of its own,
// makes each call once, as a person says of each whether it happened.
func TestDiesTwice(t *testing.T) {
	eachWay(t, diesTwice)
}

// eachWay is a test of all boundaries between appends: as they are, and as they are where nothing
// is held for the next one.
func eachWay(t *testing.T, test func(*testing.T)) {
	t.Run("held", test)
	if !testing.Short() {
		defer loop.HoldNothing()()
		t.Run("at once", test)
	}
}

func diesTwice(t *testing.T) {
	model := llmtest.ByHistory(llmtest.Calls(llmtest.Call("write", nil), llmtest.Call("ask", nil), llmtest.Call("write", nil)), llmtest.Call("write", nil), llmtest.Say("done"))
	inBubble(t, func(t *testing.T, b *bench) {
		each := func(b *bench, n, m int) (ended bool) {
			made := &effects{made: make(map[string]int)}
			b.made = made
			config := func() *loop.Config {
				cfg := b.config(model, made.tool("write", false), made.tool("ask", false))
				cfg.Gate = func(_ context.Context, t *loop.Tool, _ json.RawMessage) guard.Verdict {
					if t.Name == "ask" {
						return guard.Ask
					}
					return guard.Allow
				}
				cfg.AskExpiry = 24 * time.Hour
				return cfg
			}
			go b.answerAll()
			b.diesAt(n, config())
			if head, err := b.store.Run(t.Context(), "r1"); err != nil || head.State.Ended() {
				return true
			}
			b.answerAway()
			cfg := config()
			d := &dying{Store: b.store, left: m, written: true}
			cfg.Journal = d
			second, run := b.resume(cfg)
			go second.answerAll()
			second.finish(run)
			out := loop.Outcome{}
			if head, err := b.store.Run(t.Context(), "r1"); err != nil {
				t.Fatal(err)
			} else if ended = head.State.Ended(); !ended {
				time.Sleep(2 * time.Minute)
				b.answerAway()
				third, run := b.resume(config())
				go third.answerAll()
				out = third.finish(run)
			}
			if state, err := runlog.Fold(t.Context(), b.store, "r1"); ended && (err != nil || state.Finished == nil || state.Finished.Text != "done") {
				t.Errorf("died at %d and %d: the end is %+v, %v", n, m, state.Finished, err)
			}
			if !ended && (out.Text != "done" || out.Steps != 3 || out.ToolCalls != 4) {
				t.Errorf("died at %d and %d: got %+v", n, m, out)
			}
			for _, call := range []string{"write nonce-1-0", "ask nonce-1-1", "write nonce-1-2", "write nonce-2-0"} {
				if got := made.of(call); got != 1 {
					t.Errorf("died at %d and %d: %s was made %d times", n, m, call, got)
				}
			}
			return ended
		}
		for n := 1; n <= 14; n++ {
			for m, ended := 1, false; !ended; m++ {
				if testing.Short() && (n+m)%3 > 0 {
					ended = m > 12
				} else {
					ended = each(b.anew(), n, m)
				}
			}
		}
	})
}
