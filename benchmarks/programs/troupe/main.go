// Command troupe does the work with package agent, or with a journal in SQLite.
package main

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"path/filepath"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/benchmarks/turn"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/openai"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store/memstore"
	"github.com/troupe-dev/troupe/store/sqlite"
)

func main() { turn.Main(open) }

func open(o *turn.Options) (*turn.Program, error) {
	var scripted llm.Model = model{}
	if o.HTTP != "" {
		scripted = openai.New(turn.Model, &openai.Options{Provider: "scripted", BaseURL: o.HTTP, HTTPClient: o.Client()})
	}
	opts := &agent.Options{Model: scripted, Logger: slog.New(slog.DiscardHandler),
		Providers: map[string]agent.ProviderOptions{"scripted": {Concurrency: max(o.At, o.Live), Queue: max(o.At, o.Live)}}}
	opts.Store = memstore.New(nil)
	if o.DB != "" {
		s, err := sqlite.Open(filepath.Join(o.DB, "troupe.db"), nil)
		if err != nil {
			return nil, err
		}
		opts.Store = s
	}
	rt, err := agent.Open(context.Background(), opts)
	if err != nil {
		return nil, err
	}
	cfg := &agent.Config{Instructions: turn.Instructions, Approve: agent.NeverAsk}
	for _, name := range turn.Tools {
		cfg.Tools = append(cfg.Tools, agent.Func(name, turn.Description, func(_ context.Context, a turn.Args) (string, error) { return turn.Do(a) }))
	}
	a, err := rt.Agent("traveller", cfg)
	if err != nil {
		return nil, err
	}
	run := func(ctx context.Context, prompt string) (string, error) {
		res, err := a.Run(ctx, prompt, nil)
		if err != nil {
			return "", err
		}
		return res.Text, nil
	}
	return &turn.Program{Run: run, Close: func() error {
		rt.Close()
		return opts.Store.Close()
	}}, nil
}

// model is the scripted model.
type model struct{}

func (model) Name() string { return "scripted" }

func (model) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		results, prompt := 0, ""
		for _, m := range req.Messages {
			for _, c := range m.Content {
				switch c := c.(type) {
				case *mcp.ToolResultContent:
					results++
				case *mcp.TextContent:
					if m.Role == llm.RoleUser {
						prompt = c.Text
					}
				}
			}
		}
		calls, text, err := turn.Ask(ctx, prompt, results)
		if err != nil {
			yield(nil, err)
			return
		}
		reason := llm.FinishStop
		if text != "" && !yield(llm.TextDelta{Text: text}, nil) {
			return
		}
		for i, c := range calls {
			reason = llm.FinishToolCalls
			if !yield(llm.ToolCall{Index: i, ID: c.ID, Name: c.Tool, Arguments: json.RawMessage(c.Arguments)}, nil) {
				return
			}
		}
		_ = yield(llm.Usage{Input: 1000, Output: 100}, nil) && yield(llm.Finish{Reason: reason, Model: "scripted"}, nil)
	}
}
