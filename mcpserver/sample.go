package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/asking"
)

// Sample asks the client's model, with everything that p says. The error is
// [ErrDeclined] if a person has said no, or one of [Request.Ask]. A client without
// sampling.tools is never sent tools, nor one of 2025-11-25 or later without
// sampling.context a wish for context: that is a [*CapabilityError]. Calls and
// results in the messages must balance. Handlers that let the model
// call tools use sampling.Loop, or bound the turns themselves, and say
// [mcp.ToolChoiceNone] in the last.
//
// With [Options].Model a client that has no sampling, or none with tools where they are
// needed, is not asked: that model answers, once for the call, also if the handler runs
// again.
func (q *Request) Sample(ctx context.Context, key string, p *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
	one := SampleQuestion(key, p)
	n := q.r.invocation.Load()
	if n == nil || n.server.model == nil || p == nil || key == "" || len(key) > maxKey {
		err := q.ask(ctx, one)
		return one.Sampled, err
	}
	a, err := n.sampleOwn(ctx, key, p, func() bool { return one.clientAnswers(q.live().capabilities()) })
	if err != nil || !a.Client {
		return a.Result, err
	}
	err = q.ask(ctx, one)
	return one.Sampled, err
}

// clientAnswers reports whether a client with these capabilities has the model for the
// question.
func (q *Question) clientAnswers(c *mcp.ClientCapabilities) bool {
	return c != nil && c.Sampling != nil && (!q.usesTools() || c.SamplingTools())
}

// sampleOwn asks the server's own model, once for the key, unless the client is to be
// asked: that too is decided once, or a handler that runs again for a client that has
// changed would not ask again what it had asked.
func (n *handlerCall) sampleOwn(ctx context.Context, key string, p *mcp.CreateMessageParams, client func() bool) (asking.Answer, error) {
	ctx, stop := sampler{n}.Within(ctx)
	defer stop()
	a, _, err := onceIn(ctx, n, ownKey+key, func(ctx context.Context) (asking.Answer, error) {
		if client() {
			return asking.Answer{Client: true}, nil
		}
		return n.server.model.Answer(ctx, n.current().quota(), p)
	})
	return a, err
}

// ownKey begins the keys of what is kept for the server itself, apart from those of handlers.
const ownKey = "\x00model:"

// usesTools reports whether the question needs sampling.tools.
func (q *Question) usesTools() bool {
	if len(q.sample.Tools) > 0 || q.sample.ToolChoice != nil {
		return true
	}
	for _, m := range q.sample.Messages {
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
	if err := q.sample.Validate(); err != nil {
		return nil, err
	}
	if err := q.sample.CheckToolBalance(); err != nil {
		return nil, errors.New(err.Error()) // not the client's fault, so no wire error
	}
	for i, m := range q.sample.Messages { // SAMP-02
		if !m.Role.Valid() || len(m.Content) == 0 {
			return nil, fmt.Errorf("message %d has no content, or a role that is neither user nor assistant", i)
		}
	}
	switch q.sample.IncludeContext {
	case "", mcp.ContextNone:
	case mcp.ContextThisServer, mcp.ContextAllServers:
		q.context = v.Has(mcp.FeatureSamplingTools) // from when on it is a capability of its own
	default:
		return nil, fmt.Errorf("no revision has the context %q", q.sample.IncludeContext)
	}
	d := *q.sample
	d.Task = nil
	if !v.Has(mcp.FeatureSamplingTools) && q.usesTools() {
		return &d, nil // the client's capabilities do not allow it, which is what is said
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
	allowed := q.sample == nil || len(q.sample.Tools) > 0 && (q.sample.ToolChoice == nil || q.sample.ToolChoice.Mode != mcp.ToolChoiceNone)
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
