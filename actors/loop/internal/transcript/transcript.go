// Package transcript keeps the conversation of a run in the form that every provider takes back: no message is
// empty, text is UTF-8, no two calls have the same ID, and arguments are objects.
package transcript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// Transcript is a conversation.
type Transcript struct {
	messages []llm.Message
	ids      []string // of all calls so far, in order: no two may be the same
}

// New returns a conversation that goes on with messages. Used are the IDs of calls that it does not show.
func New(messages []llm.Message, used ...string) Transcript {
	for _, m := range messages {
		for _, b := range m.Content {
			if use, ok := b.(*mcp.ToolUseContent); ok {
				used = append(used, use.ID)
			}
		}
	}
	slices.Sort(used)
	return Transcript{messages, slices.Compact(used)}
}

// Messages returns the conversation. Appends to what it returns leave the conversation as it is.
func (t *Transcript) Messages() []llm.Message { return slices.Clip(t.messages) }

// Replace puts another conversation in place of the messages, such as one that was cut. The IDs stay used.
func (t *Transcript) Replace(messages []llm.Message) { t.messages = slices.Clip(messages) }

// Say adds a message. Models do not take an empty one.
func (t *Transcript) Say(m llm.Message) {
	if len(m.Content) == 0 {
		m.Content = mcp.Contents{mcp.Text("(no answer)")}
	}
	t.messages = append(t.messages, m)
}

// InOrder brings what a model said in a turn into order. It returns the IDs of the calls too whose arguments
// were no object: their arguments are an object that quotes them.
func (t *Transcript) InOrder(turn int, content mcp.Contents) (out mcp.Contents, spoilt []string) {
	out = make(mcp.Contents, len(content))
	for i, b := range content {
		switch use := b.(type) {
		case *mcp.TextContent:
			b = mcp.Text(clip.Valid(use.Text))
		case *mcp.ToolUseContent:
			fixed := *use
			fixed.ID, fixed.Name = clip.Valid(use.ID), clip.Valid(use.Name)
			for n := 0; !t.newID(fixed.ID); n++ {
				fixed.ID = fmt.Sprintf("call-%d-%d-%d", turn, i, n)
			}
			if len(fixed.Input) == 0 {
				fixed.Input = json.RawMessage("{}")
			}
			if !IsObject(fixed.Input) {
				fixed.Input = append(jsonx.AppendQuote([]byte(`{"unreadable":`), clip.Short(string(fixed.Input))), '}')
				spoilt = append(spoilt, fixed.ID)
			}
			b = &fixed
		}
		out[i] = b
	}
	return out, spoilt
}

// newID takes the ID of a call into those of the conversation, and reports whether it is new.
func (t *Transcript) newID(id string) bool {
	i, known := slices.BinarySearch(t.ids, id)
	if known || id == "" {
		return false
	}
	t.ids = slices.Insert(t.ids, i, id)
	return true
}

// WithoutCalls takes the calls out of an answer that may have none, and reports whether
// there were any.
func WithoutCalls(resp *llm.Response) bool {
	if len(resp.Calls()) == 0 {
		return false
	}
	resp.Content = slices.DeleteFunc(slices.Clone(resp.Content), func(c mcp.Content) bool {
		_, call := c.(*mcp.ToolUseContent)
		return call
	})
	if resp.Finish == llm.FinishToolCalls {
		resp.Finish = llm.FinishStop
	}
	return true
}

// IsObject reports whether raw is one valid JSON object.
func IsObject(raw json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{")) && jsonx.Valid(raw)
}
