package loop

import (
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/actors/loop/internal/transcript"
	"github.com/troupe-dev/troupe/actors/loop/internal/window"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
)

// conversation is the part of a run that the next turn shows to the model.
type conversation struct {
	transcript.Transcript
	window   window.Window   // the parts that were left out of it
	tools    *Offer          // never nil
	absent   []runlog.Absent // servers whose tools are missing
	prepared *llm.Request    // the next turn's, once guards have seen it; nil else
}

// newConversation is that of a run which begins with this input. The runs before may have cut it.
func newConversation(input []llm.Message) conversation {
	cv := conversation{Transcript: transcript.New(input), tools: unlisted}
	if len(input) > 0 {
		first, cut := runlog.Uncut(input[0])
		cv.window = window.Restore(first, &cut)
	}
	return cv
}

// unlisted is the offer of a run that has not asked for its tools.
var unlisted = &Offer{list: new(list)}

// offer takes over a list of tools, and returns the event that says so if it is
// another than the last.
func (cv *conversation) offer(m listed) []runlog.Entry {
	now := runlog.ToolsListed{Absent: m.absent, Tools: m.offer.refs, Texts: m.offer.texts}
	same := sameTools(&now, &runlog.ToolsListed{Absent: cv.absent, Tools: cv.tools.refs, Texts: cv.tools.texts})
	cv.tools, cv.absent = m.offer, m.absent
	if same {
		return nil
	}
	body := m.offer.listed()
	if len(m.absent) > 0 {
		body = &runlog.ToolsListed{Absent: m.absent, Tools: m.offer.refs, Texts: m.offer.texts}
	}
	return []runlog.Entry{{Type: runlog.ToolsListedType, Body: body}}
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
		Messages:    cv.Transcript.Messages(),
		Encodings:   cv.Encodings(),
		Tools:       cv.tools.tools,
		MaxTokens:   cfg.MaxTokens,
		Temperature: cfg.Temperature,
		Effort:      cfg.Effort,
		Schema:      cfg.Schema,
	}
}

// cut finds the parts that the next turn has to do without; nil if all fits.
func (cv *conversation) cut(cfg *config, req *llm.Request, turn int) *window.Cut {
	return cv.window.Cut(window.Bounds{Context: cfg.Context, MaxTokens: cfg.MaxTokens, Summary: cfg.Summarise != nil}, cv.Transcript.Messages(), cv.Estimate(req), turn)
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

// listed is a message to itself: the tools are known.
type listed struct {
	offer   *Offer
	absent  []runlog.Absent
	err     error
	lacking []Login // of absent servers
}
