package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/runfile"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// asked is a program of its own with the tools "free" and "asks", of which the latter is asked about, and with the policy
// for unknown outcomes that repeats most.
type asked struct {
	effects
	asks atomic.Int64
	open func(t *testing.T, s store.Store, limits agent.Limits) *agent.Runtime
}

func newAsked(answer func() agent.Decision) *asked {
	a := &asked{effects: effects{made: make(map[string]int)}}
	a.open = func(t *testing.T, s store.Store, limits agent.Limits) *agent.Runtime {
		model := llmtest.ByHistory(llmtest.Calls(call("free", `{"n":1}`), call("asks", `{"n":2}`)), call("asks", `{"n":3}`), llmtest.Say("ok"))
		rt := open(t, &agent.Options{Store: s, Model: model, OnUnknown: agent.RepeatUnknown, Tools: []agent.Tool{a.tool("free"), agent.NeedsApproval(a.tool("asks"))},
			OnAsk: func(_ context.Context, q agent.Ask) (agent.Decision, error) {
				if q.Kind != agent.KindTool {
					return agent.Decision{}, fmt.Errorf("a question of the kind %s", q.Kind)
				}
				a.asks.Add(1)
				return answer(), nil
			}})
		if _, err := rt.Agent("other", &agent.Config{Limits: limits}); err != nil {
			t.Fatal(err)
		}
		return rt
	}
	return a
}

// recorded returns the run r1 of the agent other as its store has it, which was allowed "asks" for the whole run.
func recorded(t *testing.T) []runfile.Recording {
	t.Helper()
	s := memory()
	rt := newAsked(agent.AcceptForRun).open(t, s, agent.Limits{})
	a, err := rt.Agent("other", &agent.Config{})
	if err != nil {
		t.Fatal(err)
	}
	run, err := a.Start(t.Context(), "go", &agent.RunOptions{ID: "r1"})
	if err == nil {
		_, err = run.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	all, err := runfile.Load(t.Context(), s, "r1")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// edit returns the recording up to an event, with what change makes of the bodies by their types.
func edit(t *testing.T, all []runfile.Recording, upTo int, change map[string]func(body map[string]any)) []runfile.Recording {
	t.Helper()
	rec := all[0]
	rec.Events = slices.Clone(rec.Events[:upTo])
	if rec.Run.Seq = int64(upTo); rec.Events[upTo-1].Type != store.RunFinished {
		rec.Run.State = store.Running
	}
	for i := range rec.Events {
		ev := &rec.Events[i]
		f := change[ev.Type]
		if f == nil {
			continue
		}
		var body map[string]any
		err := json.Unmarshal(ev.Body, &body)
		if err == nil {
			f(body)
			ev.Body, err = json.Marshal(body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return []runfile.Recording{rec}
}

// TestImportedAtEveryEvent: what a run says that people of another store have allowed allows nothing here, wherever it ends,
// whatever the file says of its calls, and whether it is resumed, forked, or its fork is forked (SECA-41, SECA-53).
func TestImportedAtEveryEvent(t *testing.T) {
	forgeries := map[string]map[string]func(map[string]any){
		"nothing":         nil,
		"safe":            {store.ToolIntent: func(b map[string]any) { b["safe"] = true }},
		"other arguments": {store.ToolIntent: func(b map[string]any) { b["arguments"] = map[string]any{"n": 7} }},
		"no costs": {store.ModelResult: func(b map[string]any) { b["usage"] = map[string]any{"input": -1 << 40, "output": -1 << 40} },
			runlog.ModelIntentType: func(b map[string]any) { b["wallLeftMs"] = int64(1) << 50 }},
	}
	for name, change := range forgeries {
		for _, way := range []string{"resume", "fork", "fork of a fork"} {
			t.Run(name+" "+way, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					all := recorded(t)
					for n := 1; n <= len(all[0].Events); n++ {
						importedAt(t, edit(t, all, n, change), way)
					}
				})
			})
		}
	}
}

// importedAt imports a recording and goes on with it: no call of "asks" is made without a question here.
func importedAt(t *testing.T, all []runfile.Recording, way string) {
	t.Helper()
	at := fmt.Sprintf("imported up to event %d (%s)", all[0].Run.Seq, all[0].Events[all[0].Run.Seq-1].Type)
	s, a := memory(), newAsked(agent.Accept)
	rt := a.open(t, s, agent.Limits{})
	defer rt.Close()
	if err := runfile.Import(t.Context(), s, all, "import"); err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	run, err := rt.Resume(t.Context(), "r1", nil)
	if way != "resume" {
		if err == nil { // it has forks too when it has gone on here
			_, err = run.Wait(t.Context())
		}
		at += ", " + way
		id := "r1"
		for _, next := range strings.SplitAfter(way, " of a ") {
			if err == nil {
				run, err = rt.Fork(t.Context(), id, min(all[0].Run.Seq, 4), &agent.ForkOptions{ID: id + "-" + next[:1]})
				id += "-" + next[:1]
			}
		}
	}
	if err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	if _, err := run.Wait(t.Context()); err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	made := 0
	for what, n := range a.take() {
		if strings.HasPrefix(what, "asks") {
			made += n
		}
	}
	if asks := int(a.asks.Load()); made > asks {
		t.Errorf("%s: %d calls were made with %d approvals", at, made, asks)
	}
}

// TestImportedDecisions: no other decision of a file has an effect: not what came of a call, nor that it is one that goes on by
// itself, nor a raised limit, nor the limits of the run, nor what it has spent.
func TestImportedDecisions(t *testing.T) {
	intent := `{"turn":1,"callId":"%[1]s","tool":"asks","arguments":{"n":9},"safe":true}`
	sent := []store.Event{{Type: store.ToolIntent, Key: "K", Body: []byte(intent)}, {Type: store.ToolDispatched, Key: "K", Body: []byte(`{"turn":1,"callId":"%[1]s"}`)}}
	ask := func(kind, id, payload string) store.Event {
		body, _ := json.Marshal(runlog.AskOpened{Ask: store.Ask{ID: id, Run: "r1", Kind: kind, Payload: []byte(payload), Hash: "h"}})
		return store.Event{Type: store.AskOpened, Key: id, Body: body}
	}
	settled := func(id, answer string) store.Event {
		return store.Event{Type: store.AskSettled, Key: id, Body: []byte(`{"status":"accepted","by":"stranger","answer":` + answer + `}`)}
	}
	for name, more := range map[string][]store.Event{
		"decided on":  sent[:1],
		"sent":        sent,
		"again":       append(slices.Clone(sent), ask(runlog.AskOutcome, "K.1", `{"tool":"asks"}`), settled("K.1", `{"outcome":"again"}`)),
		"a task":      append(slices.Clone(sent), store.Event{Type: runlog.ToolTaskType, Key: "K", Body: []byte(`{"turn":1,"callId":"%[1]s","task":"t"}`)}),
		"a round":     append(slices.Clone(sent), store.Event{Type: runlog.ToolRoundType, Key: "K", Body: []byte(`{"turn":1,"callId":"%[1]s","requestState":"x"}`)}),
		"a sub-agent": {sent[0], {Type: store.ToolDispatched, Key: "K", Body: []byte(`{"turn":1,"callId":"%[1]s","run":"sub-K"}`)}},
		"limits": {ask(runlog.AskLimit, "n-limit-1", `{}`), settled("n-limit-1", `{"more":"1000"}`),
			{Type: runlog.LimitRaisedType, Body: []byte(`{"account":"run r1","limit":"steps","by":"1000"}`)}},
		"an open form": {ask(runlog.AskForm, "K.1", `{}`), ask(runlog.AskJob, "j", `{"job":"j"}`), ask(runlog.AskURL, "u", `{"url":"https://x.test"}`)},
		"a cut":        {{Type: runlog.HistoryCutType, Body: []byte(`{"turn":1,"messages":-3}`)}},
		"a past turn":  {{Type: runlog.ModelIntentType, Body: []byte(`{"turn":-1000000}`)}, {Type: store.ModelResult, Body: []byte(`{"turn":-1000000,"message":{"role":"assistant","content":[]}}`)}},
		"unopened":     {settled("K.9", `{}`)},
	} {
		for _, way := range []string{"resume", "fork"} {
			t.Run(name+" "+way, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					all := recorded(t)
					n := 1 + slices.IndexFunc(all[0].Events, func(ev store.Event) bool { return ev.Type == store.ModelResult })
					all = edit(t, all, n, map[string]func(map[string]any){store.RunStarted: func(b map[string]any) { b["steps"], b["wallMs"] = 1000, 1<<40 }})
					forge(t, &all[0], more)
					s, a := memory(), newAsked(func() agent.Decision { return agent.Decline("") })
					rt := a.open(t, s, agent.Limits{Steps: 1})
					if err := runfile.Import(t.Context(), s, all, "import"); err != nil {
						t.Fatal(err)
					}
					if asks, err := s.Asks(t.Context(), store.AskQuery{}); err != nil || len(asks) > 0 {
						t.Errorf("the import asks %+v, %v, want nothing", asks, err)
					}
					run, err := rt.Resume(t.Context(), "r1", nil)
					if way == "fork" {
						run, err = rt.Fork(t.Context(), "r1", 0, nil)
					}
					if err != nil {
						t.Fatal(err)
					}
					_, err = run.Wait(t.Context())
					var limit *agent.LimitError
					if !errors.As(err, &limit) || limit.Max != "1" {
						t.Errorf("got %v, want the limit of one step", err)
					}
					for what, n := range a.take() {
						if strings.HasPrefix(what, "asks") {
							t.Errorf("%s was called %d times, though it was declined", what, n)
						}
					}
				})
			})
		}
	}
}

// forge adds events to a recording, about the second call that the model asks for.
func forge(t *testing.T, rec *runfile.Recording, more []store.Event) {
	t.Helper()
	var res struct {
		Message struct {
			Content []struct{ ID string }
		}
	}
	var began struct{ Nonce string }
	if err := errors.Join(json.Unmarshal(rec.Events[len(rec.Events)-1].Body, &res), json.Unmarshal(rec.Events[0].Body, &began)); err != nil {
		t.Fatal(err)
	}
	key := began.Nonce + "-1-1"
	for _, ev := range more {
		ev.Key = strings.Replace(ev.Key, "K", key, 1)
		text := strings.ReplaceAll(string(ev.Body), "%[1]s", res.Message.Content[1].ID)
		ev.Body, ev.Run, ev.Seq = []byte(strings.ReplaceAll(text, `"K`, `"`+key)), rec.Run.ID, int64(len(rec.Events)+1)
		rec.Events = append(rec.Events, ev)
	}
	rec.Run.Seq = int64(len(rec.Events))
}

// TestImportedQuestion: a question whether a call may be made that is open in a file is asked here, and an answer that was given here
// counts, if the file shows what is called, and else a person is asked anew.
func TestImportedQuestion(t *testing.T) {
	for name, forged := range map[string]map[string]func(map[string]any){
		"as it was": nil,
		"another subject": {store.AskOpened: func(b map[string]any) {
			b["ask"].(map[string]any)["payload"] = map[string]any{"tool": "asks", "arguments": map[string]any{"n": 1}}
		}},
		"of another run": {store.AskOpened: func(b map[string]any) { b["ask"].(map[string]any)["run"] = "mine" }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				all := recorded(t)
				n := 1 + slices.IndexFunc(all[0].Events, func(ev store.Event) bool { return ev.Type == store.AskOpened })
				s, a := memory(), newAsked(agent.Accept)
				rt := a.open(t, s, agent.Limits{})
				if err := runfile.Import(t.Context(), s, edit(t, all, n, forged), "import"); err != nil {
					t.Fatal(err)
				}
				asks, err := s.Asks(t.Context(), store.AskQuery{Run: "r1", Status: store.AskPending})
				if err != nil || len(asks) != 1 {
					t.Fatalf("the questions: got %+v, %v, want one", asks, err)
				}
				if _, err := s.SettleAsk(t.Context(), asks[0].ID, store.Decision{Status: store.AskAccepted, Scope: runlog.ScopeRun, By: "ada"}); err != nil {
					t.Fatal(err)
				}
				run, err := rt.Resume(t.Context(), "r1", nil)
				if err == nil {
					_, err = run.Wait(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
				want := int64(0)
				if name == "another subject" {
					want = 2 // this one, and the next call of the tool
				}
				if made := a.take(); made["asks 2"] != 1 || made["asks 3"] != 1 || a.asks.Load() != want {
					t.Errorf("made %v with %d questions, want each once and %d", made, a.asks.Load(), want)
				}
			})
		})
	}
}

// TestImportedID: a run that was imported is none that Start has begun, whatever the file says of its input.
func TestImportedID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		all := recorded(t)
		s := memory()
		rt := newAsked(agent.Accept).open(t, s, agent.Limits{})
		if err := runfile.Import(t.Context(), s, all, "import"); err != nil {
			t.Fatal(err)
		}
		a, err := rt.Agent("other", &agent.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Start(t.Context(), "go", &agent.RunOptions{ID: "r1"}); !errors.Is(err, agent.ErrRunExists) {
			t.Errorf("Start: got %v, want ErrRunExists", err)
		}
	})
}

// TestImportedTwice: a run that goes on here is limited once, and what was decided here counts when it goes on again.
func TestImportedTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		all := recorded(t)
		n := slices.IndexFunc(all[0].Events, func(ev store.Event) bool { return ev.Type == store.ModelResult })
		var s store.Store = memory()
		if err := runfile.Import(t.Context(), s, edit(t, all, n, nil), "import"); err != nil {
			t.Fatal(err)
		}
		a := newAsked(func() agent.Decision { time.Sleep(time.Second); return agent.AcceptForRun() })
		rt := a.open(t, s, agent.Limits{Steps: 5})
		run, err := rt.Resume(t.Context(), "r1", nil)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(time.Second) // it is answered
		synctest.Wait()
		_ = run.Suspend(t.Context()) // or has ended
		again := a.open(t, s, agent.Limits{Steps: 1})
		run, err = again.Resume(t.Context(), "r1", nil)
		if err == nil {
			_, err = run.Wait(t.Context())
		}
		if err != nil || a.asks.Load() != 1 {
			t.Errorf("got %v after %d questions, want the end after one", err, a.asks.Load())
		}
		var limits []runlog.Limits
		for ev, err := range store.Replay(t.Context(), s, "r1", 0) {
			if err != nil {
				t.Fatal(err)
			}
			e, err := runlog.Decode(ev)
			if err != nil {
				t.Fatal(err)
			}
			if b, ok := e.Body.(*runlog.RunResumed); ok && b.Limits != nil {
				limits = append(limits, *b.Limits)
			}
		}
		if len(limits) != 1 || limits[0].Steps != 5 || limits[0].WallMS != time.Hour.Milliseconds() {
			t.Errorf("the limits of the run are %+v, want those of the first resume", limits)
		}
	})
}
