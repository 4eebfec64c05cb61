package console

import (
	"errors"
	"net/http"
	"slices"
	"time"

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
	case r.Leased(now):
		l.Took = took(now.Sub(r.Created))
	case r.State == store.Waiting:
		l.State = "parked"
	default:
		l.State = "interrupted"
	}
	return l
}

// runsPage is the list of runs.
type runsPage struct {
	Runs   []runLine
	States []store.RunState
	State  string
	Agent  string
	ID     string
	More   string // where the next page begins; empty at the end
}

func (c *Console) runs(v *visit) error {
	get := v.r.URL.Query().Get
	p := runsPage{States: []store.RunState{store.Running, store.Waiting, store.Finished, store.Failed, store.Cancelled, store.Limited},
		State: get("state"), Agent: get("agent"), ID: get("id")}
	q := store.Query{Limit: maxListed, After: get("after"), Agent: p.Agent, Beginning: p.ID}
	if p.State != "" {
		q.States = []store.RunState{store.RunState(p.State)}
	}
	found, err := c.opts.Store.Runs(v.r.Context(), q)
	if errors.Is(err, store.ErrInvalid) {
		c.say(v.w, v.r, http.StatusBadRequest, "This is no filter: "+err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	now := time.Now()
	for i := range found {
		p.Runs = append(p.Runs, lineOf(&found[i], now))
	}
	if len(found) == maxListed {
		p.More = found[len(found)-1].Cursor()
	}
	live := "runs"
	if q.After != "" || !slices.Contains([]string{"", string(store.Running), string(store.Waiting)}, p.State) {
		live = "" // what it lists changes no more
	}
	return c.show(v, "runs", view{Title: "Runs", Live: live, Body: p})
}
