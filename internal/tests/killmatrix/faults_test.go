//go:build linux

package killmatrix

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/store"
)

// clockOf is the wall clock of the hosts of a run and of its person: a file says how far it has jumped.
func clockOf(orders string) func() time.Time {
	return func() time.Time {
		raw, _ := os.ReadFile(orders + ".clock")
		by, _ := time.ParseDuration(string(raw))
		return time.Now().Add(by)
	}
}

// stand has this process stand still until a SIGCONT.
func stand() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	for begun := time.Now(); time.Since(begun) < lease/2; { // until all threads stand
		time.Sleep(time.Millisecond)
	}
}

// meet waits until the test has made its fault.
func meet(orders string) {
	_ = os.WriteFile(orders+".met", nil, 0o600)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, err := os.Stat(orders + ".go"); err == nil {
			return
		}
	}
}

// settled is how long a process goes on before it stands still. A call beside that was dispatched has left it
// then: one that leaves it later, after a person has said that it did not happen, no lease can hold back.
const settled = 100 * time.Millisecond

// lease is that of a process that stands still past it.
const lease = 300 * time.Millisecond

// sideBySide runs so many cases at once, which wait more than they work.
func sideBySide(t *testing.T, most int, cases map[string]func(*testing.T)) {
	t.Helper()
	places := make(chan struct{}, most)
	var wg sync.WaitGroup
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			t.Run(name, cases[name])
		})
	}
	wg.Wait()
}

// whole is set by make kill-matrix; else the tests try a few points.
var whole = os.Getenv("KILL_MATRIX") == "whole"

// every reports which points of a kind with that number are tried: one of so many.
func every(inWhole, inPart int) func(i, number int) bool {
	n := inPart
	if whole {
		n = inWhole
	}
	return func(i, number int) bool { return (i+3*number)%n == 0 }
}

// calm is what comes of a run that is left alone; it is had once.
func calm(t *testing.T, transport, kind string) *outcome {
	t.Helper()
	f, _ := calmRuns.LoadOrStore([2]string{transport, kind}, sync.OnceValue(func() *outcome {
		out := newWorld(t, transport, kind).play(point{})
		if calls := map[bool]int{true: 3, false: crowdCalls}[kinds[kind].turns != nil]; out.Err != "" || len(out.effects) != calls || out.Commits < 5 {
			t.Errorf("a run that is left alone: got %+v, want %d effects", out, calls)
		}
		return out
	}))
	return f.(func() *outcome)()
}

var calmRuns sync.Map // of func() *outcome, by transport and kind

// tried are the cases of a fault, by their names: do at each point of each run that is chosen.
func tried(t *testing.T, chosen func(i, number int) bool, do func(t *testing.T, w *world, p point, want *outcome)) map[string]func(*testing.T) {
	t.Helper()
	var mu sync.Mutex // guards cases
	cases, kinds := make(map[string]func(*testing.T)), slices.Sorted(maps.Keys(kinds))
	each := make(map[string]func(*testing.T))
	for _, transport := range transports {
		for number, kind := range kinds {
			each[transport+", "+kind] = func(t *testing.T) {
				want := calm(t, transport, kind)
				mu.Lock()
				defer mu.Unlock()
				for i, p := range pointsOf(want) {
					if chosen(i, number) {
						cases[fmt.Sprintf("%s, %s, %v", transport, kind, p)] = func(t *testing.T) { do(t, newWorld(t, transport, kind), p, want) }
					}
				}
			}
		}
	}
	sideBySide(t, working, each)
	return cases
}

// working is how many cases run side by side, of those that work, and waiting of those that wait.
const working, waiting = 6, 100

var transports = []string{"legacy stdio", "modern HTTP"}

// TestKillMatrixStop: wherever a process stands still past its lease, another one goes on with the run,
// and the first, once it gets on, has no effect and writes nothing: it is fenced.
func TestKillMatrixStop(t *testing.T) {
	cases := tried(t, every(1, 10), func(t *testing.T, w *world, p point, want *outcome) {
		got, first := w.stop(p, (p.commit+p.effect)%2 == 0)
		got.compare(t, p, want)
		if first.Err != "" && !strings.Contains(first.Err, store.ErrFenced.Error()) && !strings.Contains(first.Err, store.ErrFinished.Error()) || first.Err == "" && first.Text != want.Text {
			t.Errorf("the process that stood still: got %+v, want the same answer, or that it is fenced", first)
		}
	})
	sideBySide(t, working, cases)
	t.Logf("%d points", len(cases))
}

// stop has the first process stand still at a point past its lease, and another one go on with the run.
// The first one gets on once the other has the run, or else once that has ended.
func (w *world) stop(p point, early bool) (out *outcome, first *report) {
	w.t.Helper()
	ctx, end := w.begin()
	defer end()
	w.order("stop", p)
	j := w.at(p, "stop")
	j.Lease = lease
	one := w.start(ctx, j)
	w.await(one, "it stands still", func() bool { return stands(one.pid) })
	for { // not in the midst of a transaction, which is SQLite's business
		err := w.s.DeleteRecord(ctx, "probe", "probe", "probe")
		if err == nil || !store.Passing(err) {
			break
		}
		_ = one.cmd.Process.Signal(syscall.SIGCONT)
		time.Sleep(time.Millisecond)
		_ = one.cmd.Process.Signal(syscall.SIGSTOP)
		w.await(one, "it stands still", func() bool { return stands(one.pid) })
	}
	left := w.owners(ctx)
	w.await(nil, "its lease is over", func() bool {
		all, err := w.s.Runs(ctx, store.Query{})
		return err == nil && !slices.ContainsFunc(all, func(r store.Run) bool { return r.Leased(time.Now()) })
	})
	other := w.start(ctx, w.job)
	if early {
		w.await(other, "it has the run, and those below", func() bool {
			now := w.owners(ctx)
			return len(now) > 0 && !slices.ContainsFunc(now, func(owner string) bool { return slices.Contains(left, owner) })
		})
	} else {
		<-other.ended
	}
	if err := one.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		w.t.Log(err) // it has ended without a stop
	}
	out = new(outcome)
	for n, process := range []*process{other, one} {
		r, err := process.report()
		if err != nil {
			w.t.Fatalf("%v: process %d: %v", p, n+1, err)
		}
		if first = r; n == 0 {
			out.report = *r
		}
	}
	w.read(ctx, out)
	return out, first
}

// owners are those of the runs that have not ended.
func (w *world) owners(ctx context.Context) (list []string) {
	w.t.Helper()
	all, err := w.s.Runs(ctx, store.Query{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range all {
		if !r.State.Ended() {
			list = append(list, r.Owner)
		}
	}
	return list
}

// await waits for a condition, or for the end of a process.
func (w *world) await(p *process, what string, is func() bool) {
	w.t.Helper()
	var ended chan struct{}
	if p != nil {
		ended = p.ended
	}
	late := time.After(30 * time.Second)
	for !is() {
		select {
		case <-ended:
			return
		case <-late:
			w.t.Fatalf("not in 30 seconds: %s", what)
		case <-time.After(time.Millisecond):
		}
	}
}

// fault is one that the surroundings of a process have, which does not end.
type fault struct {
	begin func(w *world, p *process) (end func())
	lasts time.Duration
	busy  time.Duration // how long a write waits for another process
	point func(i, number int) bool
}

// faults are those that the surroundings have. Outside of the whole matrix those that last are a tenth as
// long, and so is the time that a write waits for another process: what counts is which is longer. Ten
// times 50 ms, 100 ms and so on are tries enough.
func faults() map[string]fault {
	second := time.Second
	if !whole {
		second /= 10
	}
	return map[string]fault{
		"the clock jumps an hour ahead": {begin: jump("1h"), point: every(3, 20)},
		"the clock jumps an hour back":  {begin: jump("-1h"), point: every(3, 20)},
		"the disk is full":              {begin: fill, lasts: 10 * second, point: every(5, 20)},
		"another process writes":        {begin: lock, lasts: 11 * second, busy: 5 * second, point: every(5, 20)},
	}
}

// jump sets the clock.
func jump(by string) func(*world, *process) func() {
	return func(w *world, _ *process) func() {
		if err := os.WriteFile(w.job.Orders+".clock", []byte(by), 0o600); err != nil {
			w.t.Fatal(err)
		}
		return func() {}
	}
}

// roomy lets files grow that this process writes.
func roomy() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	return unix.Setrlimit(unix.RLIMIT_FSIZE, &limit)
}

// fill lets no file grow that the process writes, until end is called.
func fill(w *world, p *process) func() {
	var before unix.Rlimit
	if err := unix.Prlimit(p.pid, unix.RLIMIT_FSIZE, nil, &before); err != nil {
		w.t.Fatal(err)
	}
	full := before
	full.Cur = 1
	if err := unix.Prlimit(p.pid, unix.RLIMIT_FSIZE, &full, nil); err != nil {
		w.t.Fatal(err)
	}
	return func() {
		if err := unix.Prlimit(p.pid, unix.RLIMIT_FSIZE, &before, nil); err != nil && err != unix.ESRCH { // it has ended
			w.t.Error(err)
		}
	}
}

// lock holds the lock that writes take, until end is called.
func lock(w *world, _ *process) func() {
	db, err := sql.Open(sql.Drivers()[0], w.job.DB)
	if err != nil {
		w.t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	for _, what := range []string{"PRAGMA busy_timeout = 10000", "BEGIN IMMEDIATE"} {
		if _, err := db.Exec(what); err != nil {
			w.t.Fatal(err)
		}
	}
	return func() {
		if _, err := db.Exec("ROLLBACK"); err != nil {
			w.t.Error(err)
		}
		if err := db.Close(); err != nil {
			w.t.Error(err)
		}
	}
}

// TestKillMatrixFaults: whenever its disk is full, its store is locked or the clock jumps, a run goes on by itself in the
// process that has it, as one that was left alone.
func TestKillMatrixFaults(t *testing.T) {
	for name, f := range faults() {
		t.Run(name, func(t *testing.T) {
			cases := tried(t, f.point, func(t *testing.T, w *world, p point, want *outcome) {
				got := w.suffer(p, f)
				got.compare(t, p, want)
				if got.unknown > 0 || got.lost > 0 || got.resumed > 0 {
					t.Errorf("%d calls of unknown outcome, %d tokens of turns that were lost, %d runs went on elsewhere, want none", got.unknown, got.lost, got.resumed)
				}
			})
			most := working
			if f.lasts > 0 {
				most = waiting
			}
			sideBySide(t, most, cases)
			t.Logf("%d points", len(cases))
		})
	}
}

// suffer has the fault at a point of the run.
func (w *world) suffer(p point, f fault) *outcome {
	w.t.Helper()
	ctx, end := w.begin()
	defer end()
	w.order("meet", p)
	j := w.at(p, "meet")
	j.Busy = f.busy
	process := w.start(ctx, j)
	w.await(process, "the process is at the point", func() bool {
		_, err := os.Stat(w.job.Orders + ".met")
		return err == nil
	})
	select {
	case <-process.ended: // it has fewer commits than the run that was left alone
	default:
		over := f.begin(w, process)
		if err := os.WriteFile(w.job.Orders+".go", nil, 0o600); err != nil {
			w.t.Fatal(err)
		}
		select {
		case <-process.ended:
		case <-time.After(f.lasts):
		}
		over()
	}
	r, err := process.report()
	if err != nil {
		w.t.Fatalf("%v: %v", p, err)
	}
	out := &outcome{report: *r}
	w.read(ctx, out)
	return out
}
