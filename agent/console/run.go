package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/owner"
	"github.com/troupe-dev/troupe/internal/question"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// The bounds of a run's page: what does not fit is in the export.
const (
	maxSteps  = 300      // the last ones; with ?all ten times as many
	maxNested = 20       // runs of sub-agents that are shown with it
	maxDepth  = 4        // of them, one below the other
	maxShown  = 64 << 10 // bytes of a text
)

// runPage is a run: how it stands, its times, and its steps.
type runPage struct {
	runLine
	Prompt, Answer, Error string
	Lacks                 string // what the answer does; empty for a whole one
	Model                 string
	Usage                 runlog.Usage
	Cost                  llm.Money
	Turns, Calls          int
	From                  string          // the run that it is a fork of; empty for none
	Open                  []question.View // that wait for a person
	Outage                *runlog.Outage  // of its model's provider, for which the run was left; nil for none
	Wake                  time.Time       // it is tried again; zero where that is not known
	Chart                 *chart
	*nested
	Left     int    // steps before these
	Running  bool   // a process works on it
	Streams  bool   // what the model says is seen while it says it
	Saying   string // by now
	Operates bool   // the visitor may change runs
}

// nested is the steps of a run and of those that it has started.
type nested struct {
	Head    runLine
	Steps   []*step
	entries []runlog.Entry
}

func (c runPages) run(v *visit) error {
	ctx, s := v.r.Context(), c.opts.Store
	head, err := s.Run(ctx, v.r.PathValue("run"))
	if err != nil {
		return err
	}
	room := maxNested
	n, err := c.nest(ctx, &head, 0, &room)
	if err != nil {
		return err
	}
	now := time.Now()
	p := runPage{runLine: n.Head, nested: n, Running: !head.State.Ended() && owner.Holds(head, now), Operates: v.role >= Operator}
	p.say(runlog.StateOf(n.entries))
	end := now
	if !p.Running {
		end = head.Updated
	}
	p.Chart = chartOf(n, end)
	most := maxSteps
	if v.r.URL.Query().Has("all") {
		most *= 10
	}
	p.Left = max(0, len(n.Steps)-most)
	n.Steps = n.Steps[p.Left:]
	open, err := s.Asks(ctx, store.AskQuery{Run: head.ID, Status: store.AskPending})
	if err != nil {
		return err
	}
	for i := range open {
		p.Open = append(p.Open, question.Read(&open[i]))
	}
	if p.Running {
		_, p.Saying, p.Streams = c.saying(ctx, head.ID)
	}
	live := ""
	if !head.State.Ended() {
		live = url.Values{"run": n.under(nil)}.Encode()
	}
	return c.show(v, "run", view{Title: "Run", Live: live, Body: p})
}

// nest reads a run and those that its calls have started, as far as there is room.
func (c runPages) nest(ctx context.Context, head *store.Run, depth int, room *int) (*nested, error) {
	n := &nested{Head: lineOf(head, time.Now())}
	steps := newSteps(depth == 0)
	for ev, err := range store.Replay(ctx, c.opts.Store, head.ID, 0) {
		if err != nil {
			return nil, err
		}
		e, err := runlog.Decode(ev)
		if err != nil {
			return nil, err
		}
		n.entries = append(n.entries, e)
		steps.add(&e, runlog.Public(ev).Body)
	}
	n.Steps = steps.all
	for _, st := range n.Steps {
		if st.Run == "" || depth+1 >= maxDepth || *room == 0 {
			continue
		}
		below, err := c.opts.Store.Run(ctx, st.Run)
		if errors.Is(err, store.ErrNotFound) { // it was not begun, or is removed
			continue
		}
		if err != nil {
			return nil, err
		}
		*room--
		if st.Below, err = c.nest(ctx, &below, depth+1, room); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// under returns the ID of the run and those of the runs below it that have not ended.
func (n *nested) under(ids []string) []string {
	if !n.Head.Run.State.Ended() {
		ids = append(ids, n.Head.ID)
	}
	for _, st := range n.Steps {
		if st.Below != nil {
			ids = st.Below.under(ids)
		}
	}
	return ids
}

// maxSaying bounds what is shown of a turn under way: the end of it.
const maxSaying = 8 << 10

// saying returns what the model has said so far in the turn under way; seen is false where that is
// known when the turn has ended.
func (c runPages) saying(ctx context.Context, run string) (turn int, text string, seen bool) {
	if c.opts.Runs == nil {
		return 0, "", false
	}
	turn, text, err := c.opts.Runs.Saying(ctx, run)
	if len(text) > maxSaying {
		text = clip.Valid("…" + text[len(text)-maxSaying:])
	}
	return turn, text, err == nil
}

// say takes over what the journal says of the run as a whole.
func (p *runPage) say(s *runlog.State) {
	p.Model, p.Usage, p.Cost, p.Turns, p.Calls = s.Agent.Model, s.Usage, s.Spent.Cost, s.Steps, s.ToolCalls
	if s.Parked != nil && s.Parked.Class != "" {
		p.Outage, p.Wake = s.Outage, s.Parked.Wake
	}
	if s.Forked != nil {
		p.From = s.Forked.From
	}
	if b := s.Started; b != nil && len(b.Input) > 0 {
		p.Prompt = b.Input[len(b.Input)-1].Content.Text()
	}
	if end := s.Finished; end != nil {
		p.Answer, p.Lacks, p.Error, p.Cost = end.Text, runlog.WhyIncomplete(end.Incomplete), end.Error, end.Spent.Cost
		if p.Answer == "" {
			p.Answer = indent(end.Structured)
		}
	}
}

// requestPage is what a model was asked in a turn.
type requestPage struct {
	ID       string
	Turn     int
	Model    string
	System   string
	Tools    []runlog.ToolRef
	Texts    []runlog.ServerText
	Messages []message
}

// message is a message of a conversation.
type message struct {
	Role  string
	Parts []part
}

// request shows what the model was asked in a turn.
func (c runPages) request(v *visit) error {
	turn, err := strconv.Atoi(v.r.PathValue("turn"))
	if err != nil {
		return store.ErrNotFound
	}
	id := v.r.PathValue("run")
	entries, err := runlog.Entries(v.r.Context(), c.opts.Store, id)
	if err != nil {
		return err
	}
	var s runlog.State
	for i := range entries {
		if b, ok := entries[i].Body.(*runlog.ModelIntent); ok && b.Turn == turn {
			p := requestPage{ID: id, Turn: turn, Model: s.Agent.Model, System: s.Agent.System, Tools: s.Listed.Tools, Texts: s.Listed.Texts}
			for _, m := range s.Messages() {
				p.Messages = append(p.Messages, messageOf(&m))
			}
			return c.show(v, "request", view{Title: "Request", Body: p})
		}
		s.Add(&entries[i])
	}
	c.say(v.w, v.r, http.StatusNotFound, "The run has no turn of this number.")
	return nil
}

func messageOf(m *llm.Message) message {
	out := message{Role: string(m.Role)}
	for _, content := range m.Content {
		switch b := content.(type) {
		case *mcp.ToolUseContent:
			out.Parts = append(out.Parts, part{"Calls " + b.Name, indent(b.Input)})
		case *mcp.ToolResultContent:
			out.Parts = append(out.Parts, resultParts(b.Content, b.StructuredContent)...)
		default:
			out.Parts = append(out.Parts, contentPart("", content))
		}
	}
	return out
}
