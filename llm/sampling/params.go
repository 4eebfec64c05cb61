package sampling

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/render"
	"github.com/troupe-dev/troupe/mcp"
)

// DefaultMaxTokens is what is asked for where a request does not say it: MCP demands
// a number.
const DefaultMaxTokens = 8192

// Params returns what a client must be asked to run the turn. The error is that of
// [llm.Request.Validate].
//
// MCP has no place for a schema of the answer: it becomes a line of the system prompt,
// and the answer must be checked. A wish for thinking, Metadata and Prefer.Allowed are
// not said. Model is the first hint.
func Params(req *llm.Request) (*mcp.CreateMessageParams, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	p := &mcp.CreateMessageParams{
		MaxTokens:        int64(cmp.Or(req.MaxTokens, DefaultMaxTokens)),
		SystemPrompt:     system(req),
		Temperature:      req.Temperature,
		StopSequences:    slices.Clone(req.Stop),
		ModelPreferences: preferences(req),
	}
	for _, m := range req.Messages {
		p.Messages = append(p.Messages, mcp.SamplingMessage{Role: m.Role, Content: blocks(m.Content)})
	}
	for _, t := range req.Tools {
		schema := t.InputSchema
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		p.Tools = append(p.Tools, mcp.Tool{Name: t.Name, Description: t.Description, InputSchema: schema})
	}
	switch req.ToolChoice {
	case llm.ToolChoiceRequired:
		p.ToolChoice = &mcp.ToolChoice{Mode: mcp.ToolChoiceRequired}
	case llm.ToolChoiceNone:
		if len(p.Tools) > 0 { // else nothing need be said, and any client can take it (SAMP-04)
			p.ToolChoice = &mcp.ToolChoice{Mode: mcp.ToolChoiceNone}
		}
	}
	return p, nil
}

// system is the system prompt, with the schema of the answer.
func system(req *llm.Request) string {
	if len(req.Schema) == 0 {
		return req.System
	}
	text := fmt.Sprintf("Answer with JSON only, without any other text, that fits this JSON schema: %s", req.Schema)
	if req.System == "" {
		return text
	}
	return req.System + "\n\n" + text
}

// preferences is the advice on the model, nil if there is none.
func preferences(req *llm.Request) *mcp.ModelPreferences {
	var mp mcp.ModelPreferences
	if req.Model != "" {
		mp.Hints = append(mp.Hints, mcp.ModelHint{Name: req.Model})
	}
	if pref := req.Prefer; pref != nil {
		for _, hint := range pref.Hints {
			mp.Hints = append(mp.Hints, mcp.ModelHint{Name: hint})
		}
		mp.CostPriority, mp.SpeedPriority, mp.IntelligencePriority = number(pref.Cost), number(pref.Speed), number(pref.Intelligence)
	} else if req.Model == "" {
		return nil
	}
	return &mp
}

// number is a priority; zero is that of one that is not given.
func number(f float64) *float64 {
	if f == 0 {
		return nil
	}
	return &f
}

// blocks are the content of a message as sampling has it (SAMP-03): other blocks become
// text, and a message is never without any.
func blocks(cs mcp.Contents) mcp.Contents {
	var out mcp.Contents
	for _, c := range cs {
		switch c.(type) {
		case *mcp.TextContent, *mcp.ImageContent, *mcp.AudioContent, *mcp.ToolUseContent, *mcp.ToolResultContent:
			out = append(out, c)
		default:
			if text, ok := render.Text(c); ok {
				out = append(out, mcp.Text(text))
			}
		}
	}
	if len(out) == 0 {
		out = mcp.Contents{mcp.Text("")}
	}
	return out
}
