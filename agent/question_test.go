package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// forms is a server of 2025-06-18 whose one tool asks for a name before it answers.
type forms struct {
	sink   mcp.Sink
	goesOn bool // a call whose question was cancelled is not answered

	mu    sync.Mutex
	calls []mcp.ID // by the number of the question, from 0
	asked []string // what it was answered
}

// Connect implements [mcpclient.Connector].
func (f *forms) Connect(sink mcp.Sink) (mcp.Link, error) {
	f.sink = sink
	return f, nil
}

// Close implements [mcp.Link].
func (f *forms) Close() error {
	f.sink.Lost(nil)
	return nil
}

// Send implements [mcp.Link]. What it says in turn comes from another goroutine, as
// from any server.
func (f *forms) Send(m mcp.Outgoing) error {
	var msg mcp.Message
	if err := mcp.Scan(m.Frame, &msg); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var say []byte
	switch {
	case msg.Method == mcp.MethodDiscover:
		say = mcp.AppendError(nil, msg.ID, mcp.Errorf(mcp.CodeMethodNotFound, "unknown"))
	case msg.Method == mcp.MethodInitialize:
		say = mcp.AppendResult(nil, msg.ID, []byte(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"Your Bank","version":"1"}}`))
	case msg.Method == mcp.MethodListTools:
		say = mcp.AppendResult(nil, msg.ID, []byte(`{"tools":[{"name":"greet","inputSchema":{"type":"object"}}]}`))
	case msg.Method == mcp.MethodCallTool:
		n := int64(len(f.calls))
		f.calls = append(f.calls, msg.ID)
		say = mcp.AppendRequest(nil, mcp.IntID(n), mcp.MethodElicit, []byte(`{"message":"What is your name?","requestedSchema":{"type":"object",`+
			`"properties":{"name":{"type":"string"},"tone":{"type":"string","default":"warm"}},"required":["name"]}}`))
	case msg.Kind == mcp.KindResult || msg.Kind == mcp.KindError:
		n, _ := msg.ID.Int64()
		answer := string(msg.Result)
		if msg.Error != nil {
			answer = msg.Error.Error()
		}
		f.asked = append(f.asked, answer)
		if f.goesOn && strings.Contains(answer, `"cancel"`) {
			break
		}
		raw, err := jsonx.Marshal(&mcp.CallToolResult{Content: mcp.Contents{mcp.Text(answer)}})
		if err != nil {
			return err
		}
		say = mcp.AppendResult(nil, f.calls[n], raw)
	}
	if say != nil {
		go f.sink.Frame(say)
	}
	return nil
}

// TestServerAsks: what a server asks during a call of a run is a question of that
// run, and its answer goes back. Who asks is who was configured (SECA-34).
func TestServerAsks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := new(forms)
		model := llmtest.Script(call("bank__greet", nil), llmtest.Say("done"))
		rt := open(t, &agent.Options{Model: model, Approve: agent.NeverAsk,
			Servers: []mcpclient.Server{mcpclient.InProcess("bank", server)}})
		run := start(t, rt, "r")
		var settled []string
		for ev, err := range run.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			switch ev := ev.(type) {
			case agent.Ask:
				q := ev.Question
				if ev.Kind != "form" || ev.Server != "bank" || ev.Tool != "bank__greet" || q == nil || q.Message != "What is your name?" || q.Form == nil || strings.Contains(q.Origin, "Your Bank") {
					t.Errorf("ask: got %+v, question %+v", ev, q)
				}
				time.Sleep(5 * time.Minute) // TIME-05: the limits of run and call stand still
				d, err := agent.Fill(map[string]any{"name": "Ada"})
				if err == nil {
					err = ev.Answer(t.Context(), d.By("ada"))
				}
				if err != nil {
					t.Errorf("Answer: %v", err)
				}
			case agent.AskSettled:
				settled = append(settled, string(ev.Status)+" "+ev.By)
			}
		}
		if res, err := run.Wait(t.Context()); err != nil || res.Text != "done" {
			t.Errorf("Wait: got %+v, %v", res, err)
		}
		if len(settled) != 1 || settled[0] != "accepted ada" {
			t.Errorf("settled: got %q", settled)
		}
		var got mcp.ElicitResult
		if len(server.asked) != 1 || jsonx.Unmarshal([]byte(server.asked[0]), &got) != nil || got.Action != mcp.ActionAccept ||
			string(got.Content["name"]) != `"Ada"` || string(got.Content["tone"]) != `"warm"` { // ELIC-09
			t.Errorf("the server was answered %q", server.asked)
		}
	})
}

// TestUnansweredServerQuestion: a question without an answer is declined when it
// expires, and the run goes on.
func TestUnansweredServerQuestion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := new(forms)
		s := memory()
		rt := open(t, &agent.Options{Model: llmtest.Script(call("bank__greet", nil), llmtest.Say("done")), Approve: agent.NeverAsk,
			Store: s, Servers: []mcpclient.Server{mcpclient.InProcess("bank", server)}})
		run := start(t, rt, "r")
		if res, err := run.Wait(t.Context()); err != nil || res.Text != "done" {
			t.Errorf("Wait: got %+v, %v", res, err)
		}
		if len(server.asked) != 1 || !strings.Contains(server.asked[0], `"decline"`) {
			t.Errorf("the server was answered %q, want a refusal", server.asked)
		}
		asks, err := s.Asks(t.Context(), store.AskQuery{Run: "r"})
		if err != nil || len(asks) != 1 || asks[0].Status != store.AskExpired || asks[0].Kind != "form" {
			t.Errorf("Asks: got %+v, %v", asks, err)
		}
	})
}

// TestRunsAskForThemselves: two runs share a server that does not say which call it
// asks for. Neither gets the other's question.
func TestRunsAskForThemselves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := new(forms)
		model := func() *llmtest.Model { return llmtest.Script(call("bank__greet", nil), llmtest.Say("done")) }
		rt := open(t, &agent.Options{Approve: agent.NeverAsk, Servers: []mcpclient.Server{mcpclient.InProcess("bank", server)}})
		runs := map[string]*agent.Run{}
		for _, name := range []string{"ada", "bob"} {
			a, err := rt.Agent(name, &agent.Config{Model: model()})
			if err != nil {
				t.Fatal(err)
			}
			if runs[name], err = a.Start(t.Context(), "go", &agent.RunOptions{ID: name}); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		for name, run := range runs {
			wg.Go(func() {
				for ev, err := range run.Events(t.Context()) {
					if err != nil {
						t.Error(err)
					}
					if ask, ok := ev.(agent.Ask); ok {
						d, err := agent.Fill(map[string]any{"name": name})
						if err == nil {
							err = ask.Answer(t.Context(), d)
						}
						if err != nil && !errors.Is(err, agent.ErrSettled) {
							t.Errorf("Answer: %v", err)
						}
					}
					if res, ok := ev.(agent.ToolResult); ok {
						var got mcp.ElicitResult
						if jsonx.Unmarshal([]byte(res.Result.Content.Text()), &got) != nil {
							t.Errorf("%s: result %q", name, res.Result.Content.Text())
						}
						var who string
						if raw := got.Content["name"]; raw != nil && json.Unmarshal(raw, &who) != nil || got.Action != mcp.ActionAccept || who != name {
							t.Errorf("the call of %s was answered by %q (%s)", name, who, got.Action)
						}
					}
				}
			})
		}
		wg.Wait()
	})
}

// TestQuestionAfterACancelledRun: where one person answers for all runs, a question that
// may be of a run that was cancelled is put to the run that is live, with the doubt shown;
// else it is declined, and the journal says why (SECA-6).
func TestQuestionAfterACancelledRun(t *testing.T) {
	for _, onePerson := range []bool{true, false} {
		t.Run(fmt.Sprintf("one person: %v", onePerson), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server := &forms{goesOn: true} // else its answer may come before the cancel, and end the call
				rt := open(t, &agent.Options{Model: llmtest.Script(call("bank__greet", nil), call("bank__greet", nil), llmtest.Say("done")), Approve: agent.NeverAsk,
					Host:    &mcpclient.HostOptions{Options: mcpclient.Options{AskOptions: mcpclient.AskOptions{OnePerson: onePerson, Serial: true}}},
					Servers: []mcpclient.Server{mcpclient.InProcess("bank", server)}})
				first := start(t, rt, "first")
				for ev := range first.Events(t.Context()) {
					if _, asked := ev.(agent.Ask); asked {
						first.Cancel(errTest)
					}
				}
				synctest.Wait() // until the client, too, has cancelled the call
				var notes []string
				var asked, declined int
				for ev, err := range start(t, rt, "second").Events(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					switch ev := ev.(type) {
					case agent.Ask:
						asked++
						notes = append(notes, ev.Question.Notes...)
						if err := ev.Answer(t.Context(), agent.Decline("")); err != nil {
							t.Error(err)
						}
					case agent.QuestionDeclined:
						declined++
						if ev.Kind != agent.KindForm || ev.Server != "bank" || ev.Tool != "bank__greet" || !strings.Contains(ev.Reason, "cancelled call of another owner") {
							t.Errorf("declined: got %+v", ev)
						}
					}
				}
				if onePerson && (asked != 1 || declined != 0 || len(notes) != 1 || !strings.Contains(notes[0], "a call that was cancelled 0s ago: greet")) {
					t.Errorf("asked %d times, declined %d times, with the notes %q", asked, declined, notes)
				}
				if !onePerson && (asked != 0 || declined != 1) {
					t.Errorf("asked %d times, declined %d times, want one question that is declined unasked %q", asked, declined, server.asked)
				}
			})
		})
	}
}
