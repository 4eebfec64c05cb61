package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/runfile"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store/memstore"
)

// chats is a conversation of many prompts on a model with a short window, and what was sent of it.
type chats struct {
	t       *testing.T
	s       *memstore.Store
	reading bool // the model calls a tool at each prompt
	length  int  // of the window; zero has the model refuse what is too long

	sent      [][]string // messages of each request that the model has taken, in JSON
	summaries []string   // what each was made of: the one before
	rt        *agent.Runtime
	a         *agent.Agent
}

const most = 16_000 // tokens that the model takes

func (c *chats) answer(_ context.Context, r *llm.Request) llmtest.Turn {
	if llm.EstimateTokens(r) > most {
		return llmtest.Fail(&llm.Error{Provider: "test", Err: llm.ErrContextLength})
	}
	var now []string
	for _, m := range r.Messages {
		raw, err := json.Marshal(m)
		if err != nil {
			c.t.Error(err)
		}
		now = append(now, string(raw))
	}
	c.sent = append(c.sent, now)
	if _, result := r.Messages[len(r.Messages)-1].Content[0].(*mcp.ToolResultContent); c.reading && !result {
		return call("read", in{len(c.sent)})
	}
	return llmtest.Say("ok")
}

// open opens a runtime, as another process on the same store.
func (c *chats) open() {
	if c.rt != nil {
		if err := c.rt.Close(); err != nil {
			c.t.Fatal(err)
		}
	}
	read := agent.Func("read", "Reads a page.", func(context.Context, in) (string, error) { return strings.Repeat("page ", 300), nil })
	c.rt = open(c.t, &agent.Options{Store: c.s, Model: llmtest.Loop(llmtest.Func(c.answer)), Tools: []agent.Tool{read}})
	a, err := c.rt.Agent("a", &agent.Config{ContextLength: c.length,
		Summarise: func(_ context.Context, before string, _ []llm.Message) (string, error) {
			c.summaries = append(c.summaries, before)
			return fmt.Sprintf("summary no. %d\nof all", len(c.summaries)), nil
		}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.a = a
}

func (c *chats) say(i int, history []llm.Message) string {
	run, err := c.a.Start(c.t.Context(), fmt.Sprintf("Fact %d: %s", i, strings.Repeat("word ", 600)), &agent.RunOptions{History: history})
	if err == nil {
		_, err = run.Wait(c.t.Context())
	}
	if err != nil {
		c.t.Fatalf("prompt %d: %v", i, err)
	}
	return run.ID()
}

// TestConversationKeepsItsWindow: a conversation that was cut goes on from there, so that each prompt begins with all of the one
// before: in one process or several, in a fork, and where the run was imported.
func TestConversationKeepsItsWindow(t *testing.T) {
	for _, tt := range []struct {
		name    string
		length  int
		reading bool
		between func(c *chats, id string) string // returns the run that is gone on with
	}{
		{"one process", most, false, nil},
		{"with results", most, true, nil},
		{"a window that the model's refusal tells", 0, true, nil},
		{"another process for each prompt", most, true, func(c *chats, id string) string { c.open(); return id }},
		{"a fork at each prompt", most, true, func(c *chats, id string) string {
			run, err := c.rt.Fork(c.t.Context(), id, 0, &agent.ForkOptions{Agent: c.a})
			if err == nil {
				_, err = run.Wait(c.t.Context())
			}
			if err != nil {
				c.t.Fatal(err)
			}
			return run.ID()
		}},
		{"imported at each prompt", most, true, func(c *chats, id string) string {
			all, err := runfile.Load(c.t.Context(), c.s, id)
			if err == nil {
				c.s = memory()
				c.open()
				err = runfile.Import(c.t.Context(), c.s, all, "import")
			}
			if err != nil {
				c.t.Fatal(err)
			}
			return id
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := &chats{t: t, s: memory(), reading: tt.reading, length: tt.length}
				c.open()
				var history []llm.Message
				for i := range 24 {
					id := c.say(i, history)
					if tt.between != nil {
						id = tt.between(c, id)
					}
					var err error
					if history, err = c.rt.Conversation(t.Context(), id); err != nil {
						t.Fatal(err)
					}
				}
				c.check()
			})
		})
	}
}

func (c *chats) check() {
	cuts := 0
	for i, now := range c.sent[1:] {
		before := c.sent[i]
		if len(now) >= len(before) && slices.Equal(now[:len(before)], before) {
			continue
		}
		cuts++
		if n := strings.Count(now[0], "which stood here"); n > 1 || strings.Count(now[0], "summary no.") != 1 {
			c.t.Errorf("request %d: the first message has %d notes: %.300q", i+1, n, now[0])
		}
	}
	if cuts == 0 || cuts > 6 || len(c.summaries) != cuts {
		c.t.Errorf("%d cuts with %d summaries in %d requests", cuts, len(c.summaries), len(c.sent))
	}
	for i, before := range c.summaries {
		if want := fmt.Sprintf("summary no. %d\nof all", i); i > 0 && before != want {
			c.t.Errorf("summary %d goes on from %q, want %q", i+1, before, want)
		}
	}
}
