package agent_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// tasked is a server of 2025-11-25 that wants the model's answer as a task, waits for it
// with tasks/result, and returns it as the result of its tool.
type tasked struct {
	sink mcp.Sink

	mu   sync.Mutex
	call mcp.ID
}

// Connect implements [mcpclient.Connector].
func (s *tasked) Connect(sink mcp.Sink) (mcp.Link, error) {
	s.sink = sink
	return s, nil
}

// Close implements [mcp.Link].
func (s *tasked) Close() error {
	s.sink.Lost(nil)
	return nil
}

// Send implements [mcp.Link].
func (s *tasked) Send(m mcp.Outgoing) error {
	var msg mcp.Message
	if err := mcp.Scan(m.Frame, &msg); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var say []byte
	n, _ := msg.ID.Int64()
	switch {
	case msg.Method == mcp.MethodInitialize:
		say = mcp.AppendResult(nil, msg.ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"tasked","version":"1"}}`))
	case msg.Method == mcp.MethodListTools:
		say = mcp.AppendResult(nil, msg.ID, []byte(`{"tools":[{"name":"ask","inputSchema":{"type":"object"}}]}`))
	case msg.Method == mcp.MethodCallTool:
		s.call = msg.ID
		say = mcp.AppendRequest(nil, mcp.IntID(1), mcp.MethodCreateMessage,
			[]byte(`{"messages":[{"role":"user","content":{"type":"text","text":"Hi"}}],"maxTokens":100,"task":{"ttl":60000}}`))
	case msg.Kind == mcp.KindResult && n == 1:
		var made mcp.CreateTaskResult
		if err := jsonx.Unmarshal(msg.Result, &made); err != nil {
			return err
		}
		say = mcp.AppendRequest(nil, mcp.IntID(2), mcp.MethodTaskResult, []byte(`{"taskId":"`+made.Task.TaskID+`"}`))
	case msg.Kind == mcp.KindResult || msg.Kind == mcp.KindError:
		answer := string(msg.Result)
		if msg.Error != nil {
			answer = msg.Error.Error()
		}
		raw, err := jsonx.Marshal(&mcp.CallToolResult{Content: mcp.Contents{mcp.Text(answer)}})
		if err != nil {
			return err
		}
		say = mcp.AppendResult(nil, s.call, raw)
	}
	if say != nil {
		go s.sink.Frame(say)
	}
	return nil
}

// SAMP-42: an answer that is wanted as a task comes from the same model, within the same
// limits, and is the same run's to pay.
func TestSamplingAsTask(t *testing.T) {
	for _, tt := range []struct {
		name     string
		requests int
		times    int
		want     string
		calls    int
	}{
		{"answered", 0, 1, `"Hello"`, 3},
		{"beyond its limit", 1, 2, "sampling refused", 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				srv := mcpclient.InProcess("bank", new(tasked))
				srv.Protocol = string(mcp.V2025_11_25)
				var turns []llmtest.Turn
				for range tt.times {
					turns = append(turns, call("bank__ask", nil))
				}
				rt := open(t, &agent.Options{Model: llmtest.Script(append(turns, llmtest.Say("done"))...), Approve: agent.NeverAsk, Servers: []mcpclient.Server{srv},
					Sampling: &agent.Sampling{Model: llmtest.Loop(llmtest.Say("Hello")), Default: agent.SamplingPolicy{Mode: mcpclient.SamplingAllow, Requests: tt.requests}}})
				run := start(t, rt, "r")
				last := ""
				for ev, err := range run.Events(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					if ev, ok := ev.(agent.ToolResult); ok {
						last = ev.Result.Content.Text()
					}
				}
				res, err := run.Wait(t.Context())
				if err != nil || !strings.Contains(last, tt.want) || res.Spent.ModelCalls != tt.calls {
					t.Errorf("got %q, %v, %+v, want %q and %d calls of models", last, err, res.Spent, tt.want, tt.calls)
				}
			})
		})
	}
}

// SECA-43: nothing that a server has sampled gets into the conversation of the run but
// what it returns, nor from one request of it into the next.
func TestSamplingLeavesNothing(t *testing.T) {
	inEras(t, func(t *testing.T, protocol string) {
		model := llmtest.Loop(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
			if len(req.Messages) != 1 {
				t.Errorf("the model was asked with %d messages", len(req.Messages))
			}
			return llmtest.Say("a poisoned answer")
		}))
		main := llmtest.Script(call("bank__quiet", nil), llmtest.Say("done"))
		rt := open(t, &agent.Options{Model: main, Approve: agent.NeverAsk, Servers: []mcpclient.Server{quiet(t, "bank", protocol, question("a poisoned question"))},
			Sampling: &agent.Sampling{Model: model, Default: allow}})
		if _, err := rt.Run(t.Context(), "go"); err != nil {
			t.Fatal(err)
		}
		if len(model.Requests()) != 2 {
			t.Errorf("the model was asked %d times, want twice", len(model.Requests()))
		}
		for _, req := range main.Requests() {
			raw, err := jsonx.Marshal(req)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(raw), "poisoned") {
				t.Errorf("in the run's conversation: %s", raw)
			}
		}
	})
}

// unrelated is a server of 2025-06-18 that does not say which call it asks for: it asks
// the model once as soon as so many calls are out, and answers them all with what it got.
type unrelated struct {
	calls int

	sink mcp.Sink
	mu   sync.Mutex
	out  []mcp.ID
	got  []string
}

// Connect implements [mcpclient.Connector].
func (s *unrelated) Connect(sink mcp.Sink) (mcp.Link, error) {
	s.sink = sink
	return s, nil
}

// Close implements [mcp.Link].
func (s *unrelated) Close() error {
	s.sink.Lost(nil)
	return nil
}

// Send implements [mcp.Link].
func (s *unrelated) Send(m mcp.Outgoing) error {
	var msg mcp.Message
	if err := mcp.Scan(m.Frame, &msg); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var say [][]byte
	ask := func() {
		say = append(say, mcp.AppendRequest(nil, mcp.IntID(1), mcp.MethodCreateMessage, []byte(`{"messages":[{"role":"user","content":{"type":"text","text":"Hi"}}],"maxTokens":100}`)))
	}
	switch {
	case msg.Method == mcp.MethodInitialize:
		say = append(say, mcp.AppendResult(nil, msg.ID, []byte(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"unrelated","version":"1"}}`)))
	case msg.Method == mcp.MethodListTools:
		if s.calls == 0 { // before anything can be called
			ask()
		}
		say = append(say, mcp.AppendResult(nil, msg.ID, []byte(`{"tools":[{"name":"ask","inputSchema":{"type":"object"}}]}`)))
	case msg.Method == mcp.MethodCallTool:
		if s.out = append(s.out, msg.ID); len(s.out) == s.calls {
			ask()
		}
	case msg.Kind == mcp.KindResult || msg.Kind == mcp.KindError:
		answer := string(msg.Result)
		if msg.Error != nil {
			answer = msg.Error.Error()
		}
		s.got = append(s.got, answer)
	}
	if len(s.got) > 0 {
		raw, err := jsonx.Marshal(&mcp.CallToolResult{Content: mcp.Contents{mcp.Text(s.got[0])}})
		if err != nil {
			return err
		}
		for _, id := range s.out {
			say = append(say, mcp.AppendResult(nil, id, raw))
		}
		s.out = nil
	}
	go func() {
		for _, frame := range say {
			s.sink.Frame(frame)
		}
	}()
	return nil
}

// SECA-43: what may belong to either of two calls of one run is that run's; what belongs
// to no call is the server's alone, and reviewed by nobody of a run.
func TestSamplingWithoutItsCall(t *testing.T) {
	accept := mcpclient.HumanFunc(func(_ context.Context, a *mcpclient.Ask) (*mcpclient.Decision, error) {
		return &mcpclient.Decision{Action: mcp.ActionAccept, Hash: a.Hash}, nil
	})
	tests := []struct {
		name     string
		calls    int // that are out when it asks
		human    mcpclient.Human
		mode     mcpclient.SamplingMode
		want     string
		sampled  int
		ofTheRun int // calls of models beyond its own two
	}{
		{"one of two calls", 2, nil, mcpclient.SamplingAllow, `"Hello"`, 1, 1},
		{"no call", 0, nil, mcpclient.SamplingAllow, `"Hello"`, 1, 0},
		{"no call, and nobody to ask", 0, nil, mcpclient.SamplingAsk, "rejected", 0, 0},
		{"no call, and the program's Human", 0, accept, mcpclient.SamplingAsk, `"Hello"`, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				srv := mcpclient.InProcess("bank", &unrelated{calls: tt.calls})
				srv.Protocol = string(mcp.V2025_06_18)
				model := llmtest.Loop(llmtest.Say("Hello"))
				host := &mcpclient.HostOptions{Options: mcpclient.Options{AskOptions: mcpclient.AskOptions{Human: tt.human}}}
				turn := call("bank__ask", nil)
				if tt.calls == 2 {
					turn = llmtest.Calls(call("bank__ask", map[string]int{"n": 1}), call("bank__ask", map[string]int{"n": 2}))
				}
				rt := open(t, &agent.Options{Model: llmtest.Script(turn, llmtest.Say("done")), Approve: agent.NeverAsk, Servers: []mcpclient.Server{srv}, Host: host,
					Sampling: &agent.Sampling{Model: model, Default: agent.SamplingPolicy{Mode: tt.mode}}})
				run := start(t, rt, "r")
				for ev, err := range run.Events(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					if ev, ok := ev.(agent.ToolResult); ok && !strings.Contains(strings.ToLower(ev.Result.Content.Text()), strings.ToLower(tt.want)) {
						t.Errorf("result: got %q, want %q", ev.Result.Content.Text(), tt.want)
					}
				}
				res, err := run.Wait(t.Context())
				if err != nil || len(model.Requests()) != tt.sampled || res.Spent.ModelCalls != 2+tt.ofTheRun {
					t.Errorf("got %v, %d turns sampled and %d of the run, want %d and %d", err, len(model.Requests()), res.Spent.ModelCalls, tt.sampled, 2+tt.ofTheRun)
				}
			})
		})
	}
}
