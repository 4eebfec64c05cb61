package console

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
)

// chart is the times of a run: a row for each turn, call, question and wait, those of sub-agents
// among them, and what it has spent by then.
type chart struct {
	Rows   []bar
	Ticks  []tick
	Height int // of the rows
	Whole  int // with the scale
	Took   string
	Left   int // rows that are not shown
	Spent  *expenses
}

// bar is one row; X and Width are of a thousand.
type bar struct {
	Kind, Name, Took string
	X, Width, Y      int
	Open, Late       bool // Late: its label stands before it
	begin, end       time.Time
}

// tick is a place on the time axis.
type tick struct {
	X      int
	Text   string
	Anchor string
}

// expenses are the tokens and the money of a run over its time, as lines of an SVG.
type expenses struct {
	Tokens, Money string // points
	AllTokens     int
	AllMoney      llm.Money
}

// The chart's bounds, in rows and units of the drawing.
const (
	maxRows    = 200
	rowHeight  = 18
	chartWide  = 1000
	spendHeigh = 80
	ticks      = 4
)

// charting makes a chart.
type charting struct {
	all   []*bar
	open  map[string]*bar
	spent []spentAt
}

// spentAt is what was spent at a time.
type spentAt struct {
	at     time.Time
	tokens int
	money  llm.Money
}

// chartOf draws a run, and those that it has started, up to a time.
func chartOf(n *nested, end time.Time) *chart {
	if len(n.entries) == 0 {
		return nil
	}
	g := &charting{open: make(map[string]*bar)}
	g.add(n, "")
	first := n.entries[0].Time
	whole := max(end.Sub(first), time.Millisecond)
	at := func(t time.Time) int { return int(min(max(t.Sub(first), 0), whole) * chartWide / whole) }
	c := &chart{Took: took(whole), Left: max(0, len(g.all)-maxRows), Spent: g.expenses(at)}
	for i, b := range g.all[c.Left:] {
		if b.Open {
			b.end = end
		}
		b.X, b.Y, b.Took = at(b.begin), i*rowHeight, took(b.end.Sub(b.begin))
		b.Width = max(at(b.end)-b.X, 3)
		b.Late = b.X > chartWide*6/10
		c.Rows = append(c.Rows, *b)
	}
	c.Height = len(c.Rows) * rowHeight
	c.Whole = c.Height + rowHeight
	for i := range ticks + 1 {
		c.Ticks = append(c.Ticks, tick{i * chartWide / ticks, took(whole * time.Duration(i) / ticks), []string{"start", "middle", "end"}[min(i, 1)+i/ticks]})
	}
	return c
}

func (g *charting) begin(key, kind, name string, at time.Time) {
	b := &bar{Kind: kind, Name: clip.Text(name, 80), begin: at, Open: true}
	g.open[key], g.all = b, append(g.all, b)
}

func (g *charting) stop(key string, at time.Time) *bar {
	b := g.open[key]
	if b != nil {
		b.end, b.Open = at, false
		delete(g.open, key)
	}
	return b
}

// add draws a run; what it has started comes behind the call that has.
func (g *charting) add(n *nested, indent string) {
	below := make(map[int64]*nested)
	for _, st := range n.Steps {
		if st.Below != nil {
			below[st.Seq] = st.Below
		}
	}
	id := n.Head.ID + " "
	for i := range n.entries {
		e := &n.entries[i]
		switch b := e.Body.(type) {
		case *runlog.ModelIntent:
			g.begin(id+"turn", "turn", fmt.Sprint(indent, "turn ", b.Turn), e.Time)
		case *runlog.ModelResult:
			g.spend(e.Time, b.Usage)
			if t := g.stop(id+"turn", e.Time); t != nil {
				t.Name += fmt.Sprintf(", %d tokens%s", b.Usage.Total(), attempts(b.Attempts))
			}
		case *runlog.ModelFailed:
			g.spend(e.Time, b.Usage)
			if t := g.stop(id+"turn", e.Time); t != nil {
				t.Kind, t.Name = "bad", t.Name+", no answer"+attempts(b.Attempts)
			}
		case *runlog.Spent:
			g.spend(e.Time, b.Usage)
		case *runlog.ToolIntent:
			g.begin(id+e.Key, "call", indent+b.Tool, e.Time)
			if run := below[e.Seq]; run != nil {
				g.add(run, indent+"› ")
			}
		case *runlog.ToolResult:
			g.stop(id+"wait "+e.Key, e.Time)
			if t := g.stop(id+e.Key, e.Time); t != nil && b.Result != nil && b.Result.IsError {
				t.Kind = "bad"
			}
		case *runlog.ToolUnknown:
			g.stop(id+"wait "+e.Key, e.Time)
			if t := g.stop(id+e.Key, e.Time); t != nil {
				t.Kind = "bad"
			}
		case *runlog.ToolWaiting:
			g.stop(id+"wait "+e.Key, e.Time)
			g.begin(id+"wait "+e.Key, "wait", indent+"waits for "+b.For, e.Time)
		case *runlog.ToolDispatched:
			g.stop(id+"wait "+e.Key, e.Time)
		case *runlog.AskOpened:
			g.begin(id+"ask "+e.Key, "ask", indent+"asks: "+strings.TrimSpace(b.Ask.Kind+" "+b.Ask.Tool), e.Time)
		case *runlog.AskSettled:
			g.stop(id+"ask "+e.Key, e.Time)
		case *runlog.RunParked:
			g.begin(id+"parked", "wait", indent+"parked", e.Time)
		case *runlog.RunResumed:
			g.stop(id+"parked", e.Time)
		case *runlog.RunFinished:
			g.finish(id, e.Time)
		}
	}
}

// finish ends what is open of a run.
func (g *charting) finish(id string, at time.Time) {
	for key := range g.open {
		if strings.HasPrefix(key, id) {
			g.stop(key, at)
		}
	}
}

func (g *charting) spend(at time.Time, u runlog.Usage) {
	g.spent = append(g.spent, spentAt{at, u.Total(), u.Cost})
}

// expenses draws what was spent, nil for nothing.
func (g *charting) expenses(at func(time.Time) int) *expenses {
	slices.SortStableFunc(g.spent, func(a, b spentAt) int { return a.at.Compare(b.at) })
	s := new(expenses)
	for _, one := range g.spent {
		s.AllTokens, s.AllMoney = s.AllTokens+one.tokens, s.AllMoney+one.money
	}
	if s.AllTokens == 0 {
		return nil
	}
	var tokens, money strings.Builder
	line := func(b *strings.Builder, x int, part float64, before float64) {
		y := func(part float64) int { return spendHeigh - 2 - int(part*(spendHeigh-6)) }
		fmt.Fprintf(b, "%d,%d %d,%d ", x, y(before), x, y(part))
	}
	var t, tBefore, m, mBefore float64
	for _, one := range g.spent {
		x := at(one.at)
		t += float64(one.tokens) / float64(s.AllTokens)
		line(&tokens, x, t, tBefore)
		if tBefore = t; s.AllMoney > 0 {
			m += float64(one.money) / float64(s.AllMoney)
			line(&money, x, m, mBefore)
			mBefore = m
		}
	}
	floor := fmt.Sprintf("0,%d ", spendHeigh-2)
	s.Tokens = floor + tokens.String() + fmt.Sprintf("%d,4", chartWide)
	if s.AllMoney > 0 {
		s.Money = floor + money.String() + fmt.Sprintf("%d,4", chartWide)
	}
	return s
}
