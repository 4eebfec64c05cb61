// question.go: a question to the client, and its texts.

package relay

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

var (
	// ErrCannotAsk reports that the client is not able to answer a question.
	ErrCannotAsk = errors.New("the client cannot be asked that")
	errWithdrawn = errors.New("the question was withdrawn")
)

// Asker is the path of an asker, made of names from the configuration only (SECA-34).
func Asker(path []string, server string) string {
	if server != "" && (len(path) == 0 || path[len(path)-1] != server) {
		path = append(slices.Clone(path), server)
	}
	return strings.Join(path, " › ")
}

// maxShown bounds a quotation in a question, in bytes.
const maxShown = 2000

// Clip cuts a quotation to the length that a question may show.
func Clip(s string) string { return clip.Text(s, maxShown) }

// The choices of a person.
const (
	Allow    = "allow"
	AllowRun = "allow for the rest of the run"
	Deny     = "deny"
)

// question is one question to the client.
type question struct {
	key    string
	person bool // a person answers it, which may take long
	// needs reports whether a client can be asked.
	needs func(c *mcp.ClientCapabilities) bool
	// build makes the question, the same each time: a handler that runs again has to ask as
	// before (MRTR-30).
	build func(key string) *mcpserver.Question

	gone   atomic.Bool // the asker no longer waits
	answer actors.Reply[*mcpserver.Question]
}

func (q *question) withdrawn() bool { return q.gone.Load() }

// round is the questions that were put to the client at once.
type round struct {
	questions []*question
	withdraw  func() // takes the whole round back; nil while that is impossible
}

// allWithdrawn reports whether no asker of the round waits.
func (r *round) allWithdrawn() bool {
	return !slices.ContainsFunc(r.questions, func(q *question) bool { return !q.withdrawn() })
}
