package sampling

import (
	"math"
	"slices"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// Request returns the turn that a server asks for. The error, an [*mcp.Error] with
// -32602, says what no model takes: a history whose tool calls and results do not match, an image
// of another type than PNG, JPEG, GIF and WebP, a block that does not belong into a
// conversation, a call that is required where there are no tools.
//
// Metadata is not forwarded, includeContext is the host's to grant, and
// temperature is brought into 0 to 2. The preferences become
// [llm.Request.Prefer], for a router.
func Request(p *mcp.CreateMessageParams) (*llm.Request, error) {
	if err := p.Validate(); err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "%v", err)
	}
	if err := p.CheckToolBalance(); err != nil {
		return nil, err
	}
	if err := checkStops(p.StopSequences); err != nil {
		return nil, err
	}
	req := &llm.Request{
		System:      p.SystemPrompt,
		MaxTokens:   int(min(p.MaxTokens, math.MaxInt32)),
		Temperature: temperature(p.Temperature),
		Stop:        stops(p),
		Prefer:      prefer(p.ModelPreferences),
	}
	var err error
	if req.Messages, err = messages(p.Messages); err != nil {
		return nil, err
	}
	for _, t := range p.Tools {
		req.Tools = append(req.Tools, llm.Tool{Name: sent(t.Name), Description: t.Description, InputSchema: t.InputSchema})
	}
	switch mode(p) {
	case "", mcp.ToolChoiceAuto:
	case mcp.ToolChoiceNone:
		req.ToolChoice = llm.ToolChoiceNone
	case mcp.ToolChoiceRequired:
		req.ToolChoice = llm.ToolChoiceRequired
	default:
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "unknown toolChoice %.40q", mode(p))
	}
	if err := req.Validate(); err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "%v", err)
	}
	return req, nil
}

func mode(p *mcp.CreateMessageParams) string {
	if p.ToolChoice == nil {
		return ""
	}
	return p.ToolChoice.Mode
}

// temperature keeps what providers take.
func temperature(t *float64) *float64 {
	if t == nil {
		return nil
	}
	kept := max(0, min(*t, 2))
	return &kept
}

// What stop sequences are bounded to: each is looked for in every piece of an answer.
const (
	maxStops = 64
	maxStop  = 256 // bytes
)

func checkStops(stops []string) error {
	if len(stops) > maxStops {
		return mcp.Errorf(mcp.CodeInvalidParams, "more than %d stop sequences", maxStops)
	}
	for _, s := range stops {
		if len(s) > maxStop {
			return mcp.Errorf(mcp.CodeInvalidParams, "a stop sequence of more than %d bytes", maxStop)
		}
	}
	return nil
}

// stops are the stop sequences without empty ones, which providers refuse.
func stops(p *mcp.CreateMessageParams) []string {
	return slices.DeleteFunc(slices.Clone(p.StopSequences), func(s string) bool { return s == "" })
}

// prefer is the server's advice. Priorities are brought into 0 to 1.
func prefer(mp *mcp.ModelPreferences) *llm.Preferences {
	if mp == nil {
		return nil
	}
	priority := func(f *float64) float64 {
		if f == nil {
			return 0
		}
		return max(0, min(*f, 1))
	}
	p := &llm.Preferences{
		Cost: priority(mp.CostPriority), Speed: priority(mp.SpeedPriority), Intelligence: priority(mp.IntelligencePriority),
	}
	for _, h := range mp.Hints {
		if h.Name != "" {
			p.Hints = append(p.Hints, h.Name)
		}
	}
	return p
}

// messages checks the blocks, and gives calls ids that no other call of the whole
// history has: MCP demands it within a message only.
func messages(in []mcp.SamplingMessage) ([]llm.Message, error) {
	out := make([]llm.Message, len(in))
	used := make(ids)
	var calls map[string]string // of the message before: their ids as they were, and are
	for i, m := range in {
		answered := calls
		calls = make(map[string]string)
		content := make(mcp.Contents, len(m.Content))
		for j, c := range m.Content {
			switch c := c.(type) {
			case *mcp.ToolUseContent:
				call := *c
				call.ID, call.Name = used.unique(c.ID), sent(c.Name)
				calls[c.ID], content[j] = call.ID, &call
			case *mcp.ToolResultContent:
				if err := checkImages(i, c.Content); err != nil {
					return nil, err
				}
				result := *c
				result.ToolUseID, content[j] = answered[c.ToolUseID], &result
			case *mcp.TextContent, *mcp.ImageContent, *mcp.AudioContent:
				content[j] = c
			case nil:
				return nil, mcp.Errorf(mcp.CodeInvalidParams, "message %d: an empty block", i)
			default:
				return nil, mcp.Errorf(mcp.CodeInvalidParams, "message %d: a block of type %.40q", i, c.ContentType())
			}
		}
		if err := checkImages(i, m.Content); err != nil {
			return nil, err
		}
		out[i] = llm.Message{Role: m.Role, Content: content}
	}
	return out, nil
}

// checkImages refuses what no provider takes.
func checkImages(message int, cs mcp.Contents) error {
	for _, c := range cs {
		img, ok := c.(*mcp.ImageContent)
		if !ok {
			continue
		}
		switch img.MIMEType {
		case "image/png", "image/jpeg", "image/gif", "image/webp":
		default:
			return mcp.Errorf(mcp.CodeInvalidParams, "message %d: an image of type %.40q", message, img.MIMEType)
		}
	}
	return nil
}
