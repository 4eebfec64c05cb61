package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/jobapi"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// jobLine is a job in a list.
type jobLine struct {
	store.Job
	Standing string // its state as a reader sees it
	Due      time.Time
}

func jobLineOf(j *store.Job, now time.Time) jobLine {
	l := jobLine{Job: *j, Standing: jobapi.Standing(j, now)}
	if j.State == store.JobQueued && j.NotBefore.After(now) {
		l.Due = j.NotBefore
	}
	return l
}

// stateCount is how many jobs are in a state.
type stateCount struct {
	State store.JobState
	Jobs  int
}

// jobsPage is the queue.
type jobsPage struct {
	Jobs     []jobLine
	Counts   []stateCount
	State    string
	Agent    string
	Batch    string
	Schedule string
	More     string // where the next page begins; empty at the end
	Operates bool
	New      jobForm
}

// jobForm is a job that is being added: what was filled in, and what is wrong with it.
type jobForm struct {
	Agent, Prompt, Key, Begin, Timeout, Attempts string
	Error                                        string
}

// jobPages are the pages of the queue: jobs, schedules, workers.
type jobPages struct{ *Console }

func (c jobPages) jobs(v *visit) error { return c.showJobs(v, jobForm{}) }

// showJobs shows the queue; form is what was sent and cannot be added.
func (c jobPages) showJobs(v *visit, form jobForm) error {
	get := v.r.URL.Query().Get
	p := jobsPage{State: get("state"), Agent: get("agent"), Batch: get("batch"), Schedule: get("schedule"), Operates: v.role >= Operator, New: form}
	q := store.JobQuery{Agent: p.Agent, Batch: p.Batch, Schedule: p.Schedule, Brief: true, Limit: maxListed, After: get("after")}
	if p.State != "" {
		q.States = []store.JobState{store.JobState(p.State)}
	}
	found, err := c.opts.Store.Jobs(v.r.Context(), q)
	if errors.Is(err, store.ErrInvalid) {
		c.say(v.w, v.r, http.StatusBadRequest, "This is no filter: "+err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	counts, err := c.opts.Store.JobCounts(v.r.Context())
	if err != nil {
		return err
	}
	for _, state := range store.JobStates() {
		p.Counts = append(p.Counts, stateCount{state, counts[state]})
	}
	now := time.Now()
	for i := range found {
		p.Jobs = append(p.Jobs, jobLineOf(&found[i], now))
	}
	if len(found) == maxListed {
		next := url.Values{"state": {p.State}, "agent": {p.Agent}, "batch": {p.Batch}, "schedule": {p.Schedule}, "after": {found[len(found)-1].Cursor()}}
		p.More = next.Encode()
	}
	status := http.StatusOK
	if form.Error != "" {
		status = http.StatusUnprocessableEntity
	}
	c.render(v.w, v.r, status, "jobs", view{Title: "Jobs", Visitor: v.name, Role: v.role, Live: "jobs", Body: &p})
	return nil
}

// addJob queues a job.
func (c jobPages) addJob(v *visit) error {
	get := func(name string) string { return strings.TrimSpace(v.r.PostFormValue(name)) }
	form := jobForm{Agent: get("agent"), Prompt: get("prompt"), Key: get("key"), Begin: get("begin"), Timeout: get("timeout"), Attempts: get("attempts")}
	j, err := form.job(time.Now())
	if err != nil {
		form.Error = err.Error()
		return c.showJobs(v, form)
	}
	j, err = c.opts.Store.AddJob(v.r.Context(), j)
	switch {
	case errors.Is(err, store.ErrRepeated): // it is there already
	case errors.Is(err, store.ErrExists):
		form.Error = "a job with this key is there already, and it is another one: " + j.ID
	case refused(err):
		form.Error = err.Error()
	case err != nil:
		return err
	}
	if form.Error != "" {
		return c.showJobs(v, form)
	}
	c.changed(v, "a job was added", "job", j.ID)
	http.Redirect(v.w, v.r, "/jobs/"+url.PathEscape(j.ID), http.StatusSeeOther)
	return nil
}

// job is the job that the form describes.
func (f *jobForm) job(now time.Time) (store.Job, error) {
	req := jobapi.Request{Agent: f.Agent, Prompt: f.Prompt, Key: f.Key, Timeout: f.Timeout}
	var err error
	if req.NotBefore, err = jobapi.TimeOf(f.Begin, now); err != nil {
		return store.Job{}, fmt.Errorf("begin %w", err)
	}
	if f.Attempts != "" {
		if req.MaxAttempts, err = strconv.Atoi(f.Attempts); err != nil || req.MaxAttempts < 1 || req.MaxAttempts > store.MaxAttempts {
			return store.Job{}, fmt.Errorf("attempts: want a number from 1 to %d", store.MaxAttempts)
		}
	}
	return req.Job(nil)
}

// refused reports whether the store refuses what a visitor has filled in.
func refused(err error) bool {
	return errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrTooLarge)
}

// changed notes who has changed jobs or schedules, and has workers look at them.
func (c jobPages) changed(v *visit, what string, more ...any) {
	c.log.Info(what, append(more, "by", v.name)...)
	if c.opts.Wake != nil {
		c.opts.Wake()
	}
}

// jobPage is one job.
type jobPage struct {
	jobLine
	Input    string
	Answer   string
	Lacks    string          // what the answer does; empty for a whole one
	Attempts []runLine       // the newest first
	Effects  *jobapi.Effects // calls that an attempt from the start may make again; nil where there is none to come
	Repeats  []jobapi.EffectCount
	Since    time.Time // its model's provider is away for which it waits; else zero
	Again    time.Time // a job that waits for what is away goes on; else zero
	Hook     string    // how its webhook stands
	Timeout  string
	Waits    []string // the questions of its run
	Operates bool
	Cancels  bool
	Retries  bool
	Error    string // why what was asked for was not done
}

// maxAttempts bounds the attempts that the page of a job shows: the newest.
const maxAttempts = 20

func (c jobPages) job(v *visit) error {
	j, err := c.opts.Store.Job(v.r.Context(), v.r.PathValue("job"))
	if errors.Is(err, store.ErrInvalid) {
		err = store.ErrNotFound
	}
	if err != nil {
		return err
	}
	return c.showJob(v, &j, "")
}

// showJob shows a job; wrong is why what was asked for was not done.
func (c jobPages) showJob(v *visit, j *store.Job, wrong string) error {
	ctx, s, now := v.r.Context(), c.opts.Store, time.Now()
	p := jobPage{jobLine: jobLineOf(j, now), Input: indent(j.Input), Operates: v.role >= Operator, Error: wrong}
	if j.Timeout > 0 {
		p.Timeout = j.Timeout.String()
	}
	again := *j
	p.Cancels, p.Retries = !j.State.Ended() && !j.Cancelling, again.Retry(now, true) == nil
	var result struct {
		Text       string      `json:"text"`
		Structured jsonx.Value `json:"structured"`
		Incomplete string      `json:"incomplete"`
	}
	if len(j.Result) > 0 && jsonx.Unmarshal(j.Result, &result) == nil {
		p.Answer, p.Lacks = cmp.Or(result.Text, indent(json.RawMessage(result.Structured))), runlog.WhyIncomplete(result.Incomplete)
	}
	for n := j.Attempts; n > max(0, j.Attempts-maxAttempts); n-- {
		run, err := s.Run(ctx, j.RunID(n))
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		p.Attempts = append(p.Attempts, lineOf(&run, now))
	}
	if p.Retries {
		var err error
		if p.Effects, err = jobapi.EffectsOf(ctx, s, j); err != nil {
			return err
		}
		p.Repeats = jobapi.CountEffects(p.Effects.Calls)
	}
	if j.State == store.JobWaiting && strings.HasPrefix(j.Error, "waits for ") && j.NotBefore.After(now) {
		p.Again = j.NotBefore
		var err error
		if p.Since, err = jobapi.AwaySince(ctx, s, j); err != nil {
			return err
		}
	}
	if j.Run != "" && !j.State.Ended() {
		open, err := s.Asks(ctx, store.AskQuery{Status: store.AskPending, Run: j.Run, Limit: maxListed})
		if err != nil {
			return err
		}
		for i := range open {
			p.Waits = append(p.Waits, open[i].ID)
		}
	}
	if err := c.sayHook(ctx, j, &p); err != nil {
		return err
	}
	status := http.StatusOK
	if wrong != "" {
		status = http.StatusConflict
	}
	c.render(v.w, v.r, status, "job", view{Title: "Job", Visitor: v.name, Role: v.role, Live: "job=" + url.QueryEscape(j.ID), Body: &p})
	return nil
}

// sayHook says how the webhook of a job stands.
func (c jobPages) sayHook(ctx context.Context, j *store.Job, p *jobPage) error {
	switch {
	case j.Hook == "":
	case !j.State.Ended():
		p.Hook = "is notified when the job has ended"
	case j.Untold:
		p.Hook = "waits for a worker to notify it"
	default:
		pending, ok, err := jobapi.Pending(ctx, c.opts.Store, j)
		switch {
		case err != nil:
			return err
		case ok && pending.Attempts > 0:
			p.Hook = fmt.Sprintf("did not take it %d times; the next attempt is at %s", pending.Attempts, clock(pending.Due))
		case ok:
			p.Hook = "is being notified"
		default:
			p.Hook = "was notified, or given up: the log of the worker says which"
		}
	}
	return nil
}

// changeJob cancels a job, or has it tried again.
func (c jobPages) changeJob(v *visit) error {
	ctx := v.r.Context()
	j, err := c.opts.Store.Job(ctx, v.r.PathValue("job"))
	if errors.Is(err, store.ErrInvalid) {
		err = store.ErrNotFound
	}
	if err != nil {
		return err
	}
	what := ""
	switch v.r.PostFormValue("do") {
	case "cancel":
		j, err = c.opts.Store.CancelJob(ctx, j.ID)
		what = "a job was cancelled"
	case "retry":
		j, err = c.opts.Store.RetryJob(ctx, j.ID, false)
		what = "a job is to go on"
	case "restart":
		// What it repeats was shown of these attempts.
		if v.r.PostFormValue("attempts") != strconv.Itoa(j.Attempts) {
			return c.showJob(v, &j, "the job was tried again meanwhile: read what it may repeat from the start")
		}
		j, err = c.opts.Store.RetryJob(ctx, j.ID, true)
		what = "a job is to begin anew"
	default:
		c.say(v.w, v.r, http.StatusBadRequest, "Want do=cancel, do=retry or do=restart.")
		return nil
	}
	if errors.Is(err, store.ErrFinished) || errors.Is(err, store.ErrInvalid) {
		return c.showJob(v, &j, "it cannot be done: the job is "+string(j.State))
	}
	if err != nil {
		return err
	}
	c.changed(v, what, "job", j.ID)
	http.Redirect(v.w, v.r, "/jobs/"+url.PathEscape(j.ID), http.StatusSeeOther)
	return nil
}

// jobsStand is a text that changes with the newest jobs and with those that are worked on.
func jobsStand(ctx context.Context, s store.Jobs) (string, error) {
	newest, err := s.Jobs(ctx, store.JobQuery{Brief: true, Limit: 50})
	if err != nil {
		return "", err
	}
	begun, err := s.Jobs(ctx, store.JobQuery{Brief: true, Limit: 50, States: []store.JobState{store.JobRunning, store.JobWaiting}})
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, j := range slices.Concat(newest, begun) {
		text.WriteString(jobStand(&j))
	}
	return text.String(), nil
}

func jobStand(j *store.Job) string {
	return fmt.Sprint(j.ID, j.State, j.Attempts, j.Owner, j.Cancelling, j.Untold, j.Updated.UnixMicro(), " ")
}
