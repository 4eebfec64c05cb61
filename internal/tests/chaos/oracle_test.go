//go:build linux

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// oracle holds a world in which all has ended against the invariants of docs/durability.md; the numbers are the same.
type oracle struct {
	w       *world
	lines   []line
	changes []change
	told    map[string]told
	jobs    map[string]string
	cancel  map[string]time.Time
	retry   map[string]int
	broken  []string
}

func (o *oracle) fail(n int, format string, args ...any) {
	o.broken = append(o.broken, fmt.Sprintf("invariant %d: ", n)+fmt.Sprintf(format, args...))
}

// judge returns what is broken; nothing is under way any more.
func (w *world) judge(ctx context.Context) ([]string, error) {
	lines, err := w.ledger.lines()
	if err != nil {
		return nil, err
	}
	changes, err := w.changes(ctx)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	o := &oracle{w: w, lines: lines, changes: changes, told: maps.Clone(w.told), jobs: maps.Clone(w.jobs), cancel: maps.Clone(w.cancel), retry: maps.Clone(w.retry), broken: slices.Clone(w.errs)}
	w.mu.Unlock()
	o.effects()
	o.claims()
	o.schedules()
	for _, id := range slices.Sorted(maps.Keys(o.jobs)) {
		if err := o.job(ctx, id, o.jobs[id]); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(o.questions(ctx), o.withdrawn(ctx)); err != nil {
		return nil, err
	}
	w.model.mu.Lock()
	for _, b := range w.model.bad {
		o.fail(5, "%s", b)
	}
	w.model.mu.Unlock()
	w.fleet.mu.Lock()
	o.broken = append(o.broken, w.fleet.odd...)
	w.fleet.mu.Unlock()
	return o.broken, nil
}

// again counts how often a person has said that a call is to be made again.
func (o *oracle) again(op string) (n int) {
	for _, t := range o.told {
		if way, _ := runlog.Outcome(t.decision); t.ask.Kind == runlog.AskOutcome && t.op == op && way == runlog.OutcomeAgain {
			n++
		}
	}
	return n
}

// effects: 1, no effect twice but for "again"; 2, none of a call that was denied; 3, a key is one call's, and a call has one key.
func (o *oracle) effects() {
	effects := make(map[string]int)
	keyOf, callOf := make(map[string]string), make(map[string]string)
	for _, l := range o.lines {
		if l.Key == "" {
			o.fail(3, "call %s came without a key", l.Op)
		}
		if before, ok := callOf[l.Key]; ok && before != l.Tool+" "+l.Args {
			o.fail(3, "key %s is that of %s and of %s %s", l.Key, before, l.Tool, l.Args)
		}
		if before, ok := keyOf[l.Op]; ok && before != l.Key {
			o.fail(3, "call %s has the keys %s and %s", l.Op, before, l.Key)
		}
		callOf[l.Key], keyOf[l.Op] = l.Tool+" "+l.Args, l.Key
		if l.Phase == "effect" {
			effects[l.Op]++
			if l.Tool != "look" && effects[l.Op] > 1+o.again(l.Op) {
				o.fail(1, "call %s had its effect %d times; a person said \"again\" %d times", l.Op, effects[l.Op], o.again(l.Op))
			}
		}
	}
	for op := range effects {
		if job, _, _ := strings.Cut(op, "/"); o.jobs[job] == "approval" && o.w.denies(op) {
			o.fail(2, "call %s had its effect, and a person has said no", op)
		}
	}
	for op := range effects {
		if job, _, _ := strings.Cut(op, "/"); o.jobs[job] == "" {
			o.fail(1, "call %s is no job's", op)
		}
	}
}

// claims: 11, a row is claimed at most once a second, but for a person's leave to try again.
func (o *oracle) claims() {
	last := make(map[string]float64)
	quick := make(map[string]int)
	for _, c := range o.changes {
		switch {
		case c.what == "state" && c.state == string(store.JobQueued):
			delete(last, c.id)
		case c.what == "claim":
			if before, ok := last[c.id]; ok && c.at-before < 0.95 && o.cancel[c.id].IsZero() && !strings.HasPrefix(c.own, "agent-") { // a person need not wait
				if quick[c.id]++; quick[c.id] <= 3 {
					o.fail(11, "job %s was claimed by %s %.3f s after the claim before", c.id, c.own, c.at-before)
				}
			}
			last[c.id] = c.at
		}
	}
	for id, n := range quick {
		if n > 3 {
			o.fail(11, "and so was job %s %d times in all", id, n)
		}
	}
}

// schedules: 12, each time of a schedule adds one job.
func (o *oracle) schedules() {
	fired := make(map[int64]string)
	for _, c := range o.changes {
		if c.what != "fired" {
			continue
		}
		if before, ok := fired[c.epoch]; ok {
			o.fail(12, "the schedule %s fired for one time with the jobs %s and %s", c.id, before, c.state)
		}
		fired[c.epoch] = c.state
	}
}

// ends are the states in which a kind of job may end.
func (o *oracle) ends(id, kind string) []store.JobState {
	switch kind {
	case "cancelled":
		return []store.JobState{store.JobCancelled, store.JobDone}
	case "bounded": // turns that were lost are paid for
		return []store.JobState{store.JobDone, store.JobLimited}
	case "limit": // more is allowed as often as it is asked for
		return []store.JobState{store.JobDone}
	}
	return []store.JobState{store.JobDone}
}

// job looks at one job, and at all runs of it: 4 to 10.
func (o *oracle) job(ctx context.Context, id, kind string) error {
	j, err := o.w.s.Job(ctx, id)
	if err != nil {
		return err
	}
	if !slices.Contains(o.ends(id, kind), j.State) {
		o.fail(6, "job %s (%s) is %s: %s", id, kind, j.State, j.Error)
	}
	if j.Owner != "" {
		o.fail(10, "job %s is %s, and %s holds its lease", id, j.State, j.Owner)
	}
	ended := 0
	for _, c := range o.changes {
		if c.what == "state" && c.id == id && store.JobState(c.state).Ended() {
			ended++
		}
	}
	for _, l := range o.lines {
		if at := j.Updated.Add(500 * time.Millisecond); l.job() == id && l.Phase == "begun" && l.At.After(at) {
			o.fail(1, "call %s was made %.1f s after its job had ended", l.Op, l.At.Sub(j.Updated).Seconds())
		}
	}
	if ended != 1+o.retry[id] {
		o.fail(4, "job %s has ended %d times, and was retried %d times", id, ended, o.retry[id])
	}
	names := kinds[kind].calls
	if kind == "approval" {
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return o.w.denies(id + "/" + name) })
	}
	if j.State == store.JobDone {
		want := answer(id, names)
		if text := resultText(j.Result); text != want {
			o.fail(4, "job %s answers %q, want %q", id, text, want)
		}
		for _, name := range names {
			if !slices.ContainsFunc(o.lines, func(l line) bool { return l.Op == id+"/"+name && l.Phase == "effect" }) {
				o.fail(4, "job %s is done, and its call %s had no effect", id, name)
			}
		}
	}
	o.w.model.mu.Lock()
	served := o.w.model.served[id]
	o.w.model.mu.Unlock()
	raised := 0
	for n := 1; n <= j.Attempts; n++ {
		runs, entries, err := tree(ctx, o.w.s, j.RunID(n))
		if err != nil {
			if strings.Contains(err.Error(), "not found") && n < j.Attempts {
				continue // it was claimed, and its worker lost before the run was begun
			}
			o.fail(7, "job %s: run %s: %v", id, j.RunID(n), err)
			continue
		}
		for _, r := range runs {
			raised += o.run(id, r, entries[r.ID])
		}
		if n == j.Attempts {
			o.end(j, runs[0], entries[runs[0].ID])
		}
	}
	if max := kinds[kind].limit; max > 0 && served > max+raised {
		o.fail(9, "job %s: the model was asked %d times; its limit is %d, and a person allowed %d more", id, served, max, raised)
	}
	return nil
}

// resultText is the answer in a job's result.
func resultText(raw json.RawMessage) string {
	var r struct{ Text string }
	_ = json.Unmarshal(raw, &r)
	return strings.TrimSpace(r.Text)
}

// end: 6, a job ends as its run has, and only by that or by a cancel.
func (o *oracle) end(j store.Job, root store.Run, entries []runlog.Entry) {
	want := map[store.RunState]store.JobState{store.Finished: store.JobDone, store.Failed: store.JobFailed, store.Cancelled: store.JobCancelled, store.Limited: store.JobLimited}[root.State]
	if want != j.State {
		o.fail(6, "job %s is %s, and its run %s is %s", j.ID, j.State, root.ID, root.State)
	}
	if j.State == store.JobCancelled && o.cancel[j.ID].IsZero() {
		o.fail(6, "job %s is cancelled, which was not asked for", j.ID)
	}
}

// run looks at one run: 7, it ends once, and last; 8, a question is open only while its run is; 9 counts what was allowed.
func (o *oracle) run(job string, r store.Run, entries []runlog.Entry) (raised int) {
	finished, open := 0, make(map[string]bool)
	results := make(map[string]int)
	settled := make(map[string]int)
	for i, e := range entries {
		if e.Seq != int64(i+1) {
			o.fail(7, "run %s: event %d has the number %d", r.ID, i+1, e.Seq)
		}
		switch b := e.Body.(type) {
		case *runlog.RunFinished:
			if finished++; i != len(entries)-1 {
				o.fail(7, "run %s goes on behind run.finished", r.ID)
			}
		case *runlog.ToolResult:
			if results[e.Key]++; results[e.Key] > 1 {
				o.fail(5, "run %s: call %s has %d results", r.ID, e.Key, results[e.Key])
			}
		case *runlog.AskOpened:
			open[b.Ask.ID] = true
		case *runlog.AskSettled:
			if settled[e.Key]++; settled[e.Key] > 1 {
				o.fail(8, "run %s: question %s is settled %d times", r.ID, e.Key, settled[e.Key])
			}
			delete(open, e.Key)
		case *runlog.LimitRaised:
			raised += number(b.By)
		}
	}
	if finished != 1 || !r.State.Ended() {
		o.fail(7, "run %s of job %s is %s, and has ended %d times", r.ID, job, r.State, finished)
	}
	if r.Owner != "" && !r.State.Ended() {
		o.fail(10, "run %s is %s, and %s holds its lease", r.ID, r.State, r.Owner)
	}
	for ask := range open {
		o.fail(8, "run %s has ended, and its question %s has no ask.settled", r.ID, ask)
	}
	return raised
}

var digits = regexp.MustCompile(`\d+`)

// number is that of an amount, such as "2 model calls".
func number(amount string) (n int) {
	_, _ = fmt.Sscan(digits.FindString(amount), &n)
	return n
}

// withdrawn: 8, no question about a call or a limit is taken back while a person may still answer it.
func (o *oracle) withdrawn(ctx context.Context) error {
	asks, err := o.w.s.Asks(ctx, store.AskQuery{Status: store.AskCancelled})
	for _, a := range asks {
		job, _, _ := strings.Cut(a.Run, ".")
		if slices.Contains([]string{runlog.AskKind, runlog.AskLimit, runlog.AskOutcome}, a.Kind) && o.cancel[job].IsZero() {
			o.fail(8, "question %s (%s) of run %s was withdrawn by %s: %s", a.ID, a.Kind, a.Run, a.By, a.Answer)
		}
	}
	return err
}

// questions: 8, none is open, and each answer that was acknowledged counts once, as it was given.
func (o *oracle) questions(ctx context.Context) error {
	asks, err := o.w.s.Asks(ctx, store.AskQuery{Status: store.AskPending})
	if err != nil {
		return err
	}
	for _, a := range asks {
		o.fail(8, "question %s of run %s is open, and all jobs have ended", a.ID, a.Run)
	}
	changed := make(map[string]int)
	for _, c := range o.changes {
		if c.what == "settled" {
			changed[c.id]++
		}
	}
	for _, id := range slices.Sorted(maps.Keys(o.told)) {
		t := o.told[id]
		a, err := o.w.s.Ask(ctx, id)
		if err != nil {
			o.fail(8, "question %s, which was answered: %v", id, err)
			continue
		}
		if a.Status != t.decision.Status || a.By != t.decision.By || changed[id] != 1 {
			o.fail(8, "question %s (%s) was answered %s by %s, and is %s by %s, after %d changes", id, a.Kind, t.decision.Status, t.decision.By, a.Status, a.By, changed[id])
		}
		o.answered(ctx, a, t)
	}
	return nil
}

// answered looks for an answer in the journal, and for what has to follow.
func (o *oracle) answered(ctx context.Context, a store.Ask, t told) {
	if a.Run == "" {
		return
	}
	entries, err := runlog.Entries(ctx, o.w.s, a.Run)
	if err != nil {
		o.fail(8, "run %s: %v", a.Run, err)
		return
	}
	count := 0
	for _, e := range entries {
		if b, ok := e.Body.(*runlog.AskSettled); ok && e.Key == a.ID {
			if count++; b.Status != t.decision.Status {
				o.fail(8, "question %s (%s) was answered %s, and its run has recorded %s", a.ID, a.Kind, t.decision.Status, b.Status)
			}
		}
	}
	if count != 1 {
		o.fail(8, "question %s (%s), which was answered, is settled %d times in its run %s", a.ID, a.Kind, count, a.Run)
	}
	if a.Kind == runlog.AskForm {
		for _, l := range o.lines {
			if l.Phase == "answered" && l.Op == t.op && l.Word != t.word && !o.saidFor(l) {
				o.fail(8, "the form of %s was answered with %q, and its server got %q", t.op, t.word, l.Word)
			}
		}
	}
	if a.Kind == runlog.AskOutcome {
		if way, _ := runlog.Outcome(t.decision); way == runlog.OutcomeAgain && !o.cancelled(t.op) && !slices.ContainsFunc(o.lines, func(l line) bool { return l.Op == t.op && l.Phase == "effect" }) {
			o.fail(8, "call %s was to be made again, and had no effect", t.op)
		}
	}
}

func (o *oracle) cancelled(op string) bool {
	job, _, _ := strings.Cut(op, "/")
	return !o.cancel[job].IsZero()
}

// saidFor reports whether a server got the answer of some form: a call that is made again asks again.
func (o *oracle) saidFor(l line) bool {
	for _, t := range o.told {
		if t.ask.Kind == runlog.AskForm && t.word == l.Word {
			return true
		}
	}
	return false
}
