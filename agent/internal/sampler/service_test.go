package sampler

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// lending returns what lends a model to the server "bank".
func lending(t *testing.T, model llm.Model, p Policy) *Service {
	t.Helper()
	l := &Service{Model: model, Names: []string{model.Name()}, Log: slog.New(slog.DiscardHandler),
		Price:        func(string) (llm.Price, bool) { return llm.Price{}, false },
		Instructions: func(string) string { return "" }}
	if err := l.Open("bank", p); err != nil {
		t.Fatal(err)
	}
	return l
}

func wants(server string) *mcpclient.SampleRequest {
	return &mcpclient.SampleRequest{Server: server, Params: &mcp.CreateMessageParams{MaxTokens: 100,
		Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Contents{mcp.Text("Hi")}}}}}
}

// What goes wrong is told to the server in so far as it can do something about it: the
// rest is no error of the protocol, and mcpclient says only that there is no answer.
func TestLenderErrors(t *testing.T) {
	tests := []struct {
		name, server string
		model        llm.Model
		policy       Policy
		change       func(*mcp.CreateMessageParams)
		code         int64 // zero: not for the server
		want         string
	}{
		{name: "a server that nobody knows", server: "bink", model: llmtest.Script(), code: -1, want: "may not"},
		{name: "one that is denied", server: "bank", model: llmtest.Script(), policy: Policy{Mode: mcpclient.SamplingDeny}, code: -1, want: "may not"},
		{name: "what no model takes", server: "bank", model: llmtest.Script(), change: func(p *mcp.CreateMessageParams) { p.Messages = []mcp.SamplingMessage{} }, code: -32602, want: "no messages"},
		{name: "what this one does not", server: "bank", model: llmtest.Script(llmtest.Fail(&llm.Error{Message: "no ears", Err: llm.ErrUnsupported})), code: -32602, want: "no ears"},
		{name: "too long a question", server: "bank", model: llmtest.Script(llmtest.Fail(llm.ErrContextLength)), code: -32602, want: "no model takes this"},
		{name: "trouble of ours", server: "bank", model: llmtest.Script(llmtest.Fail(llm.ErrAuth)), want: "credentials"},
		{name: "an answer that breaks off", server: "bank", model: llmtest.Script(llmtest.Join(llmtest.Say("I"), llmtest.Fail(llm.ErrStreamCut))), want: "before the turn was complete"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := lending(t, tt.model, tt.policy)
			req := wants(tt.server)
			if tt.change != nil {
				tt.change(req.Params)
			}
			_, prepared := l.prepare(t.Context(), req, "", nil)
			res, err := l.sample(t.Context(), req, nil)
			for what, err := range map[string]error{"prepare": prepared, "sample": err} {
				if what == "prepare" && len(tt.model.(*llmtest.Model).Requests()) > 0 {
					continue // it was for the model to refuse
				}
				wire, ok := errors.AsType[*mcp.Error](err)
				if err == nil || !strings.Contains(err.Error(), tt.want) || ok != (tt.code != 0) || ok && wire.Code != tt.code {
					t.Errorf("%s: got %v, %v, want %q with the code %d", what, res, err, tt.want, tt.code)
				}
			}
		})
	}
}

// A turn of which nobody says what it has cost is charged as it is estimated, and one that
// broke off with its question and what had come: never with nothing.
func TestLenderCharges(t *testing.T) {
	estimate := llm.EstimateTokens(&llm.Request{Messages: []llm.Message{llm.User("Hi")}})
	answer := llm.EstimateText("four")
	for _, tt := range []struct {
		name string
		turn llmtest.Turn
		want int
	}{
		{"counted", llmtest.Say("four").Usage(30, 4), 34},
		{"not counted", llmtest.Say("four").Usage(0, 0), estimate + answer},
		{"broken off", llmtest.Join(llmtest.Say("four"), llmtest.Fail(llm.ErrStreamCut)), estimate + answer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := lending(t, noUsage{llmtest.Script(tt.turn)}, Policy{})
			run := budget.New("run", budget.Limits{})
			_, err := l.sample(t.Context(), wants("bank"), paying{run})
			for name, a := range map[string]*budget.Account{"the server": l.servers["bank"].budget, "the run": run} {
				r := a.Report()
				if r.Spent.Tokens != tt.want || r.Spent.ModelCalls != 1 || r.Reserved != (budget.Amount{}) {
					t.Errorf("%s: got %+v, %v, want %d tokens", name, r, err, tt.want)
				}
			}
		})
	}
}

// paying pays out of an account.
type paying struct{ account *budget.Account }

func (p paying) Budget() *budget.Account { return p.account }

func (p paying) Charge(hold *budget.Hold, s runlog.Spent) {
	hold.Settle(budget.Amount{Tokens: s.Usage.Total(), Cost: s.Usage.Cost, ModelCalls: 1})
}

// Tokens is 200,000 where nothing is said, and no limit below zero.
func TestLenderTokens(t *testing.T) {
	for tokens, more := range map[int]bool{0: false, 300_000: false, 500_000: true, -1: true} {
		l := lending(t, llmtest.Script(llmtest.Say("a").Usage(300_000, 0), llmtest.Say("b")), Policy{Tokens: tokens})
		if _, err := l.sample(t.Context(), wants("bank"), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := l.sample(t.Context(), wants("bank"), nil); (err == nil) != more {
			t.Errorf("sample with Tokens %d, of which 300,000 are spent: got %v, want an answer: %v", tokens, err, more)
		}
	}
}

// A model that panics holds nothing of what the server and the run may spend.
func TestLenderHoldsNothing(t *testing.T) {
	l := lending(t, llmtest.Script(llmtest.Func(func(context.Context, *llm.Request) llmtest.Turn { panic(t.Name()) })), Policy{})
	run := budget.New("run", budget.Limits{})
	func() {
		defer func() { _ = recover() }()
		_, err := l.sample(t.Context(), wants("bank"), paying{run})
		t.Errorf("sample: got %v, want the model's panic", err)
	}()
	for name, a := range map[string]*budget.Account{"the server": l.servers["bank"].budget, "the run": run} {
		if r := a.Report(); r.Reserved != (budget.Amount{}) {
			t.Errorf("%s: still holds %+v", name, r.Reserved)
		}
	}
}

// Of what is added to a server's request the newest stays.
func TestNewest(t *testing.T) {
	texts := []string{"aaaa", "bb", "c"}
	for most, want := range map[int]string{0: "", 1: "c", 2: "c", 3: "bb c", 6: "bb c", 7: "aaaa bb c", 9: "aaaa bb c"} {
		if got := strings.Join(newest(texts, most), " "); got != want {
			t.Errorf("newest(%q, %d): got %q, want %q", texts, most, got, want)
		}
	}
}

// noUsage leaves out usage of nothing, as servers do that do not count.
type noUsage struct{ llm.Model }

func (m noUsage) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		for ev, err := range m.Model.Stream(ctx, req) {
			if u, ok := ev.(llm.Usage); ok && u.Input+u.Output == 0 {
				continue
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// A run that has ended pays for nothing more, and gives no context.
func TestCallSamplerAfterItsCall(t *testing.T) {
	l := lending(t, llmtest.Script(llmtest.Say("a")), Policy{Context: mcp.ContextAllServers})
	sampler, over := l.For(&loop.Call{Run: "r"})
	over()
	s := sampler.(*callSampler)
	req := wants("bank")
	req.Params.IncludeContext = mcp.ContextAllServers // without a journal: it would be read
	if p, err := s.PrepareSample(t.Context(), req); err != nil || p.SystemPrompt != "" {
		t.Errorf("PrepareSample: got %+v, %v", p, err)
	}
	if res, err := s.Sample(t.Context(), req); err != nil || res.Content.Text() != "a" {
		t.Errorf("Sample: got %+v, %v", res, err)
	}
	closed := budget.New("run", budget.Limits{})
	closed.Close()
	if _, err := l.sample(t.Context(), req, paying{closed}); err == nil || !strings.Contains(err.Error(), "the run has ended") {
		t.Errorf("sample for a run that has ended: got %v", err)
	}
}
