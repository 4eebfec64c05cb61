package loop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/actors/loop/internal/window"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// conversation is the part of a run that the next turn shows to the model.
type conversation struct {
	history  []llm.Message
	ids      []string        // of all calls so far, in order: no two may be the same
	window   window.Window   // the parts that were left out of the history
	tools    *Offer          // never nil
	absent   []runlog.Absent // servers whose tools are missing
	prepared *llm.Request    // the next turn's, once guards have seen it; nil else
}

func newConversation(input []llm.Message) conversation {
	return conversation{history: input, ids: idsOf(input), tools: unlisted}
}

// unlisted is the offer of a run that has not asked for its tools.
var unlisted = new(Offer)

// idsOf are the ids of the calls in what a run goes on with.
func idsOf(input []llm.Message) []string {
	var ids []string
	for _, m := range input {
		for _, b := range m.Content {
			if use, ok := b.(*mcp.ToolUseContent); ok {
				ids = append(ids, use.ID)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// newID takes the id of a call into those of the run, and reports whether it is new.
func (cv *conversation) newID(id string) bool {
	i, known := slices.BinarySearch(cv.ids, id)
	if known || id == "" {
		return false
	}
	cv.ids = slices.Insert(cv.ids, i, id)
	return true
}

// say adds a message to the history. Models do not take an empty one.
func (cv *conversation) say(m llm.Message) {
	if len(m.Content) == 0 {
		m.Content = mcp.Contents{mcp.Text("(no answer)")}
	}
	cv.history = append(cv.history, m)
}

// offer takes over a list of tools, and returns the event that says so if it is
// another than the last.
func (cv *conversation) offer(m listed) []runlog.Entry {
	now := runlog.ToolsListed{Absent: m.absent, Tools: m.offer.refs, Texts: m.offer.texts}
	same := sameTools(&now, &runlog.ToolsListed{Absent: cv.absent, Tools: cv.tools.refs, Texts: cv.tools.texts})
	cv.tools, cv.absent = m.offer, m.absent
	if same {
		return nil
	}
	return []runlog.Entry{{Type: runlog.ToolsListedType, Body: &now}}
}

// request is the next turn's. The model must not see what is appended to the
// history later.
func (cv *conversation) request(cfg *config) *llm.Request {
	if req := cv.prepared; req != nil {
		cv.prepared = nil
		return req
	}
	system := cfg.System + cv.tools.note
	if len(cv.absent) > 0 {
		system += absentNote(cv.absent)
	}
	return &llm.Request{
		System:      system,
		Messages:    cv.history[:len(cv.history):len(cv.history)],
		Tools:       cv.tools.tools,
		MaxTokens:   cfg.MaxTokens,
		Temperature: cfg.Temperature,
		Schema:      cfg.Schema,
	}
}

// inOrder puts what a model said in the form that every provider takes back: text
// that is UTF-8, ids that no earlier call had, and arguments that are an object. Of
// other arguments the model is told.
func (cv *conversation) inOrder(t *turn, content mcp.Contents) mcp.Contents {
	out := make(mcp.Contents, len(content))
	for i, b := range content {
		switch use := b.(type) {
		case *mcp.TextContent:
			b = mcp.Text(clip.Valid(use.Text))
		case *mcp.ToolUseContent:
			fixed := *use
			fixed.ID, fixed.Name = clip.Valid(use.ID), clip.Valid(use.Name)
			for n := 0; !cv.newID(fixed.ID); n++ {
				fixed.ID = fmt.Sprintf("call-%d-%d-%d", t.n, i, n)
			}
			if len(fixed.Input) == 0 {
				fixed.Input = json.RawMessage("{}")
			}
			if !isObject(fixed.Input) {
				fixed.Input = unreadable(fixed.Input)
				t.spoilt = append(t.spoilt, fixed.ID)
			}
			b = &fixed
		}
		out[i] = b
	}
	return out
}

// unreadable wraps arguments that are no JSON object in one.
func unreadable(raw []byte) json.RawMessage {
	return append(jsonx.AppendQuote([]byte(`{"unreadable":`), clip.Short(string(raw))), '}')
}

// cut finds the parts that the next turn has to do without; nil if all fits.
func (cv *conversation) cut(cfg *config, req *llm.Request, turn int) *window.Cut {
	return cv.window.Cut(window.Bounds{Context: cfg.Context, MaxTokens: cfg.MaxTokens, Summary: cfg.Summarise != nil}, cv.history, req, turn)
}

// shorten takes over a cut, and returns the event of it.
func (cv *conversation) shorten(cut *window.Cut) runlog.Entry {
	cv.history = slices.Clip(cut.Messages())
	return cv.window.Take(cut)
}

// absentNote names the servers that are missing, for the model.
func absentNote(absent []runlog.Absent) string {
	var b strings.Builder
	b.WriteString("\n\nThese tool servers are not available at the moment:")
	for _, a := range absent {
		fmt.Fprintf(&b, " %s;", clip.Text(a.Server, 100))
	}
	b.WriteString(" do without their tools, and say so where it matters.")
	return b.String()
}

func sameTools(l, o *runlog.ToolsListed) bool {
	return l.Tools != nil && o.Tools != nil && slices.Equal(l.Tools, o.Tools) && slices.Equal(l.Absent, o.Absent) && slices.Equal(l.Texts, o.Texts)
}

// withoutCalls takes the calls out of an answer that may have none, and reports whether
// there were any.
func withoutCalls(resp *llm.Response) bool {
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

// listed is a message to itself: the tools are known.
type listed struct {
	offer  *Offer
	absent []runlog.Absent
	err    error

	lacking []Login // of absent servers
}

func isObject(raw json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{")) && jsonx.Valid(raw)
}
