package router

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// Need is what a turn asks of the model that runs it. The zero value asks nothing.
type Need struct {
	// Model is the one model that will do, by a name or an alias. Empty means any.
	Model string
	// Tools, Vision, Audio and JSON are what it must take or be able to do.
	Tools, Vision, Audio, JSON bool
	// Images says that a tool has returned an image: a model with Vision is taken before
	// others, which are told instead that there was one.
	Images bool
	// Input is about how many tokens the conversation has: a model whose context is far
	// smaller lacks it. Output is the most that the answer may have. Models that have no
	// room for both come behind those that have.
	Input, Output int
	// Prefer is advice, and what is allowed. Nil is none.
	Prefer *llm.Preferences
}

// NeedOf returns what a request needs.
func NeedOf(req *llm.Request) Need {
	n := Need{
		Model:  req.Model,
		Tools:  len(req.Tools) > 0 && req.ToolChoice != llm.ToolChoiceNone,
		JSON:   len(req.Schema) > 0,
		Input:  llm.EstimateTokens(req),
		Output: req.MaxTokens,
		Prefer: req.Prefer,
	}
	for _, m := range req.Messages {
		for _, c := range m.Content {
			switch c := c.(type) {
			case *mcp.ImageContent:
				n.Vision = n.Vision || m.Role == llm.RoleUser
			case *mcp.AudioContent:
				n.Audio = n.Audio || m.Role == llm.RoleUser
			case *mcp.ToolResultContent:
				n.Images = n.Images || slices.ContainsFunc(c.Content, isImage)
			}
		}
	}
	return n
}

func isImage(c mcp.Content) bool {
	_, ok := c.(*mcp.ImageContent)
	return ok
}

// Lack is what one model lacks for a need.
type Lack struct {
	Model string
	Why   []string // in words, at least one

	kinds []error // what each is, for errors.Is
}

// NoModelError says that no model can do what is needed, and what each lacks. It wraps
// [llm.ErrNotFound] if there is no model of the name, [llm.ErrContextLength] if a model
// lacks nothing but room for the conversation, and else [llm.ErrUnsupported].
type NoModelError struct {
	Need  Need
	Lacks []Lack // in the order of the registry
}

// maxNamed bounds the models that the text of an error names.
const maxNamed = 20

// Error names the models, at most 20, and what each lacks.
func (e *NoModelError) Error() string {
	var b strings.Builder
	b.WriteString("no model can run this turn")
	for i, l := range e.Lacks {
		sep := "; "
		switch i {
		case 0:
			sep = ": "
		case maxNamed:
			fmt.Fprintf(&b, "; and %d more", len(e.Lacks)-maxNamed)
			return b.String()
		}
		fmt.Fprintf(&b, "%s%s %s", sep, l.Model, strings.Join(l.Why, " and "))
	}
	return b.String()
}

// Unwrap returns what kind of error it is.
func (e *NoModelError) Unwrap() error {
	known := false
	for _, l := range e.Lacks {
		if len(l.kinds) == 1 && l.kinds[0] == llm.ErrContextLength {
			return llm.ErrContextLength
		}
		known = known || !slices.ContainsFunc(l.kinds, func(err error) bool { return errors.Is(err, llm.ErrNotFound) })
	}
	if !known {
		return llm.ErrNotFound
	}
	return llm.ErrUnsupported
}

// lacks says what a card lacks for the need; nil is nothing.
func (c *Card) lacks(n *Need) *Lack {
	l := Lack{Model: c.Name()}
	add := func(kind error, format string, args ...any) {
		l.Why, l.kinds = append(l.Why, fmt.Sprintf(format, args...)), append(l.kinds, kind)
	}
	if n.Model != "" && !c.answers(n.Model) {
		add(llm.ErrNotFound, "is not %.80q", n.Model)
	}
	if n.Prefer != nil && n.Prefer.Allowed != nil && !slices.ContainsFunc(n.Prefer.Allowed, c.answers) {
		add(llm.ErrUnsupported, "is not allowed here")
	}
	for _, need := range []struct {
		asked, has bool
		what       string
	}{
		{n.Tools, c.Tools, "takes no tools"},
		{n.Vision, c.Vision, "takes no images"},
		{n.Audio, c.Audio, "takes no audio"},
		{n.JSON, c.JSON, "gives no JSON of a schema"},
	} {
		if need.asked && !need.has {
			add(llm.ErrUnsupported, "%s", need.what)
		}
	}
	// The count is an estimate, a quarter too high at times: what is near is not refused.
	if c.Context > 0 && n.Input > c.Context+c.Context/4 {
		add(llm.ErrContextLength, "has a context of %d tokens, and the conversation has about %d", c.Context, n.Input)
	}
	if len(l.Why) == 0 {
		return nil
	}
	return &l
}

// roomy reports whether the conversation and all of the answer fit.
func (c *Card) roomy(n *Need) bool {
	return c.Context <= 0 || n.Output <= c.Context-n.Input
}
