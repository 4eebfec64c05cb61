package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/owner"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// runLine is a run in a list.
type runLine struct {
	store.Run
	State string // the run's, parked or interrupted
	Took  string
}

// lineOf says how a run stands.
func lineOf(r *store.Run, now time.Time) runLine {
	l := runLine{Run: *r, State: string(r.State)}
	switch {
	case r.State.Ended():
		l.Took = took(r.Updated.Sub(r.Created))
	case owner.Holds(*r, now):
		l.Took = took(now.Sub(r.Created))
	case r.State == store.Waiting:
		l.State = "parked"
	default:
		l.State = "interrupted"
	}
	return l
}

// linesOf says how runs stand.
func linesOf(runs []store.Run, now time.Time) (lines []runLine) {
	for i := range runs {
		lines = append(lines, lineOf(&runs[i], now))
	}
	return lines
}

// runsPage is the list of runs.
type runsPage struct {
	filter
	Runs   []runLine
	States []string
	More   string // the address of the next page; empty at the end
	Cut    bool   // the search has reached its time before the page was full
	Looked int    // runs that it has looked into
}

// stateFree selects runs that have not ended and that no process works on.
const stateFree = "parked or interrupted"

var states = []string{string(store.Running), string(store.Waiting), stateFree, string(store.Finished), string(store.Failed), string(store.Cancelled), string(store.Limited)}

// runPages are the pages of runs, and what operators do there.
type runPages struct{ *Console }

func (c runPages) runs(v *visit) error {
	sent := v.r.URL.Query()
	f, q, err := readFilter(sent)
	if err == nil {
		err = q.Check()
	}
	p := runsPage{filter: f, States: states}
	var found finding
	if err == nil {
		found, err = c.find(v.r.Context(), q, &f)
	}
	if _, badCursor := errors.AsType[*store.InvalidError](err); badCursor || errors.Is(err, errFilter) {
		c.say(v.w, v.r, http.StatusBadRequest, "This is no filter: "+err.Error()+".")
		return nil
	}
	if err != nil {
		return err
	}
	p.Runs, p.Cut, p.Looked = linesOf(found.runs, time.Now()), found.cut, found.looked
	if found.more != "" {
		sent.Set("after", found.more)
		for name, values := range sent {
			if strings.Join(values, "") == "" {
				sent.Del(name)
			}
		}
		p.More = "/runs?" + sent.Encode()
	}
	live := "runs"
	if q.After != "" || f.looksInside() || !q.Until.IsZero() || !slices.Contains([]string{"", string(store.Running), string(store.Waiting), stateFree}, f.State) {
		live = "" // what it lists changes no more, or takes too long to look for again and again
	}
	return c.show(v, "runs", view{Title: "Runs", Live: live, Body: p})
}

// filter is what a visitor looks for, as it was sent.
type filter struct {
	State, Agent, ID          string
	Since, Until              string
	Model, Tool, Server, Text string // parts of names, and of texts
	Cost                      string

	cost llm.Money
}

// Given reports whether there is a filter besides the state.
func (f filter) Given() bool {
	return f.Agent+f.ID+f.Since+f.Until != "" || f.looksInside()
}

// looksInside reports whether the events of runs decide.
func (f filter) looksInside() bool { return f.Model+f.Tool+f.Server+f.Text != "" || f.cost > 0 }

var errFilter = errors.New("it cannot be read")

// readFilter reads the filter of a request, and the part of it that a store can select by.
func readFilter(sent url.Values) (f filter, q store.Query, err error) {
	get := func(name string) string { return strings.TrimSpace(sent.Get(name)) }
	f = filter{State: get("state"), Agent: get("agent"), ID: get("id"), Since: get("since"), Until: get("until"),
		Model: get("model"), Tool: get("tool"), Server: get("server"), Text: get("text"), Cost: get("cost")}
	q = store.Query{Limit: maxListed, After: sent.Get("after"), Agent: f.Agent, Beginning: f.ID}
	switch f.State {
	case "":
	case stateFree:
		q.Free = true
	default:
		q.States = []store.RunState{store.RunState(f.State)}
	}
	if f.Cost != "" {
		if f.cost, err = llm.ParseMoney(f.Cost); err != nil {
			return f, q, fmt.Errorf("the cost: %w: %w", errFilter, err)
		}
	}
	if q.Since, err = readTime(f.Since); err == nil {
		q.Until, err = readTime(f.Until)
	}
	return f, q, err
}

// readTime reads a time of this machine's zone, as a browser's field sends it, or a day.
func readTime(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("the time: %w: %.40q is none such as 2026-01-31T15:04", errFilter, text)
}
