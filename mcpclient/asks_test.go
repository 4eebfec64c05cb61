package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
	"github.com/troupe-dev/troupe/mcpclient/internal/pipe"
)

// What is declared, in each revision and by either carrier: only what was set, and
// only what the revision has. CAP-03, CAP-04, CAP-05, ROOT-01, SAMP-01, ELIC-01.
func TestDeclared(t *testing.T) {
	all := AskOptions{Human: says("accept"), Sampler: model("x"), SamplingTools: true, SamplingContext: true, Roots: []mcp.Root{}}
	some := AskOptions{Sampler: model("x")}
	forms := AskOptions{Human: says("accept"), NoURLs: true}
	pages := AskOptions{Human: says("accept"), NoForms: true}
	neither := AskOptions{Human: says("accept"), NoForms: true, NoURLs: true}
	tests := []struct {
		opts    AskOptions
		version mcp.Version
		want    string
	}{
		{AskOptions{}, mcp.V2025_11_25, `{}`},
		{AskOptions{}, mcp.V2026_07_28, `{}`},
		{some, mcp.V2025_11_25, `{"sampling":{}}`},
		{all, mcp.V2024_11_05, `{"roots":{"listChanged":true},"sampling":{}}`},
		{all, mcp.V2025_03_26, `{"roots":{"listChanged":true},"sampling":{}}`},
		{all, mcp.V2025_06_18, `{"roots":{"listChanged":true},"sampling":{},"elicitation":{}}`},
		{all, mcp.V2025_11_25, `{"roots":{"listChanged":true},"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}}}`},
		{all, mcp.V2026_07_28, `{"roots":{},"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}}}`},
		// ELIC-02: a mode for which there is nobody is left out.
		{forms, mcp.V2025_06_18, `{"elicitation":{}}`},
		{forms, mcp.V2025_11_25, `{"elicitation":{"form":{}}}`},
		{forms, mcp.V2026_07_28, `{"elicitation":{"form":{}}}`},
		{pages, mcp.V2025_06_18, `{}`},
		{pages, mcp.V2025_11_25, `{"elicitation":{"url":{}}}`},
		{neither, mcp.V2025_11_25, `{}`},
		{neither, mcp.V2026_07_28, `{}`},
		{AskOptions{RootsFunc: fixedRoots()}, mcp.V2024_11_05, `{"roots":{"listChanged":true}}`},
		{AskOptions{RootsFunc: fixedRoots()}, mcp.V2026_07_28, `{"roots":{}}`},
	}
	for _, tt := range tests {
		t.Run(string(tt.version), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newAsker(t, tt.version)
				c := s.dial(&Options{AskOptions: tt.opts})
				if _, err := c.CallTool(t.Context(), "x", nil, nil); err != nil {
					t.Fatal(err)
				}
				var got mcp.ClientCapabilities
				if tt.version.Era() == mcp.EraModern {
					var meta mcp.Meta
					if err := mcp.Unmarshal(s.requests(mcp.MethodCallTool)[0].Meta, &meta); err != nil {
						t.Fatal(err)
					}
					caps, err := meta.ClientCapabilities()
					if err != nil {
						t.Fatal(err)
					}
					got = *caps
				} else {
					got = s.declared
				}
				got.Tasks, got.Extensions = nil, nil // the tests of tasks look after those
				raw, _ := mcp.Marshal(got)
				wantJSON(t, "capabilities", string(raw), tt.want)
			})
		})
	}
}

// What a legacy server is told: each row is a question and its answer.
func TestLegacyAnswers(t *testing.T) {
	human := func(action string, content ...string) AskOptions {
		return AskOptions{Human: says(action, content...)}
	}
	sampler := AskOptions{Sampler: model("hello"), SampleFreely: true}
	withTools := sampler
	withTools.SamplingTools = true
	roots := AskOptions{Roots: []mcp.Root{{URI: "file:///a", Name: "A"}, {URI: "file:///gone"}}, RootAvailable: func(p string) bool { return p != "/gone" }}
	const toolUse = `{"role":"assistant","content":{"type":"tool_use","id":"1","name":"t","input":{}}}`
	const toolResult = `{"type":"tool_result","toolUseId":"1","content":[]}`
	history := func(messages ...string) string {
		return `{"messages":[` + strings.Join(messages, ",") + `],"maxTokens":10}`
	}
	tests := []struct {
		name    string
		opts    AskOptions
		version mcp.Version
		method  string
		params  string
		want    string // JSON, or the beginning of the error
	}{
		{"ROOT-03 undeclared", AskOptions{}, mcp.V2025_11_25, mcp.MethodListRoots, "", "-32601"},
		{"SAMP-01 undeclared", AskOptions{}, mcp.V2025_11_25, mcp.MethodCreateMessage, sampleHello, "-32601"},
		{"ELIC-01 undeclared", sampler, mcp.V2025_11_25, mcp.MethodElicit, elicitForm("?"), "-32601"},
		{"ELIC-01 neither mode", AskOptions{Human: says("accept"), NoForms: true, NoURLs: true}, mcp.V2025_11_25, mcp.MethodElicit, elicitForm("?"), "-32601"},
		{"ELIC-02 no forms", AskOptions{Human: says("accept"), NoForms: true}, mcp.V2025_11_25, mcp.MethodElicit, elicitForm("?"), "-32602"},
		{"ELIC-02 no pages", AskOptions{Human: says("accept"), NoURLs: true}, mcp.V2025_11_25, mcp.MethodElicit, urlElicit("a", "https://x.example/"), "-32602"},
		{"ELIC-01 not in the revision", human("accept"), mcp.V2025_03_26, mcp.MethodElicit, elicitForm("?"), "-32601"},
		{"BASE-14", human("accept"), mcp.V2025_11_25, "no/such", "", "-32601"},
		{"ROOT-01 ROOT-04", roots, mcp.V2024_11_05, mcp.MethodListRoots, "", `{"roots":[{"uri":"file:///a","name":"A"}]}`},

		{"ELIC-09 defaults", human("accept", "name", `"Ada"`), mcp.V2025_11_25, mcp.MethodElicit, elicitForm("?"), `{"action":"accept","content":{"name":"Ada","age":7}}`},
		{"ELIC-09 defaults changed", human("accept", "name", `"Ada"`, "age", "8"), mcp.V2025_06_18, mcp.MethodElicit, elicitForm("?"), `{"action":"accept","content":{"name":"Ada","age":8}}`},
		{"ELIC-08 an array", human("accept", "c", `["a","b"]`), mcp.V2025_11_25, mcp.MethodElicit, `{"message":"?","requestedSchema":{"type":"object","properties":{"c":{"type":"array","items":{"type":"string","enum":["a","b","c"]}}}}}`, `{"action":"accept","content":{"c":["a","b"]}}`},
		{"ELIC-08 what came later is shown to those who ask for it early", human("accept", "c", `["b"]`), mcp.V2025_06_18, mcp.MethodElicit, `{"message":"?","requestedSchema":{"type":"object","properties":{"c":{"type":"array","items":{"type":"string","enum":["a","b","c"]}}}}}`, `{"action":"accept","content":{"c":["b"]}}`},
		{"ELIC-04 decline", human("decline", "name", `"Ada"`), mcp.V2025_11_25, mcp.MethodElicit, elicitForm("?"), `{"action":"decline"}`},
		{"ELIC-05 cancel", human("cancel"), mcp.V2025_11_25, mcp.MethodElicit, elicitForm("?"), `{"action":"cancel"}`},
		{"ELIC-09 SECA-32 required is missing", human("accept"), mcp.V2025_11_25, mcp.MethodElicit, elicitForm("?"), `{"action":"cancel"}`},
		{"SECA-32 a member that was not asked for", human("accept", "name", `"a"`, "extra", `1`), mcp.V2025_11_25, mcp.MethodElicit, elicitForm("?"), `{"action":"accept","content":{"age":7,"name":"a"}}`},
		{"SECA-32 of another type", human("accept", "name", `1`), mcp.V2025_11_25, mcp.MethodElicit, elicitForm("?"), `{"action":"cancel"}`},
		{"ELIC-10 SECA-48 nested", human("accept"), mcp.V2025_11_25, mcp.MethodElicit, `{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"object","properties":{}}}}}`, "-32602"},
		{"ELIC-06 no schema", human("accept"), mcp.V2025_11_25, mcp.MethodElicit, `{"message":"?"}`, "-32602"},
		{"ELIC-02 unknown mode", human("accept"), mcp.V2025_11_25, mcp.MethodElicit, `{"message":"?","mode":"video"}`, "-32602"},
		{"ELIC-02 URL-43 url before it existed", human("accept"), mcp.V2025_06_18, mcp.MethodElicit, `{"message":"?","mode":"url","url":"https://x.example","elicitationId":"1"}`, "-32602"},
		{"URL-01 no id", human("accept"), mcp.V2025_11_25, mcp.MethodElicit, `{"message":"?","mode":"url","url":"https://x.example"}`, "-32602"},
		{"URL-16 ROB-9 SECA-30 user in the URL", human("accept"), mcp.V2025_11_25, mcp.MethodElicit, `{"message":"?","mode":"url","url":"https://bank.example@evil.example","elicitationId":"1"}`, "-32602"},
		{"URL-16 scheme", human("accept"), mcp.V2025_11_25, mcp.MethodElicit, `{"message":"?","mode":"url","url":"javascript:alert(1)","elicitationId":"1"}`, "-32602"},

		{"SAMP-10", sampler, mcp.V2024_11_05, mcp.MethodCreateMessage, sampleHello, `{"role":"assistant","model":"m","stopReason":"endTurn","content":{"type":"text","text":"hello"}}`},
		{"SAMP-03 arrays", sampler, mcp.V2025_11_25, mcp.MethodCreateMessage, history(`{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`), `{"role":"assistant","model":"m","stopReason":"endTurn","content":{"type":"text","text":"hello"}}`},
		{"SAMP-02 no maxTokens", sampler, mcp.V2025_11_25, mcp.MethodCreateMessage, `{"messages":[]}`, "-32602"},
		{"SAMP-04 tools", sampler, mcp.V2025_11_25, mcp.MethodCreateMessage, `{"messages":[],"maxTokens":10,"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`, "-32602"},
		{"SAMP-04 toolChoice", sampler, mcp.V2025_11_25, mcp.MethodCreateMessage, `{"messages":[],"maxTokens":10,"toolChoice":{"mode":"none"}}`, "-32602"},
		{"SAMP-06 unknown", withTools, mcp.V2025_11_25, mcp.MethodCreateMessage, `{"messages":[],"maxTokens":10,"toolChoice":{"mode":"perhaps"}}`, "-32602"},
		{"SAMP-20 SAMP-22 mixed", withTools, mcp.V2025_11_25, mcp.MethodCreateMessage, history(toolUse, `{"role":"user","content":[`+toolResult+`,{"type":"text","text":"x"}]}`), "-32602"},
		{"SAMP-21 missing", withTools, mcp.V2025_11_25, mcp.MethodCreateMessage, history(toolUse), "-32602"},
		{"SAMP-23", withTools, mcp.V2025_11_25, mcp.MethodCreateMessage, history(`{"role":"user","content":{"type":"tool_use","id":"1","name":"t","input":{}}}`), "-32602"},
		{"SAMP-26", withTools, mcp.V2025_11_25, mcp.MethodCreateMessage, history(`{"role":"user","content":` + toolResult + `}`), "-32602"},
		{"SAMP-21 balanced", withTools, mcp.V2025_11_25, mcp.MethodCreateMessage, history(toolUse, `{"role":"user","content":`+toolResult+`}`), `{"role":"assistant","model":"m","stopReason":"endTurn","content":{"type":"text","text":"hello"}}`},
		{"SAMP-06 required", withTools, mcp.V2025_11_25, mcp.MethodCreateMessage, `{"messages":[],"maxTokens":10,"tools":[{"name":"t","inputSchema":{"type":"object"}}],"toolChoice":{"mode":"required"}}`, "-32603"},
		{"SAMP-40 nobody to review", AskOptions{Sampler: model("x")}, mcp.V2025_11_25, mcp.MethodCreateMessage, sampleHello, "-1"},
		{"SAMP-41", AskOptions{Sampler: model("x"), Human: says("decline")}, mcp.V2025_11_25, mcp.MethodCreateMessage, sampleHello, "-1 user rejected sampling request"},
		{"SECA-43 tokens", sampler, mcp.V2025_11_25, mcp.MethodCreateMessage, `{"messages":[],"maxTokens":100000000}`, "-1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newAsker(t, tt.version)
				s.dial(&Options{AskOptions: tt.opts})
				got := s.ask("q", tt.method, tt.params)
				if strings.HasPrefix(tt.want, "{") {
					wantJSON(t, "answer", got, tt.want)
				} else if !strings.HasPrefix(got, tt.want+" ") && got != tt.want {
					t.Errorf("answer: got %s, want %s", got, tt.want)
				}
			})
		})
	}
}

// ELIC-03, ELIC-12, SECA-34: a form without a mode is a form; who asks, and for
// which call, comes from the configuration.
func TestFormShowsWhoAsks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2025_11_25)
		human := says("accept", "name", `"Ada"`)
		s.on[mcp.MethodCallTool] = func(s *asker, m *mcp.Message) string {
			s.ask("q", mcp.MethodElicit, elicitForm("Hello from your bank"))
			return resultOf(m, `{"content":[]}`)
		}
		c := s.dial(&Options{AskOptions: AskOptions{Human: human}})
		if _, err := c.CallTool(t.Context(), "greet", nil, &CallOptions{Path: []string{"main", "helper"}}); err != nil {
			t.Fatal(err)
		}
		asks := human.seen()
		if len(asks) != 1 {
			t.Fatalf("asked %d times, want once", len(asks))
		}
		a := asks[0]
		if a.Kind != AskForm || a.Server != "files" || a.Origin != "asker" || a.Message != "Hello from your bank" || a.Form == nil {
			t.Errorf("ask: got %+v", a)
		}
		if want := []AskCall{{mcp.MethodCallTool, "greet"}}; fmt.Sprint(a.Calls) != fmt.Sprint(want) || strings.Join(a.Path, "/") != "main/helper" {
			t.Errorf("calls and path: got %v %v", a.Calls, a.Path)
		}
		if a.ID == "" || a.Hash == "" || time.Until(a.Expires) != 10*time.Minute {
			t.Errorf("id, hash, expiry: got %q %q %v", a.ID, a.Hash, a.Expires)
		}
	})
}

// SAMP-40, SAMP-08, SEC-01, SECA-43: what is asked and what is answered is reviewed, both
// may be changed; the tokens never grow, and context that was not offered is not
// passed on.
func TestSamplingReview(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2025_11_25)
		var got []mcp.CreateMessageParams
		human := &decider{}
		human.decide = func(_ context.Context, a *Ask) (*Decision, error) {
			d := &Decision{Action: mcp.ActionAccept}
			switch a.Kind {
			case AskSampling:
				p := *a.Sampling
				p.MaxTokens, p.SystemPrompt = 5000, "be brief"
				d.Sampling = &p
			case AskSample:
				r := *a.Sample
				r.Content = mcp.Contents{&mcp.TextContent{Text: strings.ToUpper(a.Sample.Content.Text())}}
				d.Sample = &r
			}
			return d, nil
		}
		s.dial(&Options{AskOptions: AskOptions{Human: human, Sampler: SamplerFunc(func(_ context.Context, r *SampleRequest) (*mcp.CreateMessageResult, error) {
			got = append(got, *r.Params)
			return &mcp.CreateMessageResult{Content: mcp.Contents{&mcp.TextContent{Text: "ok"}}}, nil
		})}})
		answer := s.ask("q", mcp.MethodCreateMessage, `{"messages":[],"maxTokens":100,"includeContext":"allServers"}`)
		wantJSON(t, "answer", answer, `{"role":"assistant","model":"unknown","content":{"type":"text","text":"OK"}}`)
		if len(got) != 1 || got[0].MaxTokens != 100 || got[0].SystemPrompt != "be brief" || got[0].IncludeContext != mcp.ContextNone {
			t.Errorf("the model was asked: %+v", got)
		}
		if asks := human.seen(); len(asks) != 2 || asks[0].Kind != AskSampling || asks[1].Kind != AskSample || asks[1].Sampling.SystemPrompt != "be brief" {
			t.Errorf("asks: got %+v", asks)
		}
		// The second review refuses.
		human.decide = func(_ context.Context, a *Ask) (*Decision, error) {
			if a.Kind == AskSample {
				return &Decision{Action: mcp.ActionDecline}, nil
			}
			return &Decision{Action: mcp.ActionAccept}, nil
		}
		if answer := s.ask("r", mcp.MethodCreateMessage, sampleHello); !strings.HasPrefix(answer, "-1 ") {
			t.Errorf("a refused answer: got %s", answer)
		}
	})
}

// SAMP-05, SAMP-07, SAMP-11, SAMP-24, SAMP-25, SAMP-30: the Sampler gets the request
// as the server made it, with the tools of this request alone, the _meta of its blocks
// and the wish for context where that was declared; it returns calls, which are the
// server's to carry out. Each turn stands for itself: nothing of one is in the next.
func TestSamplingTools(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var got []*mcp.CreateMessageParams
		sampler := SamplerFunc(func(_ context.Context, r *SampleRequest) (*mcp.CreateMessageResult, error) {
			got = append(got, r.Params)
			return &mcp.CreateMessageResult{Model: "m", StopReason: mcp.StopToolUse, Content: mcp.Contents{
				&mcp.ToolUseContent{ID: "1", Name: "t", Input: json.RawMessage(`{}`)}, &mcp.ToolUseContent{ID: "2", Name: "t", Input: json.RawMessage(`{}`)},
			}}, nil
		})
		s := newAsker(t, mcp.V2025_11_25)
		s.dial(&Options{AskOptions: AskOptions{Sampler: sampler, SampleFreely: true, SamplingTools: true, SamplingContext: true}})
		const tools = `"maxTokens":10,"includeContext":"thisServer","toolChoice":{"mode":"required"},"tools":[{"name":"t","inputSchema":{"type":"object"}}]`
		const calls = `[{"type":"tool_use","id":"1","name":"t","input":{}},{"type":"tool_use","id":"2","name":"t","input":{}}]`
		wantJSON(t, "answer", s.ask("a", mcp.MethodCreateMessage, `{"messages":[{"role":"user","content":{"type":"text","text":"first"}}],`+tools+`}`),
			`{"role":"assistant","model":"m","stopReason":"toolUse","content":`+calls+`}`)
		s.ask("b", mcp.MethodCreateMessage, `{"messages":[{"role":"assistant","content":{"type":"tool_use","id":"1","name":"t","input":{},"_meta":{"cache":1}}},{"role":"user","content":{"type":"tool_result","toolUseId":"1","content":[],"_meta":{"cache":2}}}],`+tools+`}`)
		if len(got) != 2 || len(got[0].Tools) != 1 || got[0].IncludeContext != mcp.ContextThisServer || len(got[1].Messages) != 2 {
			t.Fatalf("the model was asked: %+v", got)
		}
		raw, _ := mcp.Marshal(got[1])
		if text := string(raw); !strings.Contains(text, `"_meta":{"cache":1}`) || !strings.Contains(text, `"_meta":{"cache":2}`) || strings.Contains(text, "first") {
			t.Errorf("second turn: got %s", text)
		}
	})
}

// SAMP-31, SAMP-32, SECA-43: the turns of one call are bounded, and the rate for a
// server.
func TestSamplingLimits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2025_11_25)
		n := 0
		s.on[mcp.MethodCallTool] = func(s *asker, m *mcp.Message) string {
			for ; ; n++ {
				if got := s.ask(fmt.Sprint("q", n), mcp.MethodCreateMessage, sampleHello); strings.HasPrefix(got, "-1 ") {
					return resultOf(m, `{"content":[]}`)
				}
				time.Sleep(2 * time.Second) // within the rate
			}
		}
		c := s.dial(&Options{AskOptions: AskOptions{Sampler: model("x"), SampleFreely: true}})
		if _, err := c.CallTool(t.Context(), "loop", nil, &CallOptions{Idle: -1}); err != nil {
			t.Fatal(err)
		}
		if n != asks.MaxSamples {
			t.Errorf("one call: got %d answers, want %d", n, asks.MaxSamples)
		}
		time.Sleep(time.Minute)
		answered := 0
		for i := range 100 { // no call, all at once
			if !strings.HasPrefix(s.ask(fmt.Sprint("r", i), mcp.MethodCreateMessage, sampleHello), "-1 ") {
				answered++
			}
		}
		if answered != asks.SamplesBurst {
			t.Errorf("at once: got %d answers, want %d", answered, asks.SamplesBurst)
		}
	})
}

// SAMP-32 and SAMP-40 of a Sampler that fails: the server learns nothing of why.
func TestSamplerFails(t *testing.T) {
	for name, sampler := range map[string]SamplerFunc{
		"error": func(context.Context, *SampleRequest) (*mcp.CreateMessageResult, error) {
			return nil, errors.New("key sk-secret is wrong")
		},
		"nothing": func(context.Context, *SampleRequest) (*mcp.CreateMessageResult, error) { return nil, nil },
		"panic":   func(context.Context, *SampleRequest) (*mcp.CreateMessageResult, error) { panic("boo") },
		"tool calls that nobody wanted": func(context.Context, *SampleRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Content: mcp.Contents{&mcp.ToolUseContent{ID: "1", Name: "x"}}}, nil
		},
		"slow": func(ctx context.Context, _ *SampleRequest) (*mcp.CreateMessageResult, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newAsker(t, mcp.V2025_11_25)
				s.dial(&Options{AskOptions: AskOptions{Sampler: sampler, SampleFreely: true}})
				if got := s.ask("q", mcp.MethodCreateMessage, sampleHello); got != "-32603 the model gave no answer" {
					t.Errorf("answer: got %s", got)
				}
			})
		})
	}
}

// CANC-13: a question that the server withdraws is closed, and not answered; so is
// one of a call that we give up. A withdrawal of what is not known does nothing
// (CANC-06, CANC-07).
func TestQuestionsClose(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		closed := make(chan error, 1)
		human := HumanFunc(func(ctx context.Context, _ *Ask) (*Decision, error) {
			<-ctx.Done()
			closed <- context.Cause(ctx)
			return nil, context.Cause(ctx)
		})
		s := newAsker(t, mcp.V2025_11_25)
		c := s.dial(&Options{AskOptions: AskOptions{Human: human}})

		answers := s.send("q", mcp.MethodElicit, elicitForm("?"))
		synctest.Wait()
		s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"other"}}`)
		s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}`)
		synctest.Wait()
		if len(closed) != 0 {
			t.Error("a withdrawal of something else has closed the question")
		}
		s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}`)
		synctest.Wait()
		if len(closed) != 1 || len(answers) != 0 {
			t.Fatalf("withdrawn: closed %d, answered %d; want 1, 0", len(closed), len(answers))
		}
		<-closed

		var of <-chan mcp.Message
		s.change(func() {
			s.on[mcp.MethodCallTool] = func(s *asker, m *mcp.Message) string {
				of = s.send("r", mcp.MethodElicit, elicitForm("?"))
				return ""
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		if _, err := c.CallTool(ctx, "x", nil, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("CallTool: got %v", err)
		}
		synctest.Wait()
		if why := <-closed; !errors.Is(why, asks.ErrGone) {
			t.Errorf("closed because of %v", why)
		}
		m := <-of
		wantJSON(t, "answer", answerOf(&m), `{"action":"cancel"}`)
	})
}

// A cancel right behind its request finds it, though its actor has yet to be
// started (CANC-03, CANC-13).
func TestCancelAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		human := silent()
		s := newAsker(t, mcp.V2025_11_25)
		c := s.dial(&Options{AskOptions: AskOptions{Human: human}})
		for i := range 50 {
			id := fmt.Sprint("q", i)
			answers := s.send(id, mcp.MethodElicit, elicitForm("?"))
			s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"` + id + `"}}`)
			synctest.Wait()
			if len(answers) != 0 || underWay(c) != 0 || c.questions.asks.Limits.Count() != 0 {
				t.Fatalf("question %d: %d answers, %d under way, %d open", i, len(answers), underWay(c), c.questions.asks.Limits.Count())
			}
		}
	})
}

// ROOT-02: a legacy server that was told of roots hears of a change; a modern one,
// and one that was told of none, does not. ROOT-04, SECA-46: what may not be
// exposed is an error.
func TestSetRoots(t *testing.T) {
	tests := []struct {
		version mcp.Version
		roots   []mcp.Root
		told    int
	}{
		{mcp.V2024_11_05, []mcp.Root{}, 1},
		{mcp.V2025_11_25, []mcp.Root{}, 1},
		{mcp.V2025_11_25, nil, 0},
		{mcp.V2026_07_28, []mcp.Root{}, 0},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.version, tt.roots == nil), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newAsker(t, tt.version)
				c := s.dial(&Options{AskOptions: AskOptions{Roots: tt.roots, RootAvailable: func(string) bool { return true }}})
				if err := c.SetRoots([]mcp.Root{{URI: "file:///b%20c"}}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if got := len(s.requests(mcp.NotificationRootsChanged)); got != tt.told {
					t.Errorf("told %d times, want %d", got, tt.told)
				}
				if tt.told > 0 {
					wantJSON(t, "roots", s.ask("q", mcp.MethodListRoots, ""), `{"roots":[{"uri":"file:///b%20c"}]}`)
				}
			})
		})
	}
}

// Answers are read by servers that know their revision only: SAMP-03.
func TestOldServersGetOneBlock(t *testing.T) {
	two := mcp.Contents{&mcp.TextContent{Text: "a"}, &mcp.TextContent{Text: "b"}}
	q := &asks.Sampling{Version: mcp.V2025_06_18}
	res, err := q.Fit(&mcp.CreateMessageResult{Content: two}, &mcp.CreateMessageParams{})
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := json.Marshal(res.Content[0])
	if len(res.Content) != 1 || res.Content.Text() != "a\nb" {
		t.Errorf("fit: got %s", raw)
	}
	mixed := mcp.Contents{&mcp.TextContent{Text: "a"}, &mcp.ImageContent{Data: []byte("x"), MIMEType: "image/png"}}
	if _, err := q.Fit(&mcp.CreateMessageResult{Content: mixed}, &mcp.CreateMessageParams{}); err == nil {
		t.Error("fit of text and image for an old server: got no error")
	}
	q.Version = mcp.V2025_11_25
	if res, err := q.Fit(&mcp.CreateMessageResult{Content: two}, &mcp.CreateMessageParams{}); err != nil || len(res.Content) != 2 {
		t.Errorf("fit for a new server: got %v, %v", res, err)
	}
}

// A question ends with the session that asked it; the next one gets no answer to it
// (BASE-15 from the other side), and may ask again.
func TestQuestionOfADeadServer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		human := silent()
		s := newAsker(t, mcp.V2025_11_25)
		c := s.dial(&Options{AskOptions: AskOptions{Human: human}})
		s.send("q", mcp.MethodElicit, elicitForm("?"))
		synctest.Wait()
		s.mu.Lock()
		first := s.proc
		s.mu.Unlock()
		first.end("exit status 1")
		synctest.Wait()
		if n := c.questions.asks.Limits.Count(); n != 0 {
			t.Errorf("%d questions are open", n)
		}
		time.Sleep(time.Minute) // it is started again
		if n := len(s.requests(mcp.MethodInitialize)); n != 2 {
			t.Fatalf("%d handshakes, want 2", n)
		}
		s.mu.Lock()
		for _, m := range s.heard {
			if m.Kind == mcp.KindResult || m.Kind == mcp.KindError {
				t.Errorf("the new process got %s", answerOf(&m))
			}
		}
		s.mu.Unlock()
		human.becomes(says("decline"))
		wantJSON(t, "answer", s.ask("q", mcp.MethodElicit, elicitForm("again")), `{"action":"decline"}`)
	})
}

// What a host has of it: the options for all servers, and the switches for one.
func TestHostAsks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2025_11_25)
		var b browserLog
		human := says("accept")
		server := Command("asker")
		server.Name, server.Protocol = "files", string(s.version)
		h, err := NewHost(newSystem(t), []Server{server}, &HostOptions{Options: Options{AskOptions: AskOptions{Human: human, OpenURL: b.open, Roots: []mcp.Root{}, RootAvailable: func(string) bool { return true }}, start: func(*Server) (pipe.Process, error) { return start(s.serve), nil }}})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		synctest.Wait()
		s.ask("a", mcp.MethodElicit, urlElicit("1", "https://x.example/1"))
		if all := h.Elicitations(); len(all) != 1 || all[0].Server != "files" || all[0].URL.URL != "https://x.example/1" {
			t.Errorf("Elicitations: got %+v", all)
		}
		if err := h.SetRoots([]mcp.Root{{URI: "file:///a/../b"}}); err == nil {
			t.Error("SetRoots of a root that may not be exposed: got no error")
		}
		if err := h.SetRoots([]mcp.Root{{URI: "file:///a"}}); err != nil {
			t.Fatal(err)
		}
		wantJSON(t, "roots", s.ask("b", mcp.MethodListRoots, ""), `{"roots":[{"uri":"file:///a"}]}`)
		if err := h.DeclineAsks("nobody", true); err == nil {
			t.Error("DeclineAsks of an unknown server: got no error")
		}
		if err := h.DeclineAsks("files", true); err != nil {
			t.Fatal(err)
		}
		wantJSON(t, "declined", s.ask("c", mcp.MethodElicit, urlElicit("2", "https://x.example/2")), `{"action":"decline"}`)
		if len(human.seen()) != 1 {
			t.Errorf("asked %d times, want 1", len(human.seen()))
		}
	})
}

// MOD-07: a request of a modern server is no question: nobody is asked, and nothing
// is answered.
func TestModernServerRequests(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		human := says("accept", "name", `"A"`)
		s := newAsker(t, mcp.V2026_07_28)
		s.dial(&Options{AskOptions: AskOptions{Human: human}})
		answers := s.send("q", mcp.MethodElicit, elicitForm("?"))
		synctest.Wait()
		if len(answers) != 0 || len(human.seen()) != 0 {
			t.Errorf("%d answers, asked %d times", len(answers), len(human.seen()))
		}
	})
}

// Roots that may not be exposed are an error of Dial (SECA-46).
func TestDialRoots(t *testing.T) {
	c, err := Dial(t.Context(), InProcess("x", nil), &Options{Lazy: true, AskOptions: AskOptions{Roots: []mcp.Root{{URI: "file:///a/../.."}}}})
	if err == nil {
		t.Error("a client with such a root was made")
		c.Close()
	}
}
