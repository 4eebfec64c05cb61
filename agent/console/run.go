package console

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/question"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// maxSteps bounds the events of a run that a page shows: the last ones.
const maxSteps = 500

// runPage is a run: how it stands, its times, and its steps.
type runPage struct {
	runLine
	Prompt, Answer, Error string
	Model                 string
	Usage                 runlog.Usage
	Cost                  llm.Money
	Turns, Calls          int
	Open                  []question.View // that wait for a person
	Below                 []runLine       // runs that it has started
	Chart                 *chart
	Steps                 []step
	Left                  int // steps before these
}

// step is one event.
type step struct {
	Seq  int64
	Time time.Time
	Type string
	Text string
	Body json.RawMessage
}

func (c *Console) run(v *visit) error {
	ctx, s := v.r.Context(), c.opts.Store
	head, err := s.Run(ctx, v.r.PathValue("run"))
	if err != nil {
		return err
	}
	entries, err := runlog.Entries(ctx, s, head.ID)
	if err != nil {
		return err
	}
	now := time.Now()
	p := runPage{runLine: lineOf(&head, now), Left: max(0, len(entries)-maxSteps)}
	p.say(runlog.StateOf(entries))
	tools := make(map[string]string)
	for i := range entries {
		text := runlog.Describe(&entries[i], tools)
		if i < p.Left {
			continue
		}
		ev, err := entries[i].Encode()
		if err != nil {
			return err
		}
		p.Steps = append(p.Steps, step{entries[i].Seq, entries[i].Time, entries[i].Type, text, ev.Body})
	}
	end := now
	if head.State.Ended() || !head.Leased(now) {
		end = head.Updated
	}
	p.Chart = chartOf(entries, end)
	open, err := s.Asks(ctx, store.AskQuery{Run: head.ID, Status: store.AskPending})
	if err != nil {
		return err
	}
	for i := range open {
		p.Open = append(p.Open, question.Read(&open[i]))
	}
	below, err := s.Runs(ctx, store.Query{Parent: head.ID, Limit: maxListed})
	if err != nil {
		return err
	}
	p.Below = linesOf(below, now)
	live := ""
	if !head.State.Ended() {
		live = "run=" + head.ID
	}
	return c.show(v, "run", view{Title: "Run", Live: live, Body: p})
}

// say takes over what the journal says of the run as a whole.
func (p *runPage) say(s *runlog.State) {
	p.Model, p.Usage, p.Cost, p.Turns, p.Calls = s.Agent.Model, s.Usage, s.Spent.Cost, s.Steps, s.ToolCalls
	if b := s.Started; b != nil && len(b.Input) > 0 {
		p.Prompt = b.Input[len(b.Input)-1].Content.Text()
	}
	if end := s.Finished; end != nil {
		p.Answer, p.Error, p.Cost = end.Text, end.Error, end.Spent.Cost
		if p.Answer == "" {
			p.Answer = indent(end.Structured)
		}
	}
}

// chart is the times of a run: a row for each turn, call and question.
type chart struct {
	Rows   []bar
	Height int
	Took   string
	Left   int // rows that are not shown
}

// bar is one row; X and Width are of a thousand.
type bar struct {
	Kind, Name, Took string
	X, Width, Y      int
	Open             bool
	begin, end       time.Time
}

// The chart's bounds, in rows and units of the drawing.
const (
	maxRows   = 200
	rowHeight = 18
	chartWide = 1000
)

// chartOf draws the events of a run up to a time.
func chartOf(entries []runlog.Entry, end time.Time) *chart {
	if len(entries) == 0 {
		return nil
	}
	var all []*bar
	open := make(map[string]*bar)
	begin := func(key, kind, name string, at time.Time) {
		b := &bar{Kind: kind, Name: name, begin: at, Open: true}
		open[key], all = b, append(all, b)
	}
	stop := func(key string, at time.Time) {
		if b := open[key]; b != nil {
			b.end, b.Open = at, false
			delete(open, key)
		}
	}
	for i := range entries {
		e := &entries[i]
		switch b := e.Body.(type) {
		case *runlog.ModelIntent:
			begin("turn", "turn", "model", e.Time)
		case *runlog.ModelResult:
			if t := open["turn"]; t != nil {
				t.Name = "model, " + string(b.Finish)
			}
			stop("turn", e.Time)
		case *runlog.ModelFailed:
			stop("turn", e.Time)
		case *runlog.ToolIntent:
			begin("call "+e.Key, "call", b.Tool, e.Time)
		case *runlog.ToolResult, *runlog.ToolUnknown:
			stop("call "+e.Key, e.Time)
		case *runlog.AskOpened:
			begin("ask "+e.Key, "ask", "asks: "+strings.TrimSpace(b.Ask.Kind+" "+b.Ask.Tool), e.Time)
		case *runlog.AskSettled:
			stop("ask "+e.Key, e.Time)
		}
	}
	first := entries[0].Time
	whole := max(end.Sub(first), time.Millisecond)
	c := &chart{Took: took(whole), Left: max(0, len(all)-maxRows)}
	for i, b := range all[c.Left:] {
		if b.Open {
			b.end = end
		}
		at := func(t time.Time) int { return int(min(max(t.Sub(first), 0), whole) * chartWide / whole) }
		b.X, b.Y, b.Took = at(b.begin), i*rowHeight, took(b.end.Sub(b.begin))
		b.Width = max(at(b.end)-b.X, 3)
		c.Rows = append(c.Rows, *b)
	}
	c.Height = len(c.Rows) * rowHeight
	return c
}
