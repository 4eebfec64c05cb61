package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
)

// script is the model where there is none: which tools it calls is fixed, what
// it says is taken from their results.
func script() []llmtest.Turn {
	return []llmtest.Turn{
		llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
			calls := []llmtest.Turn{
				llmtest.Call("files__list_files", map[string]any{"suffix": ".go", "sort": "size", "limit": 3}),
				llmtest.Call("files__search_text", map[string]any{"text": "module ", "suffix": "go.mod"}),
			}
			for _, tool := range req.Tools {
				if tool.Name == "filesystem__get_file_info" {
					calls = append(calls, llmtest.Call(tool.Name, map[string]any{"path": "go.mod"}))
				}
			}
			return llmtest.Calls(calls...)
		}),
		llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
			return llmtest.Call("notebook__add_note", map[string]any{"title": "largest Go files", "text": findings(req)})
		}),
		llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
			return llmtest.Say(findings(req), " I kept a note of it.")
		}),
	}
}

// findings makes a sentence of the tools' results.
func findings(req *llm.Request) string {
	var files []string
	module := "unknown"
	for _, text := range results(req) {
		var list struct {
			Files []struct {
				Path string `json:"path"`
				Size int64  `json:"size"`
			} `json:"files"`
			Lines []string `json:"lines"`
		}
		if json.Unmarshal([]byte(text), &list) != nil {
			continue
		}
		for _, f := range list.Files {
			files = append(files, fmt.Sprintf("%s (%d bytes)", f.Path, f.Size))
		}
		for _, line := range list.Lines {
			if name, ok := strings.CutPrefix(line, "go.mod:1: module "); ok {
				module = name
			}
		}
	}
	return fmt.Sprintf("The module is %s, and its largest Go files are %s.", module, strings.Join(files, ", "))
}

// results returns the texts of the tools' results, the oldest first.
func results(req *llm.Request) []string {
	var out []string
	for _, m := range req.Messages {
		for _, c := range m.Content {
			if r, ok := c.(*mcp.ToolResultContent); ok {
				out = append(out, r.Content.Text())
			}
		}
	}
	return out
}
