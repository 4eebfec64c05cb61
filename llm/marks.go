package llm

import (
	"hash/maphash"

	"github.com/troupe-dev/troupe/llm/internal/render"
	"github.com/troupe-dev/troupe/mcp"
)

// mark is one thing that a message is made of: a text, or data by its hash.
type mark struct {
	text string // of the same address for a message that was not changed: to compare it costs nothing
	sum  uint64 // the kind of the text, or the hash of the data
}

// The kinds of texts. A kind says which marks follow it, so that no two messages have the same ones.
const (
	markText = iota + 1
	markCall
	markName
	markResult
	markFailed // the result of a call that has failed
	markImage
	markAudio
	markResource
	markType
	markJSON
	markState

	markCount = 8 // shift of the number of blocks in a result
)

// seed is that of the process: no peer can find two arguments with the same hash.
var seed = maphash.MakeSeed()

// marking lists the marks of a message, or compares them with those that are known.
type marking struct {
	known, made []mark
	compares    bool
	differs     bool
}

func (w *marking) text(s string, kind uint64) { w.add(mark{s, kind}) }

func (w *marking) data(b []byte) {
	var sum uint64
	if len(b) > 0 {
		sum = maphash.Bytes(seed, b)
	}
	w.add(mark{"", sum})
}

func (w *marking) add(m mark) {
	switch {
	case !w.compares:
		w.made = append(w.made, m)
	case len(w.known) > 0 && w.known[0].sum == m.sum && w.known[0].text == m.text:
		w.known = w.known[1:]
	default:
		w.differs = true
	}
}

func (w *marking) message(m *Message) {
	w.contents(m.Content)
	for i := range m.State {
		s := &m.State[i]
		w.text(s.Provider, markState)
		w.text(s.Model, markState)
		w.text(s.Server, markState)
		w.text(s.Kind, markState)
		w.text(s.Call, markState)
		w.data(s.Data)
	}
}

func (w *marking) contents(cs mcp.Contents) {
	for _, c := range cs {
		if w.differs {
			return
		}
		w.block(c)
	}
}

func (w *marking) block(c mcp.Content) {
	switch c := c.(type) {
	case *mcp.TextContent:
		w.text(c.Text, markText)
	case *mcp.ToolUseContent:
		w.text(c.ID, markCall)
		w.text(c.Name, markName)
		w.data(c.Input)
	case *mcp.ToolResultContent:
		kind := uint64(markResult)
		if c.IsError {
			kind = markFailed
		}
		w.text(c.ToolUseID, kind|uint64(len(c.Content))<<markCount)
		w.data(c.StructuredContent)
		w.contents(c.Content)
	case *mcp.ImageContent:
		w.text(c.MIMEType, markImage)
		w.data(c.Data)
	case *mcp.AudioContent:
		w.text(c.MIMEType, markAudio)
		w.data(c.Data)
	case *mcp.EmbeddedResource:
		if c.Resource.Text == "" {
			w.text(render.JSON(c), markJSON)
			return
		}
		w.text(c.Resource.Text, markResource)
		w.text(c.Resource.MIMEType, markType)
		w.text(c.Resource.URI, markType)
	default: // links and what is unknown go as their JSON
		w.text(render.JSON(c), markJSON)
	}
}

// kept is a message as it was.
type kept struct {
	role    Role
	first   mcp.Content // by which it is found behind a cut; nil for none
	marks   []mark
	sound   bool   // it may stand in a conversation by itself: arguments are objects
	encoded []byte // nil for not
	behind  *kept  // the message that it was encoded behind; nil for none
}

func keep(m *Message) *kept {
	w := marking{made: make([]mark, 0, 4)}
	w.message(m)
	return &kept{role: m.Role, first: firstOf(m.Content), marks: w.made}
}

// is reports whether the message is m as it is now.
func (k *kept) is(m *Message) bool {
	if k.role != m.Role {
		return false
	}
	w := marking{known: k.marks, compares: true}
	w.message(m)
	return !w.differs && len(w.known) == 0
}

// firstOf returns a block by whose address a message can be found again; nil for none.
func firstOf(cs mcp.Contents) mcp.Content {
	if len(cs) == 0 {
		return nil
	}
	switch cs[0].(type) {
	case *mcp.TextContent, *mcp.ToolUseContent, *mcp.ToolResultContent, *mcp.ImageContent, *mcp.EmbeddedResource, *mcp.ResourceLink:
		return cs[0]
	}
	return nil // of a type that may not be comparable
}
