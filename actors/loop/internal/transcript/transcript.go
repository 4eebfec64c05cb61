// Package transcript keeps the conversation of a run in the form that every provider takes back: no message is
// empty, text is UTF-8, no two calls have the same ID, and arguments are objects.
package transcript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// Transcript is a conversation.
type Transcript struct {
	messages []llm.Message
	ids      []string // of all calls so far, in order: no two may be the same
	long     *long    // nil while it is short
}

// aFew is the room for messages, and for calls, of most conversations.
const aFew = 4

// long is what is kept of a long conversation, so that a turn costs what is new in it.
type long struct {
	tokens int // of the messages, estimated
	kept   llm.Encodings
}

// worthKeeping is from how many tokens on a conversation is long: some 16 KB. What is kept of a short
// one costs more than it saves.
const worthKeeping = 4 << 10

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
	return Transcript{messages: messages, ids: slices.Compact(used)}
}

// Messages returns the conversation. Appends to what it returns leave the conversation as it is.
func (t *Transcript) Messages() []llm.Message { return slices.Clip(t.messages) }

// Replace puts another conversation in place of the messages, such as one that was cut. The IDs stay used.
func (t *Transcript) Replace(messages []llm.Message) {
	t.messages = slices.Clip(messages)
	if t.long != nil {
		t.long.tokens = tokens(messages)
	}
}

// Encodings returns where clients keep the messages as they have encoded them; nil for a short
// conversation.
func (t *Transcript) Encodings() *llm.Encodings {
	if t.long == nil {
		n := tokens(t.messages)
		if n < worthKeeping {
			return nil
		}
		t.long = &long{tokens: n}
	}
	return &t.long.kept
}

// LetGo drops what is kept: the next request is encoded whole.
func (t *Transcript) LetGo() { t.long = nil }

// Estimate is [llm.EstimateTokens], which looks at the messages of a request only if they are few, or others
// than those of the conversation.
func (t *Transcript) Estimate(req *llm.Request) int {
	n := len(req.Messages)
	if t.long == nil || n == 0 || n != len(t.messages) || &req.Messages[0] != &t.messages[0] {
		return llm.EstimateTokens(req)
	}
	rest := *req
	rest.Messages = nil
	return llm.EstimateTokens(&rest) + t.long.tokens
}

// tokens is about how many tokens messages have.
func tokens(messages []llm.Message) int {
	return llm.EstimateTokens(&llm.Request{Messages: messages}) - llm.EstimateTokens(&llm.Request{})
}

// Say adds a message. Models do not take an empty one.
func (t *Transcript) Say(m llm.Message) {
	if len(m.Content) == 0 {
		m.Content = mcp.Contents{mcp.Text("(no answer)")}
	}
	if len(t.messages) == cap(t.messages) {
		t.messages = slices.Grow(t.messages, aFew)
	}
	t.messages = append(t.messages, m)
	if t.long != nil {
		t.long.tokens += tokens(t.messages[len(t.messages)-1:])
	}
}

// InOrder brings what a model said in a turn into order. It returns the IDs of the calls too whose arguments
// were no object: their arguments are an object that quotes them. The content is not changed, and what is in
// order is not copied, unless it is shared with code that may change it later.
func (t *Transcript) InOrder(turn int, content mcp.Contents, shared bool) (out mcp.Contents, spoilt []string) {
	out = content
	if shared {
		out = slices.Clone(content)
	}
	put := func(i int, b mcp.Content) {
		if &out[0] == &content[0] {
			out = slices.Clone(content)
		}
		out[i] = b
	}
	for i, b := range content {
		switch b := b.(type) {
		case *mcp.TextContent:
			if shared || !utf8.ValidString(b.Text) {
				put(i, mcp.Text(clip.Valid(b.Text)))
			}
		case *mcp.ToolUseContent:
			use, object := t.use(turn, i, b)
			if !object {
				spoilt = append(spoilt, use.ID)
			}
			if shared || !object || use.ID != b.ID || use.Name != b.Name || len(b.Input) == 0 {
				fixed := use
				put(i, &fixed)
			}
		}
	}
	return out, spoilt
}

// Follow returns what a provider has attached to calls under the IDs that these have once they are in order.
func Follow(state []llm.ProviderState, said, ordered mcp.Contents) []llm.ProviderState {
	if len(state) == 0 {
		return nil
	}
	state = slices.Clone(state)
	for i := range state {
		for j, b := range said {
			use, ok := b.(*mcp.ToolUseContent)
			if ok && use.ID == state[i].Call && state[i].Call != "" {
				state[i].Call = ordered[j].(*mcp.ToolUseContent).ID
				break
			}
		}
	}
	return state
}

// use brings a call into order, and reports whether its arguments were an object, or none.
func (t *Transcript) use(turn, i int, b *mcp.ToolUseContent) (use mcp.ToolUseContent, object bool) {
	use = *b
	use.ID, use.Name = clip.Valid(use.ID), clip.Valid(use.Name)
	for n := 0; !t.newID(use.ID); n++ {
		use.ID = fmt.Sprintf("call-%d-%d-%d", turn, i, n)
	}
	if len(use.Input) == 0 {
		use.Input = json.RawMessage("{}")
	}
	if object = IsObject(use.Input); !object {
		use.Input = unreadable(use.Input)
	}
	return use, object
}

// unreadable is what stands for arguments that are no object.
func unreadable(raw []byte) json.RawMessage {
	why := "it is not a JSON object"
	var v jsonx.Value
	if err := jsonx.Unmarshal(raw, &v); err != nil {
		why = clip.Short(strings.TrimPrefix(err.Error(), "jsontext: "))
	}
	out := jsonx.AppendQuote([]byte(`{"unreadable":`), clip.Short(string(raw)))
	return append(jsonx.AppendQuote(append(out, `,"error":`...), why), '}')
}

// Unreadable returns what is wrong with arguments that are no object, as they stand in a conversation; empty for others.
func Unreadable(args json.RawMessage) string {
	var a struct {
		Error string `json:"error"`
	}
	_ = jsonx.Unmarshal(args, &a) // those of an earlier version say nothing of it
	return a.Error
}

// newID takes the ID of a call into those of the conversation, and reports whether it is new.
func (t *Transcript) newID(id string) bool {
	i, known := slices.BinarySearch(t.ids, id)
	if known || id == "" {
		return false
	}
	if len(t.ids) == cap(t.ids) {
		t.ids = slices.Grow(t.ids, aFew)
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
