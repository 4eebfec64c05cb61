package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
)

// members decodes the parameters of a request.
func members(t *testing.T, m *mcp.Message) map[string]json.RawMessage {
	t.Helper()
	out := map[string]json.RawMessage{}
	if err := mcp.Unmarshal(m.Params, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// rounds is a handler that gives one answer after the other, the last one again and
// again.
func rounds(results ...string) func(*asker, *mcp.Message) string {
	var mu sync.Mutex
	n := 0
	return func(_ *asker, m *mcp.Message) string {
		mu.Lock()
		defer mu.Unlock()
		r := results[min(n, len(results)-1)]
		n++
		return resultOf(m, r)
	}
}

const done = `{"resultType":"complete","content":[]}`

func inputs(entries string, state ...string) string {
	out := `{"resultType":"input_required"`
	if entries != "" {
		out += `,"inputRequests":{` + entries + `}`
	}
	for _, s := range state {
		out += `,"requestState":` + s
	}
	return out + `}`
}

func ask(key, method, params string) string {
	return `"` + key + `":{"method":"` + method + `","params":` + params + `}`
}

// MRTR-03, MRTR-10, MRTR-11, MRTR-16, MRTR-18, MRTR-32: all three kinds in one round,
// answered together by the very callbacks of legacy servers; the retry has another
// id, the same parameters, the answers by their keys and the state byte by byte.
func TestRound(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2026_07_28)
		const state = `"\u0000\u2028 \"ä\\ \ud83d\ude00 {\"not\":\"parsed\"}"`
		s.on[mcp.MethodCallTool] = rounds(inputs(
			ask("a", mcp.MethodElicit, elicitForm("?"))+","+ask("b", mcp.MethodCreateMessage, sampleHello)+","+`"c":{"method":"roots/list"}`+","+
				ask("d", mcp.MethodElicit, `{"mode":"url","message":"go","url":"https://x.example/p"}`), state), inputs("", `"second"`), done)
		both := make(chan struct{})
		human := &decider{}
		human.decide = func(_ context.Context, a *Ask) (*Decision, error) {
			if a.Kind == AskForm {
				<-both // it is open together with the other
				return &Decision{Action: mcp.ActionAccept, Content: map[string]json.RawMessage{"name": json.RawMessage(`"Ada"`)}}, nil
			}
			close(both)
			return &Decision{Action: mcp.ActionAccept}, nil
		}
		var b browserLog
		c := s.dial(&Options{AskOptions: AskOptions{
			Human: human, Sampler: model("hello"), SampleFreely: true, OpenURL: b.open,
			Roots: []mcp.Root{{URI: "file:///a"}}, RootAvailable: func(string) bool { return true },
		}})
		opts := &CallOptions{Progress: func(Progress) {}, Meta: mcp.Meta{"x": json.RawMessage(`1`)}}
		if _, err := c.CallTool(t.Context(), "t", json.RawMessage(`{"k":[1,2]}`), opts); err != nil {
			t.Fatal(err)
		}
		calls := s.requests(mcp.MethodCallTool)
		if len(calls) != 3 {
			t.Fatalf("%d attempts, want 3", len(calls))
		}
		ids, tokens := map[string]bool{}, map[string]bool{}
		for i := range calls {
			p := members(t, &calls[i])
			var meta mcp.Meta
			if err := mcp.Unmarshal(p["_meta"], &meta); err != nil {
				t.Fatal(err)
			}
			ids[calls[i].ID.String()], tokens[meta.ProgressToken().String()] = true, true
			if string(p["name"]) != `"t"` || string(p["arguments"]) != `{"k":[1,2]}` || string(meta["x"]) != "1" || meta.ProtocolVersion() != mcp.V2026_07_28 {
				t.Errorf("attempt %d: got %s", i, calls[i].Params)
			}
		}
		if len(ids) != 3 || len(tokens) != 3 {
			t.Errorf("ids and progress tokens: got %v %v, want 3 each", ids, tokens)
		}
		second, third := members(t, &calls[1]), members(t, &calls[2])
		wantJSON(t, "answers", string(second["inputResponses"]), `{"a":{"action":"accept","content":{"name":"Ada","age":7}},
			"b":{"role":"assistant","model":"m","stopReason":"endTurn","content":{"type":"text","text":"hello"}},
			"c":{"roots":[{"uri":"file:///a"}]},"d":{"action":"accept"}}`)
		var got, want string
		if mcp.Unmarshal(second["requestState"], &got) != nil || json.Unmarshal([]byte(state), &want) != nil || got != want {
			t.Errorf("state: got %q, want %q", got, want)
		}
		if _, has := members(t, &calls[0])["requestState"]; has || string(third["requestState"]) != `"second"` || third["inputResponses"] != nil {
			t.Errorf("third attempt: got %s", calls[2].Params)
		}
		if urls := b.opened(); len(urls) != 1 || urls[0] != "https://x.example/p" {
			t.Errorf("opened: got %v", urls)
		}
		for _, a := range human.seen() {
			if len(a.Calls) != 1 || a.Calls[0].Name != "t" {
				t.Errorf("the question is of %v", a.Calls)
			}
		}
		synctest.Wait()
		if n := len(c.Elicitations()); n != 0 {
			t.Errorf("%d pages are pending after the call", n)
		}
	})
}

// MRTR-11: without a state none is sent; MRTR-12: a refused form is an answer. The
// methods are the three of MRTR-01.
func TestRoundOfEachMethod(t *testing.T) {
	do := map[string]func(c *Client) error{
		mcp.MethodCallTool:  func(c *Client) error { _, err := c.CallTool(context.Background(), "t", nil, nil); return err },
		mcp.MethodGetPrompt: func(c *Client) error { _, err := c.GetPrompt(context.Background(), "p", nil, nil); return err },
		mcp.MethodReadResource: func(c *Client) error {
			_, err := c.ReadResource(context.Background(), "file:///x", nil)
			return err
		},
	}
	last := map[string]string{
		mcp.MethodCallTool: done, mcp.MethodGetPrompt: `{"resultType":"complete","messages":[]}`,
		mcp.MethodReadResource: `{"resultType":"complete","contents":[],"ttlMs":100000,"cacheScope":"public"}`,
	}
	for method, call := range do {
		for _, action := range []string{"accept", "decline", "cancel"} {
			t.Run(method+" "+action, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := newAsker(t, mcp.V2026_07_28)
					s.on[method] = rounds(inputs(ask("k", mcp.MethodElicit, elicitForm("?"))), last[method])
					c := s.dial(&Options{AskOptions: AskOptions{Human: says(action, "name", `"A"`)}})
					if err := call(c); err != nil {
						t.Fatal(err)
					}
					got := s.requests(method)
					p := members(t, &got[1])
					want := `{"k":{"action":"` + action + `"}}`
					if action == "accept" {
						want = `{"k":{"action":"accept","content":{"name":"A","age":7}}}`
					}
					wantJSON(t, "answers", string(p["inputResponses"]), want)
					if _, has := p["requestState"]; has {
						t.Error("a state was sent, though none came")
					}
					if err := call(c); err != nil { // MRTR-18, CACHE-04
						t.Fatal(err)
					}
					if n := len(s.requests(method)); n != 3 {
						t.Errorf("%d requests, want 3: an answer that came by a retry must not be kept", n)
					}
				})
			})
		}
	}
}

// MRTR-02, MRTR-12, MRTR-13, MRTR-15, ROB-9, SECA-33, SECA-48: what cannot be
// answered ends the call at once, here, and nobody is asked.
func TestUnanswerable(t *testing.T) {
	form := ask("k", mcp.MethodElicit, elicitForm("?"))
	many := make([]string, asks.MaxEntries+1)
	for i := range many {
		many[i] = ask(fmt.Sprint("k", i), mcp.MethodElicit, elicitForm("?"))
	}
	human := AskOptions{Human: says("accept", "name", `"A"`)}
	sampler := AskOptions{Sampler: model("x"), SampleFreely: true}
	tests := []struct {
		name    string
		opts    AskOptions
		result  string
		refused bool
		asked   int
	}{
		{"MRTR-02 nothing", human, inputs(""), false, 0},
		{"MRTR-13 unknown method", human, inputs(ask("k", "tools/call", `{}`)), false, 0},
		{"MRTR-13 no params", human, inputs(`"k":{"method":"elicitation/create"}`), false, 0},
		{"MRTR-13 undeclared elicitation", sampler, inputs(form), false, 0},
		{"MRTR-13 undeclared sampling", human, inputs(ask("k", mcp.MethodCreateMessage, sampleHello)), false, 0},
		{"MRTR-13 undeclared roots", human, inputs(ask("k", mcp.MethodListRoots, `{}`)), false, 0},
		{"MRTR-13 SAMP-04 undeclared tools", sampler, inputs(ask("k", mcp.MethodCreateMessage, `{"messages":[],"maxTokens":1,"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`)), false, 0},
		{"MRTR-13 SAMP-22", AskOptions{Sampler: model("x"), SampleFreely: true, SamplingTools: true}, inputs(ask("k", mcp.MethodCreateMessage, `{"messages":[{"role":"assistant","content":{"type":"tool_use","id":"1","name":"t","input":{}}}],"maxTokens":1}`)), false, 0},
		{"MRTR-13 ELIC-02 unknown mode", human, inputs(ask("k", mcp.MethodElicit, `{"mode":"x","message":""}`)), false, 0},
		{"MRTR-13 ELIC-06", human, inputs(form + "," + ask("l", mcp.MethodElicit, `{"message":"?","requestedSchema":{"type":"array"}}`)), false, 0},
		{"URL-16 ROB-9", human, inputs(ask("k", mcp.MethodElicit, `{"mode":"url","message":"?","url":"http://x.example"}`)), false, 0},
		{"MRTR-15 entries", human, inputs(strings.Join(many, ",")), false, 0},
		{"MRTR-15 state", human, inputs(form, `"`+strings.Repeat("x", asks.MaxState+1)+`"`), false, 0},
		{"MRTR-12 SAMP-41 refused sampling", AskOptions{Sampler: model("x"), Human: says("decline")}, inputs(ask("k", mcp.MethodCreateMessage, sampleHello)), true, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newAsker(t, mcp.V2026_07_28)
				s.on[mcp.MethodCallTool] = rounds(tt.result, done)
				c := s.dial(&Options{AskOptions: tt.opts})
				_, err := c.CallTool(t.Context(), "t", nil, nil)
				if !errors.Is(err, ErrInput) || errors.Is(err, ErrRefused) != tt.refused || errors.Is(err, mcp.ErrInvalidParams) {
					t.Errorf("CallTool: got %v", err)
				}
				if n := len(s.requests(mcp.MethodCallTool)); n != 1 {
					t.Errorf("%d attempts, want 1", n)
				}
				if d, ok := tt.opts.Human.(*decider); ok && len(d.seen()) > tt.asked {
					t.Errorf("asked: %+v", d.seen())
				}
			})
		})
	}
}

// MRTR-01: a server may ask because of three methods only.
func TestInputOfAnotherMethod(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2026_07_28)
		s.on[mcp.MethodListTools] = rounds(inputs(ask("k", mcp.MethodElicit, elicitForm("?"))))
		human := says("accept")
		c := s.dial(&Options{AskOptions: AskOptions{Human: human}})
		if _, err := c.ListTools(t.Context()); !errors.Is(err, ErrInput) || len(human.seen()) > 0 {
			t.Errorf("ListTools: got %v, asked %d times", err, len(human.seen()))
		}
	})
}

// MRTR-15, ROB-9: rounds are bounded, with questions and without; those without
// come after pauses that grow (MRTR-08, MRTR-10).
func TestRoundsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2026_07_28)
		s.on[mcp.MethodCallTool] = rounds(inputs(ask("k", mcp.MethodElicit, elicitForm("?"))))
		human := says("accept", "name", `"A"`)
		c := s.dial(&Options{AskOptions: AskOptions{Human: human}})
		if _, err := c.CallTool(t.Context(), "t", nil, nil); !errors.Is(err, ErrInput) || len(human.seen()) != asks.MaxRounds {
			t.Errorf("with questions: got %v after %d of them", err, len(human.seen()))
		}
		before := len(s.requests(mcp.MethodCallTool))
		s.change(func() { s.on[mcp.MethodCallTool] = rounds(inputs("", `"wait"`)) })
		began := time.Now()
		_, err := c.CallTool(t.Context(), "t", nil, nil)
		if n := len(s.requests(mcp.MethodCallTool)) - before; !errors.Is(err, ErrInput) || n != 1+asks.MaxStateOnly {
			t.Errorf("state only: got %v after %d attempts, want %d", err, n, 1+asks.MaxStateOnly)
		}
		if took, want := time.Since(began), asks.StateOnlyPause*(1+4+16); took != want {
			t.Errorf("state only: took %v, want %v", took, want)
		}
		s.change(func() { s.on[mcp.MethodCallTool] = rounds(inputs("", `"wait"`), inputs("", `"wait"`), done) })
		if _, err := c.CallTool(t.Context(), "t", nil, nil); err != nil {
			t.Errorf("two rounds without questions: got %v", err)
		}
	})
}

// MRTR-08 holds also for a client that has declared nothing.
func TestStateOnlyWithoutCapabilities(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2026_07_28)
		s.on[mcp.MethodCallTool] = rounds(inputs("", `"busy"`), done)
		c := s.dial(&Options{})
		if _, err := c.CallTool(t.Context(), "t", nil, nil); err != nil {
			t.Error(err)
		}
	})
}

// MRTR-14: state and answers belong to one call. Two that are asked at once get
// each its own, and each its own Human (SECA-6).
func TestRoundsOfParallelCalls(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2026_07_28)
		s.on[mcp.MethodCallTool] = func(s *asker, m *mcp.Message) string {
			name, _ := m.NameString()
			p := map[string]json.RawMessage{}
			_ = mcp.Unmarshal(m.Params, &p)
			if p["requestState"] == nil {
				return resultOf(m, inputs(ask("k", mcp.MethodElicit, elicitForm(name)), `"`+name+`"`))
			}
			return resultOf(m, fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":%q}]}`, string(p["requestState"])+string(p["inputResponses"])))
		}
		c := s.dial(&Options{AskOptions: AskOptions{Human: says("decline")}})
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				name := fmt.Sprint("t", i)
				human := says("accept", "name", `"`+name+`"`)
				res, err := c.CallTool(t.Context(), name, nil, &CallOptions{Human: human})
				if err != nil {
					t.Error(err)
					return
				}
				got, want := res.Content.Text(), fmt.Sprintf(`"%s"{"k":{"action":"accept","content":{"age":7,"name":"%s"}}}`, name, name)
				if asks := human.seen(); got != want || len(asks) != 1 || asks[0].Message != name {
					t.Errorf("call %s: got %s, asked %d times", name, got, len(asks))
				}
			})
		}
		wg.Wait()
	})
}

// MRTR-17, CANC-13: a call that is cancelled between two rounds sends nothing, and
// its questions close.
func TestCancelBetweenRounds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2026_07_28)
		s.on[mcp.MethodCallTool] = rounds(inputs(ask("a", mcp.MethodElicit, elicitForm("?")) + "," + ask("b", mcp.MethodElicit, elicitForm("?"))))
		human := silent()
		c := s.dial(&Options{AskOptions: AskOptions{Human: human}})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		if _, err := c.CallTool(ctx, "t", nil, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("CallTool: got %v", err)
		}
		synctest.Wait()
		if n := c.questions.asks.Limits.Count(); n != 0 || len(human.seen()) != 2 {
			t.Errorf("%d of %d questions are open", n, len(human.seen()))
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if last := s.heard[len(s.heard)-1]; last.Method != mcp.MethodCallTool {
			t.Errorf("the client also said %s", last.Method)
		}
	})
}

// TIME-05: while a question of a call is open its clocks stand still, and OnWait
// hears of it, once for all that are open together.
func TestClocksStandStill(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		t.Run(string(v), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newAsker(t, v)
				s.on[mcp.MethodCallTool] = rounds(inputs(ask("a", mcp.MethodElicit, elicitForm("?"))+","+ask("b", mcp.MethodElicit, elicitForm("?"))), done)
				if v.Era() == mcp.EraLegacy {
					s.on[mcp.MethodCallTool] = func(s *asker, m *mcp.Message) string {
						a, b := s.send("a", mcp.MethodElicit, elicitForm("?")), s.send("b", mcp.MethodElicit, elicitForm("?"))
						<-a
						<-b
						return resultOf(m, `{"content":[]}`)
					}
				}
				slow := &decider{decide: func(context.Context, *Ask) (*Decision, error) {
					time.Sleep(5 * time.Minute)
					return &Decision{Action: mcp.ActionDecline}, nil
				}}
				c := s.dial(&Options{AskOptions: AskOptions{Human: slow}})
				var waits []bool
				opts := &CallOptions{Idle: 10 * time.Second, Max: 20 * time.Second, OnWait: func(w bool) { waits = append(waits, w) }}
				if _, err := c.CallTool(t.Context(), "t", nil, opts); err != nil {
					t.Error(err)
				}
				if fmt.Sprint(waits) != "[true false]" {
					t.Errorf("OnWait: got %v", waits)
				}
			})
		})
	}
}

// A killed question of a round ends its call with an error, and with no other answer.
func TestQuestionIsKilled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2026_07_28)
		s.on[mcp.MethodCallTool] = rounds(inputs(ask("a", mcp.MethodElicit, elicitForm("?"))+","+ask("b", mcp.MethodElicit, elicitForm("?"))), done)
		var mu sync.Mutex
		var refs []actors.Ref
		tracer := &actors.Tracer{Keep: func(ev actors.TraceEvent) bool {
			if ev.Actor.Kind() == actors.KindInbound {
				mu.Lock()
				defer mu.Unlock()
				refs = append(refs, ev.Actor)
			}
			return false
		}}
		c := s.dial(&Options{System: traced(t, tracer), AskOptions: AskOptions{Human: silent()}})
		time.AfterFunc(time.Second, func() {
			mu.Lock()
			first := refs[0]
			mu.Unlock()
			first.Stop()
		})
		_, err := c.CallTool(t.Context(), "t", nil, nil)
		if !errors.Is(err, ErrInput) {
			t.Errorf("CallTool: got %v", err)
		}
		synctest.Wait()
		if n := len(s.requests(mcp.MethodCallTool)); n != 1 || c.questions.asks.Limits.Count() != 0 {
			t.Errorf("%d attempts, %d questions open; want 1, 0", n, c.questions.asks.Limits.Count())
		}
	})
}

// The actor that questions of calls live under is made anew when it was stopped.
func TestInboxIsKilled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2026_07_28)
		round := inputs(ask("a", mcp.MethodElicit, elicitForm("?")))
		s.on[mcp.MethodCallTool] = rounds(round, done, round, round, done)
		human := says("accept", "name", `"A"`)
		c := s.dial(&Options{AskOptions: AskOptions{Human: human}})
		if _, err := c.CallTool(t.Context(), "t", nil, nil); err != nil {
			t.Fatal(err)
		}
		human.becomes(silent())
		time.AfterFunc(time.Minute, func() { c.questions.asks.Inbox().Stop() })
		if _, err := c.CallTool(t.Context(), "t", nil, nil); !errors.Is(err, ErrInput) {
			t.Errorf("while it is stopped: got %v", err)
		}
		human.becomes(says("accept", "name", `"A"`))
		if _, err := c.CallTool(t.Context(), "t", nil, nil); err != nil {
			t.Errorf("afterwards: got %v", err)
		}
	})
}
