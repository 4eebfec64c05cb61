package questions

import (
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/mcp"
)

// refusal is an error that a client may see as it is: mcp.ErrorOf finds its wire error.
type refusal struct{ wire *mcp.Error }

func (e *refusal) Error() string { return e.wire.Message }

// Unwrap returns the wire error.
func (e *refusal) Unwrap() error { return e.wire }

// codeRefused is ours: a prompt or resource could not be had because a person refused. It
// lies outside of the range that is JSON-RPC's (BASE-17).
const codeRefused = -1

// Refusal returns an error whose text a client may see.
func Refusal(text string) error { return &refusal{mcp.Errorf(codeRefused, "%s", text)} }

// Refusals by a person.
var (
	ErrDeclined  = Refusal("the user has declined")
	ErrDismissed = Refusal("the user has dismissed the question")
)

// CapabilityError says that a client does not support what a question needs.
type CapabilityError struct{ Missing *mcp.ClientCapabilities }

func (e *CapabilityError) Error() string {
	var parts []string
	m := e.Missing
	if m.Elicitation != nil && m.Elicitation.Form != nil {
		parts = append(parts, "elicitation of forms")
	}
	if m.Elicitation != nil && m.Elicitation.URL != nil {
		parts = append(parts, "elicitation by URL")
	}
	switch {
	case m.Sampling != nil && m.Sampling.Tools != nil:
		parts = append(parts, "sampling with tools")
	case m.Sampling != nil && m.Sampling.Context != nil:
		parts = append(parts, "sampling with context")
	case m.Sampling != nil:
		parts = append(parts, "sampling")
	}
	if m.Roots != nil {
		parts = append(parts, "roots")
	}
	for id := range m.Extensions {
		parts = append(parts, "the extension "+id)
	}
	return "the client does not support " + strings.Join(parts, ", ")
}

// AnswerError says that an answer does not fit its question.
type AnswerError struct {
	Key string
	Err error
}

func (e *AnswerError) Error() string { return fmt.Sprintf("the answer to %q: %v", e.Key, e.Err) }

// Unwrap returns the reason.
func (e *AnswerError) Unwrap() error { return e.Err }

// ClientError is the error with which a legacy client has answered a question.
type ClientError struct {
	Method string
	Wire   *mcp.Error
}

func (e *ClientError) Error() string {
	return fmt.Sprintf("the client refused %s: %v", e.Method, e.Wire)
}

// DeclinedBecause is [ErrDeclined] with the reason that a client gives, if it gives one
// beside the words of the protocol: that it is out of budget, say.
func DeclinedBecause(reason string) error {
	if reason == "" || strings.EqualFold(reason, mcp.ErrUserRejected.Message) {
		return ErrDeclined
	}
	return fmt.Errorf("%w: %s", ErrDeclined, clip.Text(reason, 500))
}
