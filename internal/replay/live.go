package replay

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/runlog"
)

// likeness finds the recorded calls that those of another model are like.
type likeness struct {
	mu    sync.Mutex // guards calls: tools are functions, and may be called from many goroutines
	calls []intent   // that no call has had the result of
	all   []intent
}

// live is the recording for a replay with another model.
func (r *Recording) live(model string) *Recording {
	out := *r
	out.left = &likeness{calls: slices.Clone(r.intents), all: r.intents}
	out.entries = slices.Clone(r.entries)
	for i, e := range out.entries { // that the model is another one is no difference
		if b, ok := e.Body.(*runlog.RunStarted); ok {
			began := *b
			began.Model, out.entries[i].Body = model, &began
		}
	}
	return &out
}

// next returns the key of the first call with these arguments that is left.
func (l *likeness) next(tool, args string) (key string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.calls, func(in intent) bool { return in.tool == tool && in.args == args })
	if i < 0 {
		return "", false
	}
	key = l.calls[i].key
	l.calls = slices.Delete(l.calls, i, i+1)
	return key, true
}

// define says of a tool what the recording shows: the journal does not have its definition.
func (l *likeness) define(t agent.Tool) agent.Tool {
	if l == nil {
		return t
	}
	t.InputSchema = json.RawMessage(`{"type":"object"}`)
	var seen []string
	for _, in := range l.all {
		if in.tool == t.Name && len(seen) < maxExamples && len(in.args) < maxExample && !slices.Contains(seen, in.args) {
			seen = append(seen, in.args)
		}
	}
	if len(seen) > 0 {
		t.Description = "It takes arguments such as " + strings.Join(seen, " or ")
	}
	return t
}

// Bounds of what a description shows.
const (
	maxExamples = 3
	maxExample  = 1000
)

// answerLike answers a question as the recording answers the one about the same call.
func (r *Recording) answerLike(ctx context.Context, ask agent.Ask) (agent.Decision, error) {
	if ask.Kind == agent.KindTool {
		args := canonical(ask.Arguments)
		for _, in := range r.intents {
			if in.tool == ask.Tool && in.args == args && r.asked[in.key] {
				ask.ID = in.key
			}
		}
	}
	return r.answer(ctx, ask)
}
