package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/llm"
)

// modelsPage is the providers of models, and what was spent.
type modelsPage struct {
	Processes []processPart[[]ProviderState]
	Days      int // that are counted
	Periods   []int
	Models    []spentLine
	Agents    []spentLine
	PerDay    []spentLine
	Counted   time.Time // runs that are older were not counted yet; zero if all are
}

// spentLine is what was spent on one model, by one agent, or on one day.
type spentLine struct {
	Name string
	spent
	Share int // of the most, in thousandths
}

// Money is what was paid, empty where no price is known.
func (l *spentLine) Money() string {
	if l.Cost == 0 {
		return ""
	}
	return l.Cost.String()
}

// spentLines is what was spent, by a part of the key.
func spentLines(all map[spentKey]spent, by func(spentKey) string) []spentLine {
	sums := make(map[string]spent)
	for key, s := range all {
		sums[by(key)] = sums[by(key)].plus(s)
	}
	var lines []spentLine
	most := spent{}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		s := sums[name]
		lines = append(lines, spentLine{Name: name, spent: s})
		most.Cost, most.Input = max(most.Cost, s.Cost), max(most.Input, s.Input+s.Output)
	}
	for i := range lines {
		l := &lines[i]
		switch {
		case most.Cost > 0:
			l.Share = int(1000 * float64(l.Cost) / float64(most.Cost))
		case most.Input > 0:
			l.Share = int(1000 * float64(l.Input+l.Output) / float64(most.Input))
		}
	}
	return lines
}

// periods are the days that a visitor may choose among.
var periods = []int{1, 7, 30}

func (c processPages) models(v *visit) error {
	p := modelsPage{Days: 7, Periods: periods}
	switch v.r.URL.Query().Get("days") {
	case "", "7":
	case "1":
		p.Days = 1
	case "30":
		p.Days = 30
	default:
		c.say(v.w, v.r, http.StatusBadRequest, "This is no period: want 1, 7 or 30 days.")
		return nil
	}
	var err error
	if p.Processes, err = each(v.r.Context(), c.Console, func(ctx context.Context, p Process) ([]ProviderState, error) { return p.Models(ctx) }); err != nil {
		return err
	}
	all, counted, err := c.spending.since(v.r.Context(), c.opts.Store, time.Now(), p.Days)
	if err != nil {
		return err
	}
	p.Counted = counted
	p.Models = spentLines(all, func(k spentKey) string { return k.Model })
	p.Agents = spentLines(all, func(k spentKey) string { return cmp.Or(k.Agent, "(no name)") })
	p.PerDay = spentLines(all, func(k spentKey) string { return k.Day })
	slices.Reverse(p.PerDay)
	byMost := func(a, b spentLine) int {
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(b.Input+b.Output, a.Input+a.Output), cmp.Compare(a.Name, b.Name))
	}
	slices.SortFunc(p.Models, byMost)
	slices.SortFunc(p.Agents, byMost)
	return c.show(v, "models", view{Title: "Models", Live: "models", Body: &p})
}

// spent is the sum of requests to models.
type spent struct {
	Turns, Input, Output int
	Cost                 llm.Money
}

func (s spent) plus(o spent) spent {
	return spent{s.Turns + o.Turns, s.Input + o.Input, s.Output + o.Output, s.Cost + o.Cost}
}

// modelsNow is how providers and spending stand, as a text that changes with it.
func (c processPages) modelsNow(ctx context.Context) (string, error) {
	all, err := each(ctx, c.Console, func(ctx context.Context, p Process) ([]ProviderState, error) { return p.Models(ctx) })
	if err != nil {
		return "", err
	}
	text, err := c.spending.now(ctx, c.opts.Store)
	for _, p := range all {
		text += fmt.Sprintf("%d %q %+v", p.PID, p.Error, p.What)
	}
	return text, err
}
