package agenttools

import (
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/expose/internal/relay"
	"github.com/troupe-dev/troupe/mcp"
)

// maxTranscript bounds the text of a transcript, in bytes.
const maxTranscript = 1 << 20

// transcript is a run so far: its fields for programs, its text for people.
type transcript struct {
	RunID  string        `json:"runId"`
	Agent  string        `json:"agent"`
	State  string        `json:"state"` // running, or the state in which it ended
	Error  string        `json:"error,omitzero"`
	Result *agent.Result `json:"result,omitzero"`

	text strings.Builder
	full bool
	said strings.Builder // by the model, in the turn under way
}

func (t *transcript) add(ev agent.Event) {
	agentPath := relay.Asker(ev.Head().Path, "")
	switch ev := agent.Unnest(ev).(type) {
	case agent.RunStarted:
		t.write("# %s\n\n**Prompt**\n\n%s\n", agentPath, ev.Prompt)
	case agent.Text:
		if !t.full {
			t.said.WriteString(ev.Delta)
		}
	case agent.TurnRestarted:
		t.said.Reset()
	case agent.ModelTurn:
		t.endTurn()
	case agent.ToolStarted:
		t.write("\n**%s calls %s**\n\n%s", agentPath, toolPath(ev.Server, ev.Tool), fenced(string(ev.Arguments)))
	case agent.ToolResult:
		failed, text := "", ""
		if ev.Result != nil {
			text = relay.Clip(textOf(ev.Result))
			if ev.Result.IsError {
				failed = " with an error"
			}
		}
		t.write("\n**%s has answered**%s\n\n%s", ev.Tool, failed, fenced(text))
	case agent.Ask:
		t.write("\n**%s waits for an answer** (%s)\n", agentPath, ev.Kind)
	case agent.AskSettled:
		t.write("\n**The question is %s**\n", ev.Status)
	case agent.RunFinished:
		if len(ev.Head().Path) <= 1 {
			t.State, t.Error, t.Result = string(ev.State), ev.Error, &ev.Result
			t.write("\n---\n\n%s %s\n", ev.State, ev.Error)
		}
	}
}

// endTurn writes the model's words of a turn.
func (t *transcript) endTurn() {
	if t.said.Len() > 0 {
		t.write("\n%s\n", t.said.String())
		t.said.Reset()
	}
}

func (t *transcript) write(format string, args ...any) {
	if t.full {
		return
	}
	fmt.Fprintf(&t.text, format, args...)
	if t.full = t.text.Len() > maxTranscript; t.full {
		t.text.WriteString("\n…\n")
	}
}

// textOf joins the texts of a result.
func textOf(r *mcp.CallToolResult) string {
	var parts []string
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			parts = append(parts, text.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// fenced quotes text so that nothing in it ends the quotation.
func fenced(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + text + "\n" + fence + "\n"
}
