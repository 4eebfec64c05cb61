package console

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// searchTime bounds one search in the events of runs. The next page goes on where it has ended.
const searchTime = time.Second

// finding is a page of runs that were found.
type finding struct {
	runs   []store.Run
	more   string // where the next page begins; empty at the end
	cut    bool   // by searchTime
	looked int
}

// find returns the runs that a query selects and a filter fits, the newest first.
func (c runPages) find(ctx context.Context, q store.Query, f *filter) (out finding, err error) {
	end := time.Now().Add(searchTime)
	for {
		page, err := c.opts.Store.Runs(ctx, q)
		if err != nil {
			return out, err
		}
		for i := range page {
			fits, err := f.fits(ctx, c.opts.Store, &page[i])
			if err != nil {
				return out, err
			}
			if out.looked++; fits {
				out.runs = append(out.runs, page[i])
			}
			late := f.looksInside() && time.Now().After(end)
			if len(out.runs) == maxListed || late {
				if last := i == len(page)-1 && len(page) < q.Limit; !last {
					out.more, out.cut = page[i].Cursor(), len(out.runs) < maxListed
				}
				return out, nil
			}
		}
		if len(page) < q.Limit {
			return out, nil
		}
		q.After = page[len(page)-1].Cursor()
	}
}

// fits reports whether the events of a run have all that the filter looks for.
func (f *filter) fits(ctx context.Context, j store.Journal, r *store.Run) (bool, error) {
	if !f.looksInside() {
		return true, nil
	}
	s := search{filter: *f, needle: needleOf(f.Text)}
	if f.Text != "" && contains(r.Title, f.Text) {
		s.Text = ""
	}
	for ev, err := range store.Replay(ctx, j, r.ID, 0) {
		if err != nil {
			return false, err
		}
		if s.wants(&ev) {
			e, err := runlog.Decode(ev)
			if err != nil {
				continue // what cannot be read has nothing that was looked for
			}
			s.look(&e)
		}
		if !s.looksInside() {
			return true, nil
		}
	}
	return false, nil
}

// search is what of a filter was not found yet in a run.
type search struct {
	filter
	needle []byte // Text as JSON has it
	spent  llm.Money
}

// needleOf is how a text stands in JSON, in small letters.
func needleOf(text string) []byte {
	if text == "" {
		return nil
	}
	quoted := jsonx.AppendQuote(nil, text)
	return bytes.ToLower(quoted[1 : len(quoted)-1])
}

// wants reports whether an event may have what is looked for, before it is decoded.
func (s *search) wants(ev *store.Event) bool {
	if s.Text != "" && bytes.Contains(bytes.ToLower(ev.Body), s.needle) {
		return true
	}
	switch ev.Type {
	case store.RunStarted, runlog.AgentChangedType:
		return s.Model != ""
	case store.ModelResult, runlog.ModelFailedType, runlog.SpentType:
		return s.Model != "" || s.cost > 0
	case store.RunFinished:
		return s.cost > 0
	case store.ToolIntent, store.ToolResult, store.ToolUnknown:
		return s.Tool+s.Server != ""
	}
	return false
}

// look takes from what is looked for what an event has.
func (s *search) look(e *runlog.Entry) {
	if s.Text != "" && containsAny(textsOf(e), s.Text) {
		s.Text = ""
	}
	model, tool, server := "", "", ""
	switch b := e.Body.(type) {
	case *runlog.RunStarted:
		model = b.Model
	case *runlog.AgentChanged:
		model = b.Model
	case *runlog.ModelResult:
		model, s.spent = b.Model, s.spent+b.Usage.Cost
	case *runlog.ModelFailed:
		s.spent += b.Usage.Cost
	case *runlog.Spent:
		s.spent += b.Usage.Cost
	case *runlog.RunFinished:
		s.spent = max(s.spent, b.Spent.Cost) // with what it has started
	case *runlog.ToolIntent:
		tool, server = b.Tool, b.Server
	case *runlog.ToolResult:
		tool, server = b.Tool, b.Server
	case *runlog.ToolUnknown:
		tool, server = b.Tool, b.Server
	}
	if s.Model != "" && contains(model, s.Model) {
		s.Model = ""
	}
	// A tool of a server: both of one call.
	if s.Tool+s.Server != "" && tool != "" && (s.Tool == "" || contains(tool, s.Tool)) && (s.Server == "" || contains(server, s.Server)) {
		s.Tool, s.Server = "", ""
	}
	if s.cost > 0 && s.spent >= s.cost {
		s.cost = 0
	}
}

// contains reports whether a text has a part, in letters of any case.
func contains(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

func containsAny(texts []string, part string) bool {
	for _, text := range texts {
		if contains(text, part) {
			return true
		}
	}
	return false
}

// textsOf returns what people, models and servers have written in an event.
func textsOf(e *runlog.Entry) []string {
	switch b := e.Body.(type) {
	case *runlog.RunStarted:
		var out []string
		for _, m := range b.Input {
			out = append(out, m.Content.Text())
		}
		return append(out, b.System)
	case *runlog.ModelResult:
		out := []string{b.Message.Content.Text(), b.Thinking}
		for _, c := range b.Message.Content {
			if use, ok := c.(*mcp.ToolUseContent); ok {
				out = append(out, use.Name, string(use.Input))
			}
		}
		return out
	case *runlog.ToolResult:
		if b.Result != nil {
			return []string{b.Tool, b.Result.Content.Text(), string(b.Result.StructuredContent)}
		}
	case *runlog.AskOpened:
		return []string{b.Ask.Tool, string(b.Ask.Payload)}
	case *runlog.HistoryCut:
		return []string{b.Summary}
	case *runlog.RunFinished:
		return []string{b.Text, b.Error, string(b.Structured)}
	}
	return []string{runlog.Describe(e, make(map[string]string))}
}
