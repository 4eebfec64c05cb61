package asks

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/mcp"
)

// Sampling is a request for a model's answer.
type Sampling struct {
	Version mcp.Version
	Params  *mcp.CreateMessageParams
	tools   bool // are declared
}

// ParseSampling checks a request for sampling: tools are declared (SAMP-04), the
// history is in order (SAMP-20 to SAMP-26). Context that was not granted is not passed on
// (SECA-43): before 2025-11-25 there is nothing to declare, so that any server may wish it.
func ParseSampling(v mcp.Version, caps *mcp.ClientCapabilities, context bool, params json.RawMessage) (*Sampling, error) {
	p := new(mcp.CreateMessageParams)
	if err := mcp.Unmarshal(params, p); err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "%s: %v", mcp.MethodCreateMessage, err)
	}
	if err := checkSampling(p, caps.SamplingTools()); err != nil {
		return nil, err
	}
	if !context {
		p.IncludeContext = mcp.ContextNone
	}
	p.Task = nil
	return &Sampling{v, p, caps.SamplingTools()}, nil
}

func checkSampling(p *mcp.CreateMessageParams, tools bool) error {
	if err := p.Validate(); err != nil {
		return mcp.Errorf(mcp.CodeInvalidParams, "%v", err)
	}
	if !tools && (len(p.Tools) > 0 || p.ToolChoice != nil || hasToolContent(p.Messages)) {
		return mcp.Errorf(mcp.CodeInvalidParams, "tools in sampling were not declared")
	}
	if p.ToolChoice != nil {
		switch p.ToolChoice.Mode {
		case "", mcp.ToolChoiceAuto, mcp.ToolChoiceRequired, mcp.ToolChoiceNone:
		default:
			return mcp.Errorf(mcp.CodeInvalidParams, "unknown toolChoice %.40q", p.ToolChoice.Mode)
		}
	}
	return p.CheckToolBalance()
}

func hasToolContent(messages []mcp.SamplingMessage) bool {
	for _, m := range messages {
		if countToolUse(m.Content) > 0 {
			return true
		}
	}
	return false
}

// countToolUse counts the blocks that have to do with tools.
func countToolUse(cs mcp.Contents) (n int) {
	for _, c := range cs {
		switch c.(type) {
		case *mcp.ToolUseContent, *mcp.ToolResultContent:
			n++
		}
	}
	return n
}

// CheckChange checks what a request was changed to: it keeps the rules, and brings no
// tools to a server that has not asked with any.
func (q *Sampling) CheckChange(from, to *mcp.CreateMessageParams) error {
	if len(from.Tools) == 0 && len(to.Tools) > 0 {
		return errors.New("it has tools now")
	}
	return checkSampling(to, q.tools)
}

// Fit returns an answer that the request, and the revision, allow (SAMP-03, SAMP-06,
// SAMP-10, SAMP-11).
func (q *Sampling) Fit(res *mcp.CreateMessageResult, p *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
	out := *res
	if out.Role == "" {
		out.Role = mcp.RoleAssistant
	}
	if out.Model == "" {
		out.Model = "unknown"
	}
	uses := countToolUse(out.Content)
	choice := ""
	if p.ToolChoice != nil {
		choice = p.ToolChoice.Mode
	}
	switch {
	case out.Role != mcp.RoleAssistant:
		return nil, fmt.Errorf("an answer of the role %q", out.Role)
	case len(out.Content) == 0:
		return nil, fmt.Errorf("an answer without content")
	case uses > 0 && (len(p.Tools) == 0 || choice == mcp.ToolChoiceNone):
		return nil, fmt.Errorf("an answer that calls tools where none may be called")
	case uses == 0 && (out.StopReason == mcp.StopToolUse || choice == mcp.ToolChoiceRequired):
		return nil, fmt.Errorf("an answer that calls no tool where one must be called")
	}
	out.Content = out.Content.For(q.Version)
	if len(out.Content) > 1 && !q.Version.Has(mcp.FeatureSamplingTools) { // one block only
		text := out.Content.Text()
		for _, block := range out.Content {
			if _, ok := block.(*mcp.TextContent); !ok {
				return nil, fmt.Errorf("revision %s has no answers of several blocks", q.Version)
			}
		}
		out.Content = mcp.Contents{&mcp.TextContent{Text: text}}
	}
	return &out, nil
}
