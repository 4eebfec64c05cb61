package loop_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
)

// window is a model that takes so many tokens and no more, and plays a script.
type window struct {
	*llmtest.Model
	most     int
	refusals int
}

func (w *window) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	if w.most > 0 && llm.EstimateTokens(req) > w.most {
		w.refusals++
		return func(yield func(llm.Event, error) bool) {
			yield(nil, &llm.Error{Provider: "test", Err: llm.ErrContextLength})
		}
	}
	return w.Model.Stream(ctx, req)
}

// big returns a result of about so many tokens.
func big(tokens int) func(context.Context, *loop.Call) (string, error) {
	var n atomic.Int64 // no two results are the same
	return func(context.Context, *loop.Call) (string, error) {
		return fmt.Sprintf("%03d ", n.Add(1)) + strings.Repeat("abc ", tokens-1), nil
	}
}

// reads are turns that each call a tool with other arguments, and an answer.
func reads(n int) []llmtest.Turn {
	var turns []llmtest.Turn
	for i := range n {
		turns = append(turns, llmtest.Call("read", fmt.Sprintf(`{"file":%d}`, i)))
	}
	return append(turns, llmtest.Say("done"))
}

func (b *bench) cuts() []*runlog.HistoryCut {
	var out []*runlog.HistoryCut
	for _, e := range b.events() {
		if cut, ok := e.Body.(*runlog.HistoryCut); ok {
			out = append(out, cut)
		}
	}
	return out
}

// TestWindow: whatever comes, each request fits, is valid, begins with the first
// message, ends with the newest turn whole, and the journal has all of it.
func TestWindow(t *testing.T) {
	tests := []struct {
		name                   string
		context, result, turns int
		results, messages      bool // which are left out
		whole                  bool // the newest result is
	}{
		{"all fits", 100_000, 1000, 10, false, false, true},
		{"results go first", 8000, 1000, 12, true, false, true},
		{"then turns", 1200, 200, 30, true, true, true},
		{"the newest is too much", 2000, 5000, 3, true, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				model := &window{Model: llmtest.Script(reads(tt.turns)...), most: tt.context}
				cfg := b.config(model, tool("read", big(tt.result)))
				cfg.Context, cfg.System, cfg.MaxTokens = tt.context, "You read.", 100
				out := b.finish(b.start(cfg))
				if out.Err != nil || out.Text != "done" || model.refusals != 0 {
					t.Fatalf("outcome: %+v, refused %d times", out, model.refusals)
				}
				for i, req := range model.Requests() { // llmtest has found them valid
					if req.System != "You read." || !strings.HasPrefix(req.Messages[0].Content.Text(), "go") {
						t.Errorf("request %d begins with %q", i, req.Messages[0].Content.Text())
					}
					if i > 0 {
						newest := results(req)
						if whole := len(newest) == 1 && len(newest[0]) == 4*tt.result; whole != tt.whole {
							t.Errorf("request %d: the newest result has %d bytes of %d", i, len(newest[0]), 4*tt.result)
						}
					}
				}
				var gotResults, gotMessages bool
				for _, c := range b.cuts() {
					gotResults, gotMessages = gotResults || len(c.Results) > 0, gotMessages || c.Messages > 0
					if c.After > c.Limit || c.After >= c.Before {
						t.Errorf("cut: %+v", c)
					}
				}
				if gotResults != tt.results || gotMessages != tt.messages {
					t.Errorf("left out: results %v, messages %v", gotResults, gotMessages)
				}
				if cuts := len(b.cuts()); cuts > tt.turns {
					t.Errorf("cut %d times in %d turns", cuts, tt.turns)
				}
				for _, e := range b.events() {
					if r, ok := e.Body.(*runlog.ToolResult); ok && len(r.Result.Content.Text()) != 4*tt.result {
						t.Errorf("the journal has %d bytes of a result", len(r.Result.Content.Text()))
					}
				}
			})
		})
	}
}

// TestWindowMarks: what is missing is said where it is missing.
func TestWindowMarks(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		model := llmtest.Script(reads(8)...)
		cfg := b.config(model, tool("read", big(1000)))
		cfg.Context, cfg.MaxTokens = 6000, 100
		b.finish(b.start(cfg))
		last := model.Requests()[8]
		r := last.Messages[2].Content[0].(*mcp.ToolResultContent)
		if got := r.Content.Text(); got != "[the result of read, 4000 bytes, was dropped to save room]" {
			t.Errorf("mark: got %q", got)
		}
	})
	inBubble(t, func(t *testing.T, b *bench) {
		model := llmtest.Script(reads(40)...)
		cfg := b.config(model, tool("read", big(50)))
		cfg.Context, cfg.MaxTokens, cfg.Limits.Steps = 600, 100, 100
		b.finish(b.start(cfg))
		reqs := model.Requests()
		first := reqs[len(reqs)-1].Messages[0]
		cuts := b.cuts()
		want := fmt.Sprintf("[%d earlier messages of this conversation, which stood here, were dropped to save room.]", cuts[len(cuts)-1].Dropped)
		if len(first.Content) != 2 || first.Content[1].(*mcp.TextContent).Text != want {
			t.Errorf("first message: got %q, want %q", first.Content.Text(), want)
		}
	})
}

// TestSummary: what is left out is summed up by the program, which has all of it once;
// without words, if it fails.
func TestSummary(t *testing.T) {
	for name, fail := range map[string]func() error{"works": func() error { return nil }, "fails": func() error { return errors.New("tired") },
		"panics": func() error { panic("tired") }} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				model := llmtest.Script(reads(20)...)
				cfg := b.config(model, tool("read", big(200)))
				cfg.Context, cfg.MaxTokens = 1200, 100
				var asked int
				seen := make(map[string]int) // whole results
				cfg.Summarise = func(_ context.Context, _ *loop.Call, before string, dropped []llm.Message) (string, error) {
					if err := fail(); err != nil {
						return "", err
					}
					if want := fmt.Sprintf("summary %d", asked); asked > 0 && before != want {
						t.Errorf("before: got %q, want %q", before, want)
					}
					for _, m := range dropped {
						for _, c := range m.Content {
							if r, ok := c.(*mcp.ToolResultContent); ok && len(r.Content.Text()) == 800 {
								seen[r.ToolUseID]++
							}
						}
					}
					asked++
					return fmt.Sprintf("summary %d", asked), nil
				}
				if out := b.finish(b.start(cfg)); out.Text != "done" {
					t.Fatalf("outcome: %+v", out)
				}
				reqs, cuts := model.Requests(), b.cuts()
				left := 0
				for _, text := range allText(reqs[len(reqs)-1]) {
					if len(text) == 800 {
						left++
					}
				}
				for id, n := range seen {
					if n != 1 {
						t.Errorf("the result of %s was dropped %d times", id, n)
					}
				}
				if name == "works" && len(seen)+left != 20 {
					t.Errorf("%d results were summed up, %d are left, of 20", len(seen), left)
				}
				got := reqs[len(reqs)-1].Messages[0].Content.Text()
				want := fmt.Sprintf("What was dropped, in short: summary %d", asked)
				if strings.Contains(got, want) != (name == "works") || asked > 0 != (name == "works") {
					t.Errorf("first message %q, asked %d times", got, asked)
				}
				if c := cuts[len(cuts)-1]; (c.NoSummary == "") != (name == "works") || (c.Summary != "") != (name == "works") {
					t.Errorf("journal: %+v", c)
				}
			})
		})
	}
}

// TestContextLength: a model that refuses a turn as too long is asked once more with
// half of it; then the run fails.
func TestContextLength(t *testing.T) {
	tests := []struct {
		name     string
		most     int
		refusals int
		ok       bool
	}{
		{"fits", 100_000, 0, true},
		{"half fits", 6000, 1, true},
		{"half fits, again and again", 3000, 2, true},
		{"nothing fits", 10, 1, false}, // there is nothing to leave out of the first turn
		{"half is too much", 150, 2, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				model := &window{Model: llmtest.Script(reads(8)...), most: tt.most}
				cfg := b.config(model, tool("read", big(800)))
				out := b.finish(b.start(cfg))
				if tt.ok && out.Text != "done" || !tt.ok && !errors.Is(out.Err, llm.ErrContextLength) {
					t.Fatalf("outcome: %+v", out)
				}
				if model.refusals != tt.refusals && !tt.ok || model.refusals < tt.refusals {
					t.Errorf("refused %d times, want %d", model.refusals, tt.refusals)
				}
				for _, c := range b.cuts() {
					if !c.Forced {
						t.Errorf("cut: %+v", c)
					}
				}
			})
		})
	}
}

// TestWindowLearns: a model that counts more than was estimated is given less.
func TestWindowLearns(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		double := func(build llmtest.Turn) llmtest.Turn {
			return llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
				return build.Usage(2*llm.EstimateTokens(req), 5)
			})
		}
		var turns []llmtest.Turn
		for _, r := range reads(20) {
			turns = append(turns, double(r))
		}
		model := llmtest.Script(turns...)
		cfg := b.config(model, tool("read", big(300)))
		cfg.Context, cfg.MaxTokens = 4000, 100
		b.finish(b.start(cfg))
		for i, req := range model.Requests() {
			if n := 2 * llm.EstimateTokens(req); n > 4000 {
				t.Errorf("request %d has %d tokens as the model counts", i, n)
			}
		}
	})
}

// TestWindowOfARunWithoutRoom: one that can not be made to fit is asked for all the same,
// and what the model says of it counts.
func TestWindowOfARunWithoutRoom(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		cfg := b.config(llmtest.Script(llmtest.Say("ok")))
		cfg.Context, cfg.System = 10, strings.Repeat("long ", 100)
		if out := b.finish(b.start(cfg)); out.Text != "ok" || len(b.cuts()) != 0 {
			t.Errorf("outcome: %+v", out)
		}
	})
}

// TestLongSummary: words about what is left out do not take the room that it had.
func TestLongSummary(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		model := &window{Model: llmtest.Script(reads(20)...), most: 1200}
		cfg := b.config(model, tool("read", big(200)))
		cfg.Context, cfg.MaxTokens = 1200, 100
		cfg.Summarise = func(context.Context, *loop.Call, string, []llm.Message) (string, error) {
			return strings.Repeat("word ", 10_000), nil
		}
		if out := b.finish(b.start(cfg)); out.Text != "done" || model.refusals != 0 {
			t.Errorf("outcome: %+v, refused %d times", out, model.refusals)
		}
		for _, c := range b.cuts() {
			if c.After > c.Limit || len(c.Summary) < 100 {
				t.Errorf("cut: %d tokens of %d, a summary of %d bytes", c.After, c.Limit, len(c.Summary))
			}
		}
	})
}
