//go:build linux

package chaos

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/store"
)

// settings of a schedule; CHAOS_… in the environment set others.
type settings struct {
	jobs, workers int
	lasts         time.Duration // the time with faults
	program       string        // the command
}

func setting(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// TestChaos: faults come as the seed has it, and then no more. All jobs end, and no invariant is broken.
func TestChaos(t *testing.T) {
	t.Parallel()
	rounds := setting("CHAOS_ROUNDS", 1)
	first := seedOfCommit(t)
	if text := os.Getenv("CHAOS_SEED"); text != "" {
		var err error
		if first, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("CHAOS_SEED=%q: want a number: %v", text, err)
		}
	}
	o := settings{jobs: setting("CHAOS_JOBS", 40), workers: setting("CHAOS_WORKERS", 3), lasts: 20 * time.Second}
	if text := os.Getenv("CHAOS_DURATION"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		o.lasts = d
	}
	o.program = peers.RequireTroupe(t)
	all := reached{pairs: make(map[[2]string]int), mu: new(sync.Mutex)}
	for n := range uint64(rounds) {
		seed := first + n
		t.Run(fmt.Sprintf("SEED=%d", seed), func(t *testing.T) {
			got := round(t, seed, o)
			for pair, n := range got.pairs {
				all.pairs[pair] += n
			}
		})
	}
	t.Logf("%d rounds of %d jobs on %d workers; the first seed was %d. A seed repeats the schedule of faults, and not when processes come to do what: a broken invariant may need several tries.\n%v",
		rounds, o.jobs, o.workers, first, all)
}

// seedOfCommit is the seed of the slice that make check runs: each commit tries another one.
func seedOfCommit(t *testing.T) uint64 {
	commit, err := exec.CommandContext(t.Context(), "git", "rev-parse", "HEAD").Output()
	if err != nil {
		commit = []byte("no commit") // an archive of the sources
	}
	h := fnv.New32a()
	_, _ = h.Write(commit)
	return uint64(h.Sum32())
}

// fault is what happens; do returns once its time is over.
type fault struct {
	name string
	do   func(l *lane) error
}

// lane is a part of a schedule, beside which others go on: processes die while the model is away.
type lane struct {
	*world
	ctx    context.Context
	r      *rand.Rand // of the schedule alone
	faults []fault
	names  []string // of the workers
	got    reached
}

// between returns a time of the schedule.
func (l *lane) between(from, to time.Duration) time.Duration {
	return from + time.Duration(l.r.Int64N(int64(to-from)))
}

func (l *lane) victim() string { return l.names[l.r.IntN(len(l.names))] }

// pastLease is a time in which a lease surely ends.
func (l *lane) pastLease() time.Duration { return l.between(lease+lease/4, 2*lease) }

// run has fault after fault, until the time is over.
func (l *lane) run(until time.Time) {
	for time.Now().Before(until) && l.ctx.Err() == nil {
		pause, f := l.between(50*time.Millisecond, 700*time.Millisecond), l.faults[l.r.IntN(len(l.faults))]
		sleep(l.ctx, pause)
		began := time.Now()
		if err := f.do(l); err != nil {
			l.wrong("the fault %q: %v", f.name, err)
			return
		}
		l.t.Logf("%5.1f s before the faults end: %s, %.1f s", until.Sub(began).Seconds(), f.name, time.Since(began).Seconds())
	}
}

// ofProcesses are the faults of workers, and ofOthers those of what is around them. Each draws what it needs from the
// schedule before it waits, so that a seed is one schedule.
var ofProcesses = []fault{
	{"kill", func(l *lane) error {
		name, aim, pause := l.victim(), l.aim(), l.between(0, time.Second)
		return l.killed("kill", name, aim, pause)
	}},
	{"kill", func(l *lane) error {
		name, aim, pause := l.victim(), l.aim(), l.between(0, 2*lease)
		return l.killed("kill", name, aim, pause)
	}},
	{"kill five times", func(l *lane) error {
		name, pauses := l.victim(), make([]time.Duration, 5)
		for i := range pauses {
			pauses[i] = l.between(50*time.Millisecond, 900*time.Millisecond)
		}
		for _, pause := range pauses {
			if err := l.killed("kill five times", name, "", 0); err != nil {
				return err
			}
			sleep(l.ctx, pause)
		}
		return nil
	}},
	{"kill all", func(l *lane) error {
		down := l.between(time.Second, 2*lease)
		for _, name := range l.names {
			if err := l.fleet.kill(l.fleet.get(name)); err != nil {
				return err
			}
		}
		l.got.note(l.ctx, l.world, "kill all", "")
		sleep(l.ctx, down) // answers come while none is up
		for _, name := range l.names {
			if _, err := l.fleet.start(name, ""); err != nil {
				return err
			}
		}
		return nil
	}},
	{"stop past the lease", func(l *lane) error {
		return l.stopped("stop past the lease", l.victim(), l.aim(), l.pastLease())
	}},
	{"stop", func(l *lane) error {
		return l.stopped("stop", l.victim(), l.aim(), l.between(lease/4, lease))
	}},
	{"SIGTERM", func(l *lane) error {
		name, aim, pause := l.victim(), l.aim(), l.between(0, time.Second)
		l.await(name, aim)
		l.got.note(l.ctx, l.world, "SIGTERM", name)
		if err := l.fleet.term(l.fleet.get(name)); err != nil {
			l.wrong("%v", err)
		}
		sleep(l.ctx, pause)
		_, err := l.fleet.start(name, "")
		return err
	}},
	{"disk full", func(l *lane) error {
		name, aim, d := l.victim(), l.aim(), l.pastLease()
		l.await(name, aim)
		lift, err := full(l.fleet.get(name))
		if err != nil {
			return err
		}
		l.got.note(l.ctx, l.world, "disk full", name)
		sleep(l.ctx, d)
		return lift()
	}},
}

var ofOthers = []fault{
	{"model away", func(l *lane) error {
		mode, d := modes[l.r.IntN(len(modes))], l.between(lease, 3*lease)
		if err := l.model.fail(mode); err != nil {
			return err
		}
		l.got.note(l.ctx, l.world, "model: "+mode, "")
		sleep(l.ctx, d)
		return l.model.fail("")
	}},
	{"store locked", func(l *lane) error {
		d := l.pastLease()
		over, err := l.lock(l.ctx)
		if err != nil {
			return err
		}
		l.got.note(l.ctx, l.world, "store locked", "")
		sleep(l.ctx, d)
		return over()
	}},
	{"person goes on", func(l *lane) error { // with a job's run, while workers live
		n := l.r.IntN(1000)
		all, err := l.s.Jobs(l.ctx, store.JobQuery{States: []store.JobState{store.JobWaiting}})
		if err != nil {
			return nil // the store is locked
		}
		open := slices.DeleteFunc(all, func(j store.Job) bool { return j.Owner != "" || j.Run == "" })
		if len(open) == 0 {
			return nil
		}
		j := open[n%len(open)]
		l.got.one("person goes on", moment(l.ctx, l.s, j))
		p, err := l.fleet.start("person", j.Run)
		if err != nil {
			return err
		}
		select {
		case <-p.ended: // it was not to be had, or it has ended
		case <-time.After(2 * lease):
			return l.fleet.kill(p)
		}
		return nil
	}},
	{"person away", func(l *lane) error {
		d := l.between(time.Second, 2*lease)
		l.away(true)
		l.got.note(l.ctx, l.world, "person away", "")
		sleep(l.ctx, d)
		l.away(false)
		return nil
	}},
}

// aim draws the moment at which a fault is to come; empty for any.
func (l *lane) aim() string {
	return append([]string{"", ""}, moments...)[l.r.IntN(2+len(moments))]
}

// await waits for a moment of a job that the worker has, and for a second and a half at most.
func (l *lane) await(name, aim string) {
	for end := time.Now().Add(1500 * time.Millisecond); aim != "" && time.Now().Before(end) && l.ctx.Err() == nil; sleep(l.ctx, 20*time.Millisecond) {
		jobs, err := l.s.Jobs(l.ctx, store.JobQuery{States: []store.JobState{store.JobRunning, store.JobWaiting}})
		if err == nil && slices.ContainsFunc(jobs, func(j store.Job) bool {
			return strings.HasPrefix(j.Owner, name+"-") && moment(l.ctx, l.s, j) == aim
		}) {
			return
		}
	}
}

func (l *lane) killed(what, name, aim string, pause time.Duration) error {
	l.await(name, aim)
	if err := l.fleet.kill(l.fleet.get(name)); err != nil {
		return err
	}
	l.got.note(l.ctx, l.world, what, name)
	sleep(l.ctx, pause)
	_, err := l.fleet.start(name, "")
	return err
}

func (l *lane) stopped(what, name, aim string, d time.Duration) error {
	p := l.fleet.get(name)
	l.await(name, aim)
	if err := l.still(p); err != nil {
		return err
	}
	l.got.note(l.ctx, l.world, what, name)
	sleep(l.ctx, d)
	return l.fleet.signal(p, syscall.SIGCONT)
}

// still has a process stand still, but not in the midst of a transaction, which would be SQLite's business.
func (w *world) still(p *process) error {
	for range 200 {
		if err := w.fleet.signal(p, syscall.SIGSTOP); err != nil {
			return err
		}
		for end := time.Now().Add(time.Second); time.Now().Before(end) && !stands(p.cmd.Process.Pid); {
			time.Sleep(time.Millisecond)
		}
		if w.isLocked() { // by the test: no other process is in a transaction
			return nil
		}
		err := w.s.DeleteRecord(context.Background(), "probe", "probe", "probe")
		if err == nil || !store.Passing(err) {
			return nil
		}
		if err := w.fleet.signal(p, syscall.SIGCONT); err != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return fmt.Errorf("worker %s holds the lock of the store all the time", p.name)
}

// stands reports whether a process was stopped, or has ended.
func stands(pid int) bool {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(raw), ") ")
	return rest == "" || strings.Contains("TZX", rest[:1])
}

// round plays one schedule, and judges.
func round(t *testing.T, seed uint64, o settings) reached {
	w := newWorld(t, seed)
	ctx, cancel := context.WithTimeout(t.Context(), o.lasts+5*time.Minute)
	defer cancel()
	w.fleet.orders.GiveUp, w.fleet.orders.MaxLosses = 2*lease, 4 // persons are asked now and then
	w.slow = true
	w.program = o.program
	got, names := reached{pairs: make(map[[2]string]int), mu: new(sync.Mutex)}, make([]string, o.workers)
	for i := range names {
		names[i] = fmt.Sprintf("w%d", i)
		w.start(names[i])
	}
	for _, name := range names {
		<-w.fleet.get(name).ready
	}
	var person, lanes sync.WaitGroup
	answers, leave := context.WithCancel(ctx)
	person.Go(func() { w.person(answers) })
	defer person.Wait()
	defer leave()
	w.schedule(ctx)

	until := time.Now().Add(o.lasts)
	for n, of := range [][]fault{ofProcesses, ofOthers} {
		l := &lane{world: w, ctx: ctx, r: rand.New(rand.NewPCG(seed, uint64(n))), faults: of, names: names, got: got}
		lanes.Go(func() { l.run(until) })
	}
	jobs := &lane{r: rand.New(rand.NewPCG(seed, 2))}
	kinds, coming := slices.Sorted(maps.Keys(kinds)), make([]string, o.jobs)
	for i := range coming {
		coming[i] = kinds[jobs.r.IntN(len(kinds))]
		if i < len(kinds) {
			coming[i] = kinds[i] // each kind once
		}
	}
	jobs.r.Shuffle(len(coming), func(i, j int) { coming[i], coming[j] = coming[j], coming[i] })
	for i, kind := range coming {
		w.add(ctx, fmt.Sprintf("j%d", i+1), kind)
		if time.Now().Before(until) {
			sleep(ctx, jobs.between(0, o.lasts*3/2/time.Duration(o.jobs)))
		}
	}
	lanes.Wait()
	w.end(ctx, &person, leave)
	return got
}

// schedule adds a schedule that is due now, and then each minute.
func (w *world) schedule(ctx context.Context) {
	w.must(stubborn(ctx, func() error {
		_, err := w.s.PutSchedule(ctx, store.Schedule{Name: "tick", Cron: "* * * * *", Agent: "plain", Prompt: prompt("tick", "scheduled"), Next: time.Now().Add(time.Second)})
		return err
	}))
}

// patience is how long jobs have to end once the faults are over: a lease, the longest back-off, and what a slow machine needs.
const patience = lease + 2*time.Second + 2*time.Minute

// end waits until all jobs have ended, and judges.
func (w *world) end(ctx context.Context, person *sync.WaitGroup, leave func()) {
	began := time.Now()
	var left []store.Job
	for time.Since(began) < patience {
		all, err := w.s.Jobs(ctx, store.JobQuery{})
		if err == nil {
			left = slices.DeleteFunc(all, func(j store.Job) bool { return w.over(j) })
			if len(left) == 0 {
				break
			}
		}
		sleep(ctx, 50*time.Millisecond)
	}
	for _, j := range left {
		w.wrong("invariant 10: %v after the faults were over job %s (%s) is %s, owner %q, losses %d, failures %d, error %q; it is: %s", patience, j.ID, w.jobs[j.ID], j.State, j.Owner, j.Losses, j.Failures, j.Error, moment(ctx, w.s, j))
	}
	took := time.Since(began)
	leave()
	person.Wait()
	if len(left) == 0 {
		sleep(ctx, 500*time.Millisecond) // what is late would show
	}
	w.fleet.stop()
	broken, err := w.judge(ctx)
	w.must(err)
	for _, b := range broken {
		w.t.Error(b)
	}
	w.t.Logf("all ended %.1f s after the faults; %d effects and forms, %d answers", took.Seconds(), len(must(w.ledger.lines())), len(w.told))
}

func must[T any](v T, _ error) T { return v }

// over reports whether nothing is to come of a job.
func (w *world) over(j store.Job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j.Schedule != "" {
		return j.State.Ended()
	}
	if w.jobs[j.ID] == "mended" && j.State == store.JobFailed && w.retry[j.ID] == 0 {
		return false
	}
	return j.State.Ended()
}
