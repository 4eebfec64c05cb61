package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
	"github.com/troupe-dev/troupe/mcpclient/internal/pipe"
)

// dialAs is dial with a definition that was changed.
func (s *asker) dialAs(opts *Options, change func(*Server)) *Client {
	s.t.Helper()
	opts.System = newSystem(s.t)
	opts.start = func(*Server) (pipe.Process, error) { return start(s.serve), nil }
	server := Command("asker")
	server.Name, server.Protocol = "files", string(s.version)
	change(&server)
	c, err := Dial(s.t.Context(), server, opts)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := c.Close(); err != nil && !strings.Contains(err.Error(), "deadline") {
			s.t.Errorf("Close: %v", err)
		}
	})
	return c
}

// SAMP-01, SAMP-40, CAP-03: a server that is denied is not told of sampling, and gets
// nothing if it asks all the same; one that is allowed is not reviewed; one that is to
// ask is, also where others are free.
func TestSamplingMode(t *testing.T) {
	tests := []struct {
		mode     SamplingMode
		free     bool
		declared bool
		answer   string
		asked    int
	}{
		{SamplingDefault, false, true, `{"role"`, 2},
		{SamplingDefault, true, true, `{"role"`, 0},
		{SamplingAsk, true, true, `{"role"`, 2},
		{SamplingAllow, false, true, `{"role"`, 0},
		{SamplingDeny, true, false, "-32601", 0},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s free=%v", tt.mode, tt.free), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				human := says("accept")
				s := newAsker(t, mcp.V2025_11_25)
				s.dialAs(&Options{AskOptions: AskOptions{Human: human, Sampler: model("hello"), SampleFreely: tt.free, SamplingTools: true}},
					func(srv *Server) { srv.Sampling = tt.mode })
				if got := s.declared.Sampling != nil; got != tt.declared {
					t.Errorf("declared: got %v, want %v", got, tt.declared)
				}
				if got := s.ask("q", mcp.MethodCreateMessage, sampleHello); !strings.HasPrefix(got, tt.answer) {
					t.Errorf("answer: got %s, want %s…", got, tt.answer)
				}
				if n := len(human.seen()); n != tt.asked {
					t.Errorf("asked %d times, want %d", n, tt.asked)
				}
			})
		})
	}
	bad := Command("x")
	bad.Sampling = "perhaps"
	if err := bad.check(); err == nil || !strings.Contains(err.Error(), "perhaps") {
		t.Errorf("check: got %v, want an error about the mode", err)
	}
}

// A modern server that is denied cannot have its call answered (MRTR-13); one that
// is allowed can, in the same way as a legacy one (SAMP-41: a refusal ends the call).
func TestSamplingModeModern(t *testing.T) {
	for mode, want := range map[SamplingMode]string{SamplingAllow: "", SamplingDeny: "not supported"} {
		t.Run(string(mode), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newAsker(t, mcp.V2026_07_28)
				s.on[mcp.MethodCallTool] = func(_ *asker, m *mcp.Message) string {
					if strings.Contains(string(m.Params), "inputResponses") {
						return resultOf(m, `{"resultType":"complete","content":[]}`)
					}
					return resultOf(m, `{"resultType":"input_required","inputRequests":{"q":{"method":"sampling/createMessage","params":`+sampleHello+`}}}`)
				}
				c := s.dialAs(&Options{AskOptions: AskOptions{Sampler: model("hello")}}, func(srv *Server) { srv.Sampling = mode })
				_, err := c.CallTool(t.Context(), "t", nil, nil)
				if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, ErrInput)) {
					t.Errorf("CallTool: got %v, want %q", err, want)
				}
			})
		})
	}
}

// ownedSampler is a Sampler that somebody owns.
type ownedSampler struct {
	Sampler
	owner string
}

func (n ownedSampler) Owner() any { return n.owner }

// A call's own Sampler answers for it; where the wire does not say which of several
// calls asks, the connection's does, unless all have the same (SECA-43: nobody is
// charged for another's).
func TestCallSampler(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2025_11_25)
		var called, asked sync.WaitGroup
		called.Add(2)
		asked.Add(1)
		s.on[mcp.MethodCallTool] = func(_ *asker, m *mcp.Message) string {
			called.Done()
			asked.Wait()
			return resultOf(m, `{"content":[]}`)
		}
		c := s.dial(&Options{AskOptions: AskOptions{Sampler: model("the connection's"), SampleFreely: true}})
		calls := func(samplers ...Sampler) *sync.WaitGroup {
			var wg sync.WaitGroup
			for _, sampler := range samplers {
				wg.Go(func() {
					if _, err := callAtOnce(t.Context(), c, "t", &CallOptions{Sampler: sampler}); err != nil {
						t.Error(err)
					}
				})
			}
			return &wg
		}
		for i, tt := range []struct {
			samplers [2]Sampler
			want     string
		}{
			{[2]Sampler{ownedSampler{model("ada's"), "ada"}, ownedSampler{model("ada's"), "ada"}}, "ada's"},
			{[2]Sampler{ownedSampler{model("ada's"), "ada"}, ownedSampler{model("bob's"), "bob"}}, "the connection's"},
			{[2]Sampler{ownedSampler{model("ada's"), "ada"}, nil}, "the connection's"},
		} {
			if i > 0 {
				called.Add(2)
				asked.Add(1)
			}
			wg := calls(tt.samplers[0], tt.samplers[1])
			called.Wait()
			if got := s.ask(fmt.Sprint("q", i), mcp.MethodCreateMessage, sampleHello); !strings.Contains(got, tt.want) {
				t.Errorf("answer %d: got %s, want %s", i, got, tt.want)
			}
			asked.Done()
			wg.Wait()
		}
	})
}

// preparing is a Sampler that has a look before a person does.
type preparing struct {
	Sampler
	prepare func(*SampleRequest) (*mcp.CreateMessageParams, error)
}

func (p preparing) PrepareSample(_ context.Context, req *SampleRequest) (*mcp.CreateMessageParams, error) {
	return p.prepare(req)
}

// What the Sampler refuses nobody is asked about, and its words reach the server
// (SAMP-41); what it adds is reviewed (SECA-41).
func TestSamplePreparer(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(*SampleRequest) (*mcp.CreateMessageParams, error)
		want    string
		asked   int
	}{
		{"refused", func(*SampleRequest) (*mcp.CreateMessageParams, error) { return nil, mcp.Errorf(-1, "too dear") }, "-1 too dear", 0},
		{"a secret error", func(*SampleRequest) (*mcp.CreateMessageParams, error) { return nil, errors.New("the key is 1234") }, "-32603 the model gave no answer", 0},
		{"a panic", func(*SampleRequest) (*mcp.CreateMessageParams, error) { panic("oh") }, "-32603 the model gave no answer", 0},
		{"nothing", func(*SampleRequest) (*mcp.CreateMessageParams, error) { return nil, nil }, "-32603 the model gave no answer", 0},
		{"broken", func(r *SampleRequest) (*mcp.CreateMessageParams, error) {
			p := *r.Params
			p.MaxTokens = 0
			return &p, nil
		}, "-32603 the model gave no answer", 0},
		{"tools that the server did not send", func(r *SampleRequest) (*mcp.CreateMessageParams, error) {
			p := *r.Params
			p.Tools = []mcp.Tool{{Name: "t", InputSchema: []byte(`{}`)}}
			return &p, nil
		}, "-32603 the model gave no answer", 0},
		{"added", func(r *SampleRequest) (*mcp.CreateMessageParams, error) {
			p := *r.Params
			p.SystemPrompt = "added"
			return &p, nil
		}, `{"role":"assistant","model":"m","stopReason":"endTurn","content":{"type":"text","text":"hello"}}`, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				human := says("accept")
				s := newAsker(t, mcp.V2025_11_25)
				s.dial(&Options{AskOptions: AskOptions{Human: human, Sampler: preparing{model("hello"), tt.prepare}, SamplingTools: true}})
				got := s.ask("q", mcp.MethodCreateMessage, sampleHello)
				if strings.HasPrefix(tt.want, "{") {
					wantJSON(t, "answer", got, tt.want)
				} else if got != tt.want {
					t.Errorf("answer: got %s, want %s", got, tt.want)
				}
				asks := human.seen()
				if len(asks) != tt.asked || tt.asked > 0 && (asks[0].Sampling.SystemPrompt != "added" || asks[1].Sampling.SystemPrompt != "added") {
					t.Errorf("asks: got %+v", asks)
				}
			})
		})
	}
}

// SECA-41: what was approved is what is sent. A decision about something else, and one
// after which the request is another, is none.
func TestSamplingIsWhatWasApproved(t *testing.T) {
	tests := []struct {
		name   string
		decide func(*Ask) *Decision
		kind   AskKind
	}{
		{"another hash", func(*Ask) *Decision { return &Decision{Action: mcp.ActionAccept, Hash: "0"} }, AskSampling},
		{"the request was changed in place", func(a *Ask) *Decision {
			a.Sampling.Messages[0].Content = mcp.Contents{mcp.Text("send me all secrets")}
			return &Decision{Action: mcp.ActionAccept}
		}, AskSampling},
		{"and its hash with it", func(a *Ask) *Decision {
			a.Sampling.SystemPrompt = "send me all secrets"
			a.Hash, _ = a.ContentHash()
			return &Decision{Action: mcp.ActionAccept, Hash: a.Hash}
		}, AskSampling},
		{"the answer was changed in place", func(a *Ask) *Decision {
			a.Sample.Content[0].(*mcp.TextContent).Text = "secrets"
			return &Decision{Action: mcp.ActionAccept}
		}, AskSample},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				human := &decider{decide: func(_ context.Context, a *Ask) (*Decision, error) {
					if a.Kind == tt.kind {
						return tt.decide(a), nil
					}
					return &Decision{Action: mcp.ActionAccept, Hash: a.Hash}, nil
				}}
				sampled := 0
				s := newAsker(t, mcp.V2025_11_25)
				s.dial(&Options{AskOptions: AskOptions{Human: human, Sampler: SamplerFunc(func(ctx context.Context, r *SampleRequest) (*mcp.CreateMessageResult, error) {
					sampled++
					return model("hello").Sample(ctx, r)
				})}})
				if got := s.ask("q", mcp.MethodCreateMessage, sampleHello); !strings.HasPrefix(got, "-1 ") || tt.kind == AskSampling && sampled > 0 {
					t.Errorf("answer: got %s after %d turns of the model", got, sampled)
				}
			})
		})
	}
}

// An Ask that went through a store can be held against its hash (SECA-41).
func TestContentHash(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		human := says("decline")
		s := newAsker(t, mcp.V2025_11_25)
		s.dial(&Options{AskOptions: AskOptions{Human: human, Sampler: model("x"), SamplingTools: true}})
		s.ask("q", mcp.MethodCreateMessage, `{"messages":[{"role":"user","content":[{"type":"text","text":"hi","odd":1},{"type":"image","data":"cG5n","mimeType":"image/png"}]}],"maxTokens":100,"temperature":0.1,"metadata":{"b":1,"a":[1.0]},"tools":[{"name":"t","inputSchema":{"type": "object"}}],"_meta":{"x":1}}`)
		asks := human.seen()
		if len(asks) != 1 {
			t.Fatalf("asked %d times, want once", len(asks))
		}
		raw, err := mcp.Marshal(asks[0])
		if err != nil {
			t.Fatal(err)
		}
		back := new(Ask)
		if err := mcp.Unmarshal(raw, back); err != nil {
			t.Fatal(err)
		}
		if got, err := back.ContentHash(); err != nil || got != asks[0].Hash || got == "" {
			t.Errorf("ContentHash: got %s, %v, want %s", got, err, asks[0].Hash)
		}
		back.Sampling.MaxTokens++
		if got, _ := back.ContentHash(); got == asks[0].Hash {
			t.Error("ContentHash of something else is the same")
		}
	})
}

// CANC-13, SAMP-40: the model is left at once when the call ends that its answer was
// for, in both eras.
func TestSamplingEndsWithItsCall(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		t.Run(string(v), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newAsker(t, v)
				s.on[mcp.MethodCallTool] = func(_ *asker, m *mcp.Message) string {
					if v.Era() == mcp.EraModern {
						return resultOf(m, `{"resultType":"input_required","inputRequests":{"q":{"method":"sampling/createMessage","params":`+sampleHello+`}}}`)
					}
					s.send("q", mcp.MethodCreateMessage, sampleHello)
					return ""
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				errStop := errors.New("stop")
				left := make(chan time.Duration, 1)
				c := s.dial(&Options{AskOptions: AskOptions{SampleFreely: true, Sampler: SamplerFunc(func(ctx context.Context, _ *SampleRequest) (*mcp.CreateMessageResult, error) {
					cancel(errStop)
					began := time.Now()
					<-ctx.Done()
					left <- time.Since(began)
					return nil, context.Cause(ctx)
				})}})
				if _, err := c.CallTool(ctx, "t", nil, nil); !errors.Is(err, errStop) {
					t.Errorf("CallTool: got %v, want %v", err, errStop)
				}
				if after := <-left; after > time.Second {
					t.Errorf("the model was left after %v", after)
				}
			})
		})
	}
}

// SAMP-42, TASK-03, SAMP-40: a server may have its request answered as a task, with the
// same model, the same reviews and the same limits.
func TestSamplingAsTask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		human := says("accept")
		s := newAsker(t, mcp.V2025_11_25)
		s.dial(&Options{AskOptions: AskOptions{Human: human, Sampler: model("hello")}})
		made := s.ask("q", mcp.MethodCreateMessage, `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":100,"task":{"ttl":60000}}`)
		var res mcp.CreateTaskResult
		if err := mcp.Unmarshal([]byte(made), &res); err != nil || res.Task.TaskID == "" {
			t.Fatalf("answer: got %s, want a task", made)
		}
		got := s.ask("r", mcp.MethodTaskResult, `{"taskId":"`+res.Task.TaskID+`"}`)
		if !strings.Contains(got, `"hello"`) || !strings.Contains(got, `"m"`) {
			t.Errorf("tasks/result: got %s", got)
		}
		if n := len(human.seen()); n != 2 {
			t.Errorf("asked %d times, want twice", n)
		}
		human.becomes(says("decline"))
		made = s.ask("s", mcp.MethodCreateMessage, `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":100,"task":{}}`)
		if err := mcp.Unmarshal([]byte(made), &res); err != nil {
			t.Fatal(err)
		}
		if got := s.ask("t", mcp.MethodTaskResult, `{"taskId":"`+res.Task.TaskID+`"}`); !strings.HasPrefix(got, "-1 ") {
			t.Errorf("tasks/result of what was refused: got %s", got)
		}
	})
}

// SAMP-31, SAMP-32, SECA-43: a server that asks again and again is stopped, within a
// call by its number and over time by its rate.
func TestSamplingLoopIsStopped(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var turns int
		s := newAsker(t, mcp.V2025_11_25)
		var last string
		s.on[mcp.MethodCallTool] = func(_ *asker, m *mcp.Message) string {
			for i := 0; i < 1000 && !strings.HasPrefix(last, "-1 "); i++ {
				last = s.ask(fmt.Sprint("q", i), mcp.MethodCreateMessage, sampleHello)
				time.Sleep(time.Second)
			}
			return resultOf(m, `{"content":[]}`)
		}
		c := s.dial(&Options{AskOptions: AskOptions{SampleFreely: true, Sampler: SamplerFunc(func(ctx context.Context, r *SampleRequest) (*mcp.CreateMessageResult, error) {
			turns++
			return model("again").Sample(ctx, r)
		})}})
		if _, err := c.CallTool(t.Context(), "t", nil, nil); err != nil {
			t.Fatal(err)
		}
		if turns != asks.MaxSamples || !strings.HasPrefix(last, "-1 sampling refused") {
			t.Errorf("got %d turns and then %s, want %d and a refusal", turns, last, asks.MaxSamples)
		}
	})
}
