package mcpserver

import (
	"context"
	"fmt"
	"reflect"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/offered"
)

// PromptOut is the result of a prompt's handler: the text of one message of the user, the
// messages, or the whole result.
type PromptOut interface {
	string | []mcp.PromptMessage | *mcp.GetPromptResult
}

// PromptRequest is the [Request] of prompts/get.
type PromptRequest struct{ Request }

// Name returns the name of the prompt.
func (q *PromptRequest) Name() string { return q.r.work.name() }

// prompt is a prompt with its handler and completions.
type prompt struct {
	*offered.Prompt
	takes      bool     // the handler takes the request
	needs      []string // scopes
	pace       *offered.Speed
	get        func(r *request, arguments map[string]string) (*mcp.GetPromptResult, error)
	completers completers
}

func (p *prompt) name() string     { return p.Def.Name }
func (p *prompt) asks() bool       { return p.takes }
func (p *prompt) scopes() []string { return p.needs }
func (p *prompt) speed() *offered.Speed {
	if p.takes {
		return nil
	}
	return p.pace
}

// AddPrompt adds a prompt with its handler. In is
//
//   - map[string]string, which has the arguments that the prompt declares and the
//     client sends; or
//   - a struct whose fields are strings. Unless the prompt has arguments of its own,
//     they are made from the fields: the name is that in JSON, the description a tag
//     `jsonschema:"text"`, and a field is required unless it is omitempty or omitzero.
//
// Arguments are strings. If a required one is missing, or one is not a string, the handler
// does not run. An error of the handler is an internal error for the client, without its
// text, unless it is an [*mcp.Error] that is not wrapped.
//
// Connected clients are notified of the new prompt.
func AddPrompt[In any, Out PromptOut](s *Server, def *mcp.Prompt, handle func(ctx context.Context, req *PromptRequest, in In) (Out, error), options ...EntryOption) error {
	return addPrompt(s, def, true, options, func(r *request, in In) (Out, error) {
		return handle(r.context(), &PromptRequest{Request{r}}, in)
	})
}

// AddPromptFunc adds a prompt as [AddPrompt] does, for a handler that needs nothing
// but the arguments. If it is quick, it runs where the request is read.
func AddPromptFunc[In any, Out PromptOut](s *Server, def *mcp.Prompt, handle func(ctx context.Context, in In) (Out, error), options ...EntryOption) error {
	return addPrompt(s, def, false, options, func(r *request, in In) (Out, error) { return handle(r.context(), in) })
}

func addPrompt[In any, Out PromptOut](s *Server, given *mcp.Prompt, takes bool, options []EntryOption, handle func(*request, In) (Out, error)) error {
	checked, err := offered.NewPrompt(given, reflect.TypeFor[In]())
	if err != nil {
		return err
	}
	p := &prompt{Prompt: checked, takes: takes, needs: scopesOf(options), pace: new(offered.Speed)}
	p.get = func(r *request, arguments map[string]string) (*mcp.GetPromptResult, error) {
		var in In
		p.Fill(&in, arguments)
		r.enter()
		out, err := handle(r, in)
		r.leave()
		if err != nil {
			return nil, err
		}
		return offered.PromptResult(out), nil
	}
	return s.prompts.Add(p)
}

func (p *prompt) run(r *request) error {
	arguments, err := p.Arguments(r.arguments) // PRM-02, PRM-03
	if err != nil {
		return err
	}
	result, err := p.get(r, arguments)
	if err != nil {
		if wire, ok := err.(*mcp.Error); ok {
			return wire
		}
		return err
	}
	if result == nil {
		return fmt.Errorf("prompt %q returned no result", p.Def.Name)
	}
	if err := offered.CheckMessages(result.Messages); err != nil {
		return fmt.Errorf("prompt %q returned an invalid result: %w", p.Def.Name, err)
	}
	c := *result
	return respondWith(r, &c, &c.Meta)
}
