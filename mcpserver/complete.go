package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/offered"
	"github.com/troupe-dev/troupe/mcpserver/internal/registry"
)

// CompletionOut is the result of a completion: the values, best first, or an
// *mcp.Completion that also has their number. Clients get the first hundred.
type CompletionOut interface {
	[]string | *mcp.Completion
}

// CompleteRequest is the [Request] of completion/complete. It cannot ask the client.
type CompleteRequest struct{ Request }

func (q *CompleteRequest) params() *mcp.CompleteParams { return q.r.job().(*completing).params }

// Argument returns the name of the argument or variable that the user types.
func (q *CompleteRequest) Argument() string { return q.params().Argument.Name }

// Value returns the text typed so far.
func (q *CompleteRequest) Value() string { return q.params().Argument.Value }

// Chosen returns the arguments that the user has chosen before. It is empty before
// 2025-06-18, and if the client does not send them.
func (q *CompleteRequest) Chosen() map[string]string {
	if c := q.params().Context; c != nil && q.r.version.Has(mcp.FeatureCompletionContext) {
		return c.Arguments
	}
	return nil
}

// CompletePrompt sets the function that suggests values for an argument of a prompt that
// was added before. Suggestions go to every client that may use the prompt: they must not
// disclose more than the prompt does.
func CompletePrompt[Out CompletionOut](s *Server, name, argument string, suggest func(ctx context.Context, req *CompleteRequest) (Out, error)) error {
	err := s.prompts.Replace(name, func(old *prompt) (*prompt, error) {
		if !old.Has(argument) {
			return nil, fmt.Errorf("the argument %q of prompt %q: %w", argument, name, ErrUnknown)
		}
		p := *old
		p.completers = old.completers.with(argument, completerOf(suggest))
		return &p, nil
	})
	return s.completes(err)
}

// CompleteTemplate sets the function that suggests values for a variable of a resource
// template that was added before; see [CompletePrompt].
func CompleteTemplate[Out CompletionOut](s *Server, uriTemplate, variable string, suggest func(ctx context.Context, req *CompleteRequest) (Out, error)) error {
	err := s.templates.Replace(uriTemplate, func(old *template) (*template, error) {
		if !old.Has(variable) {
			return nil, fmt.Errorf("the variable %q of %q: %w", variable, uriTemplate, ErrUnknown)
		}
		t := old.with(variable, completerOf(suggest))
		return t, nil
	})
	return s.completes(err)
}

func (l *lists) completes(err error) error {
	if err != nil {
		if errors.Is(err, registry.ErrUnknown) {
			err = fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		return fmt.Errorf("adding a completion: %w", err)
	}
	l.suggests.Store(true)
	return nil
}

// completerOf makes a completion of at most a hundred values of a handler's suggestions.
func completerOf[Out CompletionOut](suggest func(context.Context, *CompleteRequest) (Out, error)) completer {
	return func(r *request) (mcp.Completion, error) {
		out, err := suggest(r.context(), &CompleteRequest{Request{r}})
		if err != nil {
			return mcp.Completion{}, err
		}
		return offered.Completion(out), nil
	}
}

// completing is one completion/complete.
type completing struct {
	of      string // the name of the prompt, or the URI
	params  *mcp.CompleteParams
	suggest completer // nil: there are no suggestions
	needs   []string  // scopes: those of the prompt or template
}

func (c *completing) name() string          { return c.of }
func (c *completing) asks() bool            { return true } // it takes the request, but see MRTR-01
func (c *completing) scopes() []string      { return c.needs }
func (c *completing) speed() *offered.Speed { return nil }

func (c *completing) run(r *request) error {
	completion := mcp.Completion{Values: []string{}}
	if c.suggest != nil {
		var err error
		if completion, err = c.suggest(r); err != nil {
			return err
		}
	}
	return r.respond(&mcp.CompleteResult{Completion: completion})
}

// find looks for the function that makes the suggestions (CMP-03).
func (c *completing) find(s *Server) error {
	ref, argument := c.params.Ref, c.params.Argument.Name
	unknown := func(what string) error {
		return mcp.Errorf(mcp.CodeInvalidParams, "unknown %s %q", what, clip.Name(cmp.Or(ref.Name, ref.URI)))
	}
	if ref.Type == mcp.RefPrompt {
		p, ok := s.prompts.Now().Get(ref.Name)
		switch {
		case !ok:
			return unknown("prompt")
		case !p.Has(argument):
			return mcp.Errorf(mcp.CodeInvalidParams, "prompt %q has no argument %q", ref.Name, clip.Name(argument))
		}
		c.of, c.suggest, c.needs = ref.Name, p.completers[argument], p.needs
		return nil
	}
	c.of = ref.URI
	if _, ok := s.resources.Now().Get(ref.URI); ok { // it has no variables
		return nil
	}
	t, ok := s.templates.Now().Get(ref.URI)
	if !ok && registry.CheckURI(ref.URI) == nil {
		t, _ = s.templateFor(ref.URI)
	}
	switch {
	case t == nil:
		return unknown("resource template")
	case !t.Has(argument):
		return mcp.Errorf(mcp.CodeInvalidParams, "the resource template has no variable %q", clip.Name(argument))
	}
	c.suggest, c.needs = t.completers[argument], t.needs
	return nil
}

// Rank returns the choices that match the typed text, best first: choices that begin with
// it, choices that contain it, and choices that contain its characters in their order. Case
// does not matter; equals keep their order.
func Rank(typed string, choices ...string) []string {
	return offered.Rank(typed, choices)
}
