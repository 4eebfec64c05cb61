package terminal

import (
	"encoding/json"
	"strings"

	"github.com/troupe-dev/troupe/internal/linediff"
	"github.com/troupe-dev/troupe/internal/sanitize"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// tool asks about a tool that is not what was approved (SECA-38). The whole
// definition is shown, line by line beside the one before; hidden characters are
// spelled out, because a change may be nothing else (SECA-37).
func (q *question) tool() (*mcpclient.Decision, error) {
	now, before := q.ask.Tool, q.ask.Before
	q.header("has changed the tool " + clean(now.Name) + ", which you approved")
	if q.ask.Message != "" {
		q.quote(q.ask.Message)
	}
	if before == nil {
		q.say("How it was before is not known. It now is:")
		q.reveal(definition(now))
	} else {
		q.say("Lines with - were so before, lines with + are so now:")
		a, b := sanitize.Reveal(definition(before)), sanitize.Reveal(definition(now))
		for _, l := range linediff.Lines(strings.Split(a, "\n"), strings.Split(b, "\n")) {
			q.lines(bar+string(l.Mark)+" ", l.Text)
		}
		q.hidden(sanitize.Hidden(definition(now)))
	}
	for {
		key, _, err := q.menu("use the tool as it is now")
		if err != nil {
			return nil, err
		}
		if key == "a" {
			return &mcpclient.Decision{Action: mcp.ActionAccept}, nil
		}
	}
}

// definition is all of a tool's definition, in lines. Those that begin at the left are ours.
func definition(t *mcp.Tool) string {
	var b strings.Builder
	add := func(name, value string) {
		if value != "" {
			b.WriteString(name + ": " + strings.ReplaceAll(value, "\n", "\n    ") + "\n")
		}
	}
	add("name", t.Name)
	add("title", t.Title)
	add("description", t.Description)
	add("arguments", indent(t.InputSchema))
	if len(t.OutputSchema) > 0 {
		add("result", indent(t.OutputSchema))
	}
	for _, part := range []struct {
		name  string
		there bool
		value any
	}{
		{"hints", t.Annotations != nil, t.Annotations}, {"execution", t.Execution != nil, t.Execution},
		{"icons", len(t.Icons) > 0, t.Icons}, {"_meta", len(t.Meta) > 0, t.Meta}, {"further", len(t.Extra) > 0, t.Extra},
	} {
		if !part.there {
			continue
		}
		raw, err := mcp.Marshal(part.value)
		if err != nil {
			raw = json.RawMessage(`"it cannot be shown"`)
		}
		add(part.name, indent(raw))
	}
	return strings.TrimSuffix(b.String(), "\n")
}
