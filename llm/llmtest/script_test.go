package llmtest_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

func hello() *llm.Request { return &llm.Request{Messages: []llm.Message{llm.User("Hello")}} }

func TestScript(t *testing.T) {
	m := llmtest.Script(
		llmtest.Say("one"),
		llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn { return llmtest.Say("you said " + req.System) }),
		llmtest.Say("cut").Finish(llm.FinishLength),
	).Named("test/m")
	req := hello()
	req.System = "two"
	for _, want := range []string{"one", "you said two", "cut"} {
		resp, err := llm.Generate(t.Context(), m, req)
		if err != nil || resp.Text() != want || resp.Model != "test/m" {
			t.Errorf("Generate: got %+v and error %v, want %q", resp, err, want)
		}
	}
	req.Messages[0] = llm.User("changed afterwards")
	if got := m.Requests(); len(got) != 3 || got[0].Messages[0].Content.Text() != "Hello" {
		t.Errorf("Requests: got %+v", got)
	}
	_, err := llm.Generate(t.Context(), m, req)
	if err == nil || !strings.Contains(err.Error(), `the script has 3 turns and was asked for one more, by: user "changed afterwards"`) {
		t.Errorf("Generate beyond the script: got error %v", err)
	}
	if _, err := llm.Generate(t.Context(), m, &llm.Request{}); !errors.Is(err, llm.ErrInvalidRequest) {
		t.Errorf("Generate without messages: got error %v, want %v", err, llm.ErrInvalidRequest)
	}
}

func TestFailAndReply(t *testing.T) {
	boom := errors.New("boom")
	m := llmtest.Script(llmtest.Join(llmtest.Say("a"), llmtest.Fail(boom)), llmtest.Reply(429, "slow down"))
	if _, err := llm.Generate(t.Context(), m, hello()); !errors.Is(err, boom) {
		t.Errorf("Generate: got error %v, want %v", err, boom)
	}
	_, err := llm.Generate(t.Context(), m, hello())
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.Status != 429 {
		t.Errorf("Generate: got error %v, want a status 429", err)
	}
}

// TestLoopConcurrently holds that many may ask at once, and that ids stay unique.
func TestLoopConcurrently(t *testing.T) {
	m := llmtest.Loop(llmtest.Call("f", nil), llmtest.Call("g", nil))
	var mu sync.Mutex
	ids := map[string]bool{}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			resp, err := llm.Generate(t.Context(), m, hello())
			if err != nil {
				t.Errorf("Generate: %v", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ids[resp.Calls()[0].ID] = true
		})
	}
	wg.Wait()
	if len(ids) != 50 {
		t.Errorf("got %d different ids, want 50", len(ids))
	}
}

// TestSlow holds that waiting is by the clock of package time, and ends with the context.
func TestSlow(t *testing.T) {
	tests := []struct {
		name             string
		thinks, deadline time.Duration
		want             error
	}{
		{"in time", 2 * time.Second, time.Minute, nil},
		{"too slow", time.Hour, time.Minute, context.DeadlineExceeded},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
				defer cancel()
				start := time.Now()
				_, err := llm.Generate(ctx, llmtest.Script(llmtest.Slow(tt.thinks)), hello())
				if want := min(tt.thinks, tt.deadline); !errors.Is(err, tt.want) || time.Since(start) != want {
					t.Errorf("Generate: got error %v after %v, want %v after %v", err, time.Since(start), tt.want, want)
				}
			})
		})
	}
}

func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := llmtest.NewGate()
		m := llmtest.Script(llmtest.Join(llmtest.Hold(gate), llmtest.Say("through")))
		done := make(chan string)
		go func() {
			resp, err := llm.Generate(t.Context(), m, hello())
			if err != nil {
				t.Errorf("Generate: %v", err)
			}
			done <- resp.Text()
		}()
		<-gate.Reached()
		synctest.Wait()
		select {
		case <-done:
			t.Error("the turn went through a closed gate")
		default:
		}
		gate.Open()
		gate.Open()
		if got := <-done; got != "through" {
			t.Errorf("Generate: got %q", got)
		}
	})
}

// TestByHistory: the turn is that of the conversation, whatever was asked before.
func TestByHistory(t *testing.T) {
	m := llmtest.ByHistory(llmtest.Say("one"), llmtest.Call("two", `{}`))
	for _, test := range []struct {
		answers int
		want    string
	}{{1, "call_2_1"}, {0, "one"}, {0, "one"}, {5, "call_6_1"}} {
		req := &llm.Request{Messages: []llm.Message{llm.User("go")}}
		for range test.answers {
			req.Messages = append(req.Messages, llm.Assistant("said"), llm.User("go on"))
		}
		resp, err := llm.Generate(t.Context(), m, req)
		if err != nil {
			t.Fatal(err)
		}
		got := resp.Text()
		for _, c := range resp.Calls() {
			got = c.ID
		}
		if got != test.want {
			t.Errorf("after %d answers: got %q, want %q", test.answers, got, test.want)
		}
	}
}
