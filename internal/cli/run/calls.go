package run

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/sanitize"
	"github.com/troupe-dev/troupe/mcp"
)

// runningCall is a call of a tool that has not ended.
type runningCall struct {
	key   string
	label string // who makes it and what it is, with its arguments
	name  string // without arguments
	state string // its progress; empty where it has told none
	begun time.Time
}

// callBegan shows that a call is being made.
func (v *view) callBegan(who string, ev agent.ToolStarted) {
	name := who + sanitize.Line(ev.Tool, 60)
	label := strings.TrimSpace(name + " " + argumentsLine(ev.Arguments, max(20, v.status.Columns()/2-len(name))))
	v.calls = append(v.calls, runningCall{key: ev.Key, name: name, label: label, begun: time.Now()})
	v.show(v.doing())
}

func (v *view) callProgressed(who string, ev agent.ToolProgress) {
	if i := v.callAt(ev.Key); i >= 0 {
		v.calls[i].state = who + sanitize.Line(progressText(ev), 70)
	}
	v.show(v.doing())
}

func (v *view) callAt(key string) int {
	return slices.IndexFunc(v.calls, func(c runningCall) bool { return c.key == key })
}

// callEnded shows a call and its result in one line, where there is a terminal.
func (v *view) callEnded(who string, ev agent.ToolResult) {
	label, took := who+sanitize.Line(ev.Tool, 60), ""
	if i := v.callAt(ev.Key); i >= 0 {
		label = v.calls[i].label
		if d := time.Since(v.calls[i].begun); d >= time.Second {
			took = " (" + env.Elapsed(d) + ")"
		}
		v.calls = slices.Delete(v.calls, i, i+1)
	}
	if v.status != nil {
		v.status.Clear() // it is about this call
		mark := "✓"
		if ev.Unknown || ev.Result == nil || ev.Result.IsError {
			mark = "✗"
		}
		v.note("%s %s%s", mark, env.Shorten(label+": "+resultLine(ev), v.status.Columns()-len(took)-5), took)
	}
	v.show(v.doing())
}

// doing is what the status line says of a run.
func (v *view) doing() string {
	switch n := len(v.calls); n {
	case 0:
		return "waiting for the model"
	default:
		c := v.calls[n-1]
		text := c.name
		if c.state != "" {
			text = c.state
		}
		if n > 1 {
			text += fmt.Sprintf(" and %d more", n-1)
		}
		return text
	}
}

// argumentsLine is what a tool is called with, in at most n characters.
func argumentsLine(raw json.RawMessage, n int) string {
	fields, ok := objectOf(raw)
	if !ok {
		return sanitize.Line(string(raw), n)
	}
	var parts []string
	for _, f := range fields {
		text := string(f.value)
		if s, ok := textOf(f.value); ok {
			text = s
		}
		parts = append(parts, sanitize.Line(f.name, 30)+"="+sanitize.Line(text, 40))
	}
	return sanitize.Line(strings.Join(parts, " "), n)
}

// resultLine is what a call has come to.
func resultLine(ev agent.ToolResult) string {
	switch {
	case ev.Unknown:
		return "it is not known whether it took effect"
	case ev.Result == nil:
		return "no result"
	}
	var all []string
	for _, c := range ev.Result.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			all = append(all, t.Text)
		} else {
			all = append(all, "["+c.ContentType()+"]")
		}
	}
	text := strings.TrimSpace(strings.Join(all, "\n"))
	if text == "" && len(ev.Result.StructuredContent) > 0 {
		text = string(ev.Result.StructuredContent)
	}
	first, rest, _ := strings.Cut(text, "\n")
	if first = sanitize.Line(first, 80); first == "" {
		first = "done"
	}
	if rest != "" {
		first += fmt.Sprintf(" (+%s)", env.Count(strings.Count(rest, "\n")+1, "line"))
	}
	return first
}

// field is a member of a JSON object.
type field struct {
	name  string
	value json.RawMessage
}

// objectOf takes a JSON object apart, in the order in which it is written.
func objectOf(raw json.RawMessage) (fields []field, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, false
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, false
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, false
		}
		fields = append(fields, field{name.(string), value})
	}
	_, err := dec.Token()
	return fields, err == nil
}

// textOf is the string that a JSON value is.
func textOf(raw json.RawMessage) (string, bool) {
	var s string
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte(`"`)) || jsonx.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}
