package console

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/internal/jobapi"
	"github.com/troupe-dev/troupe/store"
)

// nextShown is how many of the times of a schedule are shown.
const nextShown = 3

// schedulesPage is what adds jobs again and again.
type schedulesPage struct {
	Schedules []scheduleLine
	New       scheduleForm
	Operates  bool
}

// scheduleLine is a schedule with its next times.
type scheduleLine struct {
	store.Schedule
	Times []time.Time
}

// scheduleForm is a schedule that is being added, and what is wrong with it.
type scheduleForm struct {
	Name, Cron, Zone, Agent, Prompt string
	Error                           string
}

func (c jobPages) schedules(v *visit) error { return c.showSchedules(v, scheduleForm{}) }

func (c jobPages) showSchedules(v *visit, form scheduleForm) error {
	all, err := c.opts.Store.Schedules(v.r.Context())
	if err != nil {
		return err
	}
	p := schedulesPage{New: form, Operates: v.role >= Operator}
	for _, s := range all {
		line := scheduleLine{Schedule: s}
		for t := s.Next; !s.Paused && !t.IsZero() && len(line.Times) < nextShown; {
			line.Times = append(line.Times, t)
			if t, err = worker.Next(s.Cron, s.Zone, t); err != nil { // it does not fire again
				break
			}
		}
		p.Schedules = append(p.Schedules, line)
	}
	status := http.StatusOK
	if form.Error != "" {
		status = http.StatusUnprocessableEntity
	}
	c.render(v.w, v.r, status, "schedules", view{Title: "Schedules", Visitor: v.name, Role: v.role, Live: "schedules", Body: &p})
	return nil
}

// changeSchedule adds, pauses, resumes or removes a schedule.
func (c jobPages) changeSchedule(v *visit) error {
	ctx, s := v.r.Context(), c.opts.Store
	get := func(name string) string { return strings.TrimSpace(v.r.PostFormValue(name)) }
	all, err := s.Schedules(ctx)
	if err != nil {
		return err
	}
	name := get("name")
	at := slices.IndexFunc(all, func(s store.Schedule) bool { return s.Name == name })
	do := get("do")
	switch {
	case do == "add":
		form := scheduleForm{Name: name, Cron: get("cron"), Zone: get("zone"), Agent: get("agent"), Prompt: get("prompt")}
		wrong := worker.Check(form.Cron, form.Zone)
		switch {
		case at >= 0:
			wrong = fmt.Errorf("a schedule %q is there already: remove it first", name)
		case form.Prompt == "":
			wrong = errors.New("the schedule has no prompt")
		case wrong == nil:
			_, err = worker.PutSchedule(ctx, s, store.Schedule{Name: name, Cron: form.Cron, Zone: form.Zone, Agent: cmp.Or(form.Agent, jobapi.MainAgent), Prompt: form.Prompt})
			if refused(err) {
				wrong = err
			}
		}
		if wrong != nil {
			form.Error = wrong.Error()
			return c.showSchedules(v, form)
		}
	case do != "pause" && do != "resume" && do != "remove":
		c.say(v.w, v.r, http.StatusBadRequest, "Want do=add, pause, resume or remove.")
		return nil
	case at < 0:
		return store.ErrNotFound
	case do == "remove":
		err = s.DeleteSchedule(ctx, name)
	default:
		all[at].Paused = do == "pause"
		_, err = worker.PutSchedule(ctx, s, all[at])
	}
	if err != nil {
		return err
	}
	c.changed(v, "a schedule was changed", "schedule", name, "change", do)
	http.Redirect(v.w, v.r, "/schedules", http.StatusSeeOther)
	return nil
}

// workerLine is a worker as it says itself, or as its leases in the store tell.
type workerLine struct {
	worker.Status
	Here  bool      // it has answered just now
	Lease time.Time // the newest of its jobs; zero for none
	Held  int       // jobs whose leases it has
	Lost  bool      // all its leases have expired
}

func (c jobPages) workers(v *visit) error {
	ctx, now := v.r.Context(), time.Now()
	by := make(map[string]*workerLine)
	if c.opts.Workers != nil {
		for _, s := range c.opts.Workers(ctx) {
			by[s.Owner] = &workerLine{Status: s, Here: true}
		}
	}
	held, err := c.opts.Store.Jobs(ctx, store.JobQuery{Brief: true, States: []store.JobState{store.JobRunning, store.JobWaiting}})
	if err != nil {
		return err
	}
	for _, j := range held {
		if j.Owner == "" {
			continue
		}
		w := by[j.Owner]
		if w == nil {
			w = &workerLine{Status: worker.Status{Owner: j.Owner}}
			by[j.Owner] = w
		}
		w.Held++
		if j.Lease.After(w.Lease) {
			w.Lease = j.Lease
		}
		w.Lost = !w.Here && !w.Lease.After(now)
	}
	all := slices.SortedFunc(maps.Values(by), func(a, b *workerLine) int { return strings.Compare(a.Owner, b.Owner) })
	return c.show(v, "workers", view{Title: "Workers", Live: "jobs", Body: all})
}
