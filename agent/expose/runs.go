package expose

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

const (
	runsPrefix   = "troupe://runs/"
	runsTemplate = runsPrefix + "{id}"
)

// Bounds of what is kept of runs that have ended.
const (
	maxHistory    = 128     // runs of a front that can be read: as many as a runtime remembers
	maxListed     = 100     // runs that one client has in its list
	maxTranscript = 1 << 20 // bytes of a transcript
)

// history is the runs that the clients of a front have started, the newest ones.
type history struct {
	mu    sync.Mutex
	byID  map[string]*kept
	order []string // the oldest first
}

// kept is one run, and whose it is.
type kept struct {
	run   *agent.Run
	agent string
	owner string // the principal's ID
}

func (h *history) add(k *kept) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byID == nil {
		h.byID = make(map[string]*kept)
	}
	h.byID[k.run.ID()] = k
	if h.order = append(h.order, k.run.ID()); len(h.order) > maxHistory {
		out := mostOf(h.order, func(id string) any { return h.byID[id].owner })
		delete(h.byID, h.order[out])
		h.order = slices.Delete(h.order, out, out+1)
	}
}

// find returns a run if it is the principal's. Runs of nobody are anybody's who knows the
// ID, which can not be guessed.
func (h *history) find(id, owner string) *kept {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := h.byID[id]; k != nil && k.owner == owner {
		return k
	}
	return nil
}

// keepRun makes a run a resource. Who did not say who they are, over stateless HTTP, do
// not see each other's in the list, and read them by their IDs.
func (u *upstream) keepRun(run *agent.Run, name string) {
	u.front.history.add(&kept{run, name, principalID(u.principal)})
	if u.shared() {
		return
	}
	uri := runsPrefix + run.ID()
	def := &mcp.Resource{URI: uri, Name: run.ID(), Title: "A run of " + name, Description: "The transcript of a run.", MIMEType: "text/markdown"}
	err := mcpserver.AddResource(u.server, def, func(ctx context.Context, _ *mcpserver.ResourceRequest) ([]mcp.ResourceContents, error) {
		return u.transcript(ctx, uri)
	})
	if err != nil {
		u.log.Warn("a run can not be listed", "run", run.ID(), "error", err)
		return
	}
	u.mu.Lock()
	u.runs = append(u.runs, uri)
	var out string
	if len(u.runs) > maxListed {
		out, u.runs = u.runs[0], slices.Delete(u.runs, 0, 1)
	}
	u.mu.Unlock()
	if out != "" {
		u.server.RemoveResources(out)
	}
}

// shared reports whether the upstream may be several clients.
func (u *upstream) shared() bool { return u.key != "" && u.principal == nil }

// offerRuns adds the template by which all runs of the client are read.
func (u *upstream) offerRuns() error {
	return mcpserver.AddTemplate(u.server, &mcp.ResourceTemplate{
		URITemplate: runsTemplate, Name: "run", Title: "Run", Description: "The transcript of a run, by its ID.", MIMEType: "text/markdown",
	}, func(ctx context.Context, req *mcpserver.ResourceRequest, _ mcpserver.Vars) ([]mcp.ResourceContents, error) {
		return u.transcript(ctx, req.URI())
	})
}

// runChanged tells those who watch a run that there is more of it.
func (u *upstream) runChanged(id string, ev agent.Event) {
	switch ev.(type) {
	case agent.ModelTurn, agent.ToolStarted, agent.ToolResult, agent.Ask, agent.AskSettled, agent.RunFinished:
		u.server.ResourceUpdated(runsPrefix + id)
	}
}

// transcript reads a run: what has happened so far as text for people, and the run's
// standing as JSON for programs.
func (u *upstream) transcript(ctx context.Context, uri string) ([]mcp.ResourceContents, error) {
	k := u.front.history.find(strings.TrimPrefix(uri, runsPrefix), principalID(u.principal))
	if k == nil {
		return nil, mcpserver.ErrNotFound
	}
	t := transcript{RunID: k.run.ID(), Agent: k.agent, State: "running"}
	if err := t.read(ctx, k.run); err != nil {
		return nil, err
	}
	raw, err := jsonx.Marshal(&t)
	if err != nil {
		return nil, fmt.Errorf("encoding the run: %w", err)
	}
	return []mcp.ResourceContents{
		{URI: uri, MIMEType: "text/markdown", Text: t.text.String()},
		{URI: uri, MIMEType: "application/json", Text: string(raw)},
	}, nil
}

// transcript is what a run has come to so far.
type transcript struct {
	RunID  string        `json:"runId"`
	Agent  string        `json:"agent"`
	State  string        `json:"state"` // running, or the state it has ended in
	Error  string        `json:"error,omitzero"`
	Result *agent.Result `json:"result,omitzero"`

	text strings.Builder
	full bool
	said strings.Builder // of the turn that is not over
}

// read takes what there is, and does not wait for more.
func (t *transcript) read(ctx context.Context, run *agent.Run) error {
	for ev, err := range run.Past(ctx) {
		if err != nil {
			return fmt.Errorf("reading the run: %w", err)
		}
		t.add(ev)
	}
	t.speak()
	return nil
}

func (t *transcript) add(ev agent.Event) {
	who := asker(ev.Head().Path, "")
	switch ev := agent.Unnest(ev).(type) {
	case agent.RunStarted:
		t.write("# %s\n\n**Prompt**\n\n%s\n", who, ev.Prompt)
	case agent.Text:
		if !t.full {
			t.said.WriteString(ev.Delta)
		}
	case agent.TurnRestarted:
		t.said.Reset()
	case agent.ModelTurn:
		t.speak()
	case agent.ToolStarted:
		t.write("\n**%s calls %s**\n\n%s", who, called(ev.Server, ev.Tool), fenced(string(ev.Arguments)))
	case agent.ToolResult:
		t.write("\n**%s has answered**%s\n\n%s", ev.Tool, failed(ev.Result), fenced(textOf(ev.Result)))
	case agent.Ask:
		t.write("\n**%s waits for an answer** (%s)\n", who, ev.Kind)
	case agent.AskSettled:
		t.write("\n**The question is %s**\n", ev.Status)
	case agent.RunFinished:
		if len(ev.Head().Path) <= 1 {
			t.State, t.Error, t.Result = string(ev.State), ev.Error, &ev.Result
			t.write("\n---\n\n%s %s\n", ev.State, ev.Error)
		}
	}
}

// speak writes what the model has said in a turn.
func (t *transcript) speak() {
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

func failed(r *mcp.CallToolResult) string {
	if r != nil && r.IsError {
		return " with an error"
	}
	return ""
}

// textOf is what a result says.
func textOf(r *mcp.CallToolResult) string {
	if r == nil {
		return ""
	}
	var parts []string
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			parts = append(parts, text.Text)
		}
	}
	return clip(strings.Join(parts, "\n"))
}

// fenced quotes text so that nothing in it ends the quotation.
func fenced(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + text + "\n" + fence + "\n"
}
