package questions

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/mcp"
)

// ClientAnswers reports whether a client with these capabilities has the model for the
// question.
func (q *Question) ClientAnswers(c *mcp.ClientCapabilities) bool {
	return c != nil && c.Sampling != nil && (!q.usesTools() || c.SamplingTools())
}

// usesTools reports whether the question needs sampling.tools.
func (q *Question) usesTools() bool {
	if len(q.Sample.Tools) > 0 || q.Sample.ToolChoice != nil {
		return true
	}
	for _, m := range q.Sample.Messages {
		for _, c := range m.Content {
			switch c.(type) {
			case *mcp.ToolUseContent, *mcp.ToolResultContent:
				return true
			}
		}
	}
	return false
}

// missingSampling adds what the client lacks for a question to the model.
func (q *Question) missingSampling(c *mcp.ClientCapabilities, lacks *mcp.ClientCapabilities) bool {
	tools := q.usesTools() && !c.SamplingTools()
	context := q.context && (c == nil || c.Sampling == nil || c.Sampling.Context == nil)
	if c != nil && c.Sampling != nil && !tools && !context {
		return false
	}
	if lacks.Sampling == nil {
		lacks.Sampling = new(mcp.SamplingCapability)
	}
	if tools {
		lacks.Sampling.Tools = mcp.Present
	}
	if context {
		lacks.Sampling.Context = mcp.Present
	}
	return true
}

// prepareSample checks the question and returns its params.
func (q *Question) prepareSample(v mcp.Version) (any, error) {
	if err := q.Sample.Validate(); err != nil {
		return nil, err
	}
	if err := q.Sample.CheckToolBalance(); err != nil {
		return nil, errors.New(err.Error()) // not the client's fault, so no wire error
	}
	for i, m := range q.Sample.Messages { // SAMP-02
		if !m.Role.Valid() || len(m.Content) == 0 {
			return nil, fmt.Errorf("message %d has no content, or a role that is neither user nor assistant", i)
		}
	}
	switch q.Sample.IncludeContext {
	case "", mcp.ContextNone:
	case mcp.ContextThisServer, mcp.ContextAllServers:
		q.context = v.Has(mcp.FeatureSamplingTools) // from when on it is a capability of its own
	default:
		return nil, fmt.Errorf("no revision has the context %q", q.Sample.IncludeContext)
	}
	d := *q.Sample
	d.Task = nil
	if !v.Has(mcp.FeatureSamplingTools) && q.usesTools() {
		return &d, nil // Missing refuses the client: its capabilities do not allow tools
	}
	return d.For(v)
}

// sampled takes the model's answer (SAMP-10).
func (q *Question) sampled(raw json.RawMessage) error {
	r := new(mcp.CreateMessageResult)
	if err := mcp.Unmarshal(raw, r); err != nil {
		return err
	}
	if r.Role != mcp.RoleAssistant {
		return errors.New("the role is not assistant")
	}
	allowed := q.Sample == nil || len(q.Sample.Tools) > 0 && (q.Sample.ToolChoice == nil || q.Sample.ToolChoice.Mode != mcp.ToolChoiceNone)
	for _, c := range r.Content {
		switch c.(type) {
		case *mcp.ToolResultContent: // SAMP-23
			return errors.New("a tool result in an assistant message")
		case *mcp.ToolUseContent:
			if !allowed { // SAMP-06
				return errors.New("a tool call that was not allowed")
			}
		}
	}
	q.Sampled = r
	return nil
}
