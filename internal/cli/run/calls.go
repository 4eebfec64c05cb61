package run

import (
	"cmp"
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

// runningCalls are those under way, the oldest first.
type runningCalls []runningCall

// began takes in a call whose label is half a line long.
func (c *runningCalls) began(who string, ev agent.ToolStarted, columns int) {
	name := who + sanitize.Line(ev.Tool, 60)
	label := strings.TrimSpace(name + " " + argumentsLine(ev.Arguments, max(20, columns/2-len(name))))
	*c = append(*c, runningCall{key: ev.Key, name: name, label: label, begun: time.Now()})
}

func (c runningCalls) progressed(who string, ev agent.ToolProgress) {
	if i := c.at(ev.Key); i >= 0 {
		c[i].state = who + sanitize.Line(progressText(ev), 70)
	}
}

func (c runningCalls) at(key string) int {
	return slices.IndexFunc(c, func(call runningCall) bool { return call.key == key })
}

// ended takes a call out, and returns how it is called and, from a second on, how long it took.
func (c *runningCalls) ended(who string, ev agent.ToolResult) (label, took string) {
	i := c.at(ev.Key)
	if i < 0 {
		return who + sanitize.Line(ev.Tool, 60), ""
	}
	label = (*c)[i].label
	if d := time.Since((*c)[i].begun); d >= time.Second {
		took = " (" + env.Elapsed(d) + ")"
	}
	*c = slices.Delete(*c, i, i+1)
	return label, took
}

// doing is what the status line says of a run.
func (c runningCalls) doing() string {
	n := len(c)
	if n == 0 {
		return "waiting for the model"
	}
	text := cmp.Or(c[n-1].state, c[n-1].name)
	if n > 1 {
		text += fmt.Sprintf(" and %d more", n-1)
	}
	return text
}

// argumentsLine is what a tool is called with, in at most n characters.
func argumentsLine(raw json.RawMessage, n int) string {
	fields, ok := jsonx.Members(raw)
	if !ok {
		return sanitize.Line(string(raw), n)
	}
	var parts []string
	for _, f := range fields {
		text := string(f.Value)
		if s, ok := jsonx.Text(f.Value); ok {
			text = s
		}
		parts = append(parts, sanitize.Line(f.Name, 30)+"="+sanitize.Line(text, 40))
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

func progressText(ev agent.ToolProgress) string {
	text := ev.Tool
	switch {
	case ev.Total > 0:
		text += fmt.Sprintf(" %d%%", int(100*ev.Done/ev.Total))
	case ev.Done > 0:
		text += fmt.Sprintf(" %g", ev.Done)
	}
	if ev.Message != "" {
		text += " " + ev.Message
	}
	return text
}
