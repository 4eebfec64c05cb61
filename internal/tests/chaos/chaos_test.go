//go:build linux

package chaos

import (
	"context"
	"errors"
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

	"github.com/troupe-dev/troupe/store"
)

// settings of a schedule; CHAOS_… in the environment set others.
type settings struct {
	jobs, workers int
	lasts         time.Duration // the time with faults
}

func setting(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// TestChaos: faults come as the seed has it, and then no more. All jobs end, and no invariant is broken.
func TestChaos(t *testing.T) {
	rounds := setting("CHAOS_ROUNDS", 1)
	first := seedOfCommit(t)
	if text := os.Getenv("CHAOS_SEED"); text != "" {
		var err error
		if first, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("CHAOS_SEED=%q: want a number: %v", text, err)
		}
	}
	o := settings{jobs: setting("CHAOS_JOBS", 14), workers: setting("CHAOS_WORKERS", 3), lasts: 20 * time.Second}
	if text := os.Getenv("CHAOS_DURATION"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		o.lasts = d
	}
	all := make(reached)
	for n := range uint64(rounds) {
		seed := first + n
		t.Run(fmt.Sprintf("SEED=%d", seed), func(t *testing.T) {
			got := round(t, seed, o)
			for pair, n := range got {
				all[pair] += n
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

// fault is what happens; it returns once its time is over.
type fault struct {
	name string
	do   func(r *rounds) error
}

// rounds is one schedule under way.
type rounds struct {
	*world
	ctx   context.Context
	r     *rand.Rand // of the schedule alone
	names []string   // of the workers
	got   reached
}

// between returns a time of the schedule.
func (r *rounds) between(from, to time.Duration) time.Duration {
	return from + time.Duration(r.r.Int64N(int64(to-from)))
}

func (r *rounds) victim() string { return r.names[r.r.IntN(len(r.names))] }

// pastLease is a time in which a lease surely ends.
func (r *rounds) pastLease() time.Duration { return r.between(lease+lease/4, 2*lease) }

// faults are the kinds of faults. Each draws what it needs from the schedule before it waits, so that a seed
// is one schedule.
var faults = []fault{
	{"kill", func(r *rounds) error {
		name, pause := r.victim(), r.between(0, time.Second)
		return r.killed("kill", name, pause)
	}},
	{"kill five times", func(r *rounds) error {
		name, pauses := r.victim(), make([]time.Duration, 5)
		for i := range pauses {
			pauses[i] = r.between(50*time.Millisecond, 900*time.Millisecond)
		}
		for _, pause := range pauses {
			if err := r.killed("kill five times", name, 0); err != nil {
				return err
			}
			sleep(r.ctx, pause)
		}
		return nil
	}},
	{"kill all", func(r *rounds) error {
		down := r.between(time.Second, 2*lease)
		for _, name := range r.names {
			if err := r.fleet.kill(r.fleet.get(name)); err != nil {
				return err
			}
			r.got.note(r.ctx, r.world, "kill all", name)
		}
		sleep(r.ctx, down) // answers come while none is up
		for _, name := range r.names {
			if _, err := r.fleet.start(name, ""); err != nil {
				return err
			}
		}
		return nil
	}},
	{"stop past the lease", func(r *rounds) error {
		return r.stopped("stop past the lease", r.victim(), r.pastLease())
	}},
	{"stop", func(r *rounds) error {
		return r.stopped("stop", r.victim(), r.between(lease/4, lease))
	}},
	{"SIGTERM", func(r *rounds) error {
		name, pause := r.victim(), r.between(0, time.Second)
		r.got.note(r.ctx, r.world, "SIGTERM", name)
		if err := r.fleet.term(r.fleet.get(name)); err != nil {
			r.wrong("%v", err)
		}
		sleep(r.ctx, pause)
		_, err := r.fleet.start(name, "")
		return err
	}},
	{"model away", func(r *rounds) error {
		mode, d := modes[r.r.IntN(len(modes))], r.between(lease, 3*lease)
		if err := r.model.fail(mode); err != nil {
			return err
		}
		r.got.note(r.ctx, r.world, "model: "+mode, "")
		sleep(r.ctx, d)
		return r.model.fail("")
	}},
	{"store locked", func(r *rounds) error {
		d := r.pastLease()
		over := r.lock()
		r.got.note(r.ctx, r.world, "store locked", "")
		sleep(r.ctx, d)
		over()
		return nil
	}},
	{"disk full", func(r *rounds) error {
		name, d := r.victim(), r.pastLease()
		lift, err := full(r.fleet.get(name))
		if err != nil {
			if errors.Is(err, syscall.ESRCH) {
				return nil
			}
			return err
		}
		r.got.note(r.ctx, r.world, "disk full", name)
		sleep(r.ctx, d)
		return lift()
	}},
	{"person goes on", func(r *rounds) error { // with a job's run, while workers live
		n := r.r.IntN(1000)
		var open []store.Job
		all, err := r.s.Jobs(r.ctx, store.JobQuery{States: []store.JobState{store.JobWaiting, store.JobRunning}})
		if err != nil {
			return nil // the store is locked
		}
		for _, j := range all {
			if j.Owner == "" && j.Run != "" {
				open = append(open, j)
			}
		}
		if len(open) == 0 {
			return nil
		}
		j := open[n%len(open)]
		if m := moment(r.ctx, r.s, j); m != "" {
			r.got[[2]string{"person goes on", m}]++
		}
		p, err := r.fleet.start("person", j.Run)
		if err != nil {
			return err
		}
		select {
		case <-p.ended: // it was not to be had, or it has ended
		case <-time.After(2 * lease):
			return r.fleet.kill(p)
		}
		return nil
	}},
	{"person away", func(r *rounds) error {
		d := r.between(time.Second, 2*lease)
		r.away(true)
		r.got.note(r.ctx, r.world, "person away", "")
		sleep(r.ctx, d)
		r.away(false)
		return nil
	}},
}

func (r *rounds) killed(what, name string, pause time.Duration) error {
	if err := r.fleet.kill(r.fleet.get(name)); err != nil {
		return err
	}
	r.got.note(r.ctx, r.world, what, name)
	sleep(r.ctx, pause)
	_, err := r.fleet.start(name, "")
	return err
}

func (r *rounds) stopped(what, name string, d time.Duration) error {
	p := r.fleet.get(name)
	if err := r.still(p); err != nil {
		return err
	}
	r.got.note(r.ctx, r.world, what, name)
	sleep(r.ctx, d)
	return r.fleet.signal(p, syscall.SIGCONT)
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
	t.Helper()
	w := newWorld(t, seed)
	ctx, cancel := context.WithTimeout(t.Context(), o.lasts+5*time.Minute)
	defer cancel()
	r := &rounds{world: w, ctx: ctx, r: rand.New(rand.NewPCG(seed, 0)), got: make(reached)}
	for i := range o.workers {
		r.names = append(r.names, fmt.Sprintf("w%d", i))
		w.start(r.names[i])
	}
	var person sync.WaitGroup
	answers, leave := context.WithCancel(ctx)
	person.Go(func() { w.person(answers) })
	defer person.Wait()
	defer leave()

	names, coming := slices.Sorted(maps.Keys(kinds)), make([]string, o.jobs)
	for i := range coming {
		coming[i] = names[r.r.IntN(len(names))]
		if i < len(names) {
			coming[i] = names[i] // each kind once
		}
	}
	r.r.Shuffle(len(coming), func(i, j int) { coming[i], coming[j] = coming[j], coming[i] })
	w.schedule(ctx)
	for until := time.Now().Add(o.lasts); time.Now().Before(until); {
		for range r.r.IntN(4) {
			if len(coming) > 0 {
				w.add(ctx, fmt.Sprintf("j%d", len(coming)), coming[0])
				coming = coming[1:]
			}
		}
		sleep(ctx, r.between(50*time.Millisecond, 700*time.Millisecond))
		f := faults[r.r.IntN(len(faults))]
		began := time.Now()
		if err := f.do(r); err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		t.Logf("%5.1f s: %s", time.Until(until).Seconds(), fmt.Sprintf("%s, %.1f s", f.name, time.Since(began).Seconds()))
	}
	for i, kind := range coming {
		w.add(ctx, fmt.Sprintf("j%d", len(coming)-i), kind)
	}
	w.end(ctx, &person, leave)
	return r.got
}

// schedule adds a schedule that is due now, and then each minute.
func (w *world) schedule(ctx context.Context) {
	w.must(stubborn(ctx, func() error {
		_, err := w.s.PutSchedule(ctx, store.Schedule{Name: "tick", Cron: "* * * * *", Agent: "plain", Prompt: prompt("tick", "scheduled"), Next: time.Now().Add(time.Second)})
		return err
	}))
}

// patience is how long jobs have to end once the faults are over: a lease, the longest back-off, and what a slow machine needs.
const patience = lease + 2*time.Second + 75*time.Second

// end waits until all jobs have ended, and judges.
func (w *world) end(ctx context.Context, person *sync.WaitGroup, leave func()) {
	w.t.Helper()
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
