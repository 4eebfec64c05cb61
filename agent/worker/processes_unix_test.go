//go:build unix

package worker_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// process is a worker in a process of its own.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ready chan struct{} // closed when it hears signals
	quiet chan struct{} // closed when it has said all: it is dead
}

// fleet is what a test with several processes knows.
type fleet struct {
	t       *testing.T
	path    string
	store   *sqlite.Store // the test's own handle
	said    chan line     // what all children say
	ends    map[string][]string
	holds   map[string]bool
	begun   map[string]bool
	unknown map[string]bool // jobs of which a call was asked about
}

func newFleet(t *testing.T) *fleet { return newFleetAt(t, filepath.Join(t.TempDir(), "troupe.db")) }

func newFleetAt(t *testing.T, path string) *fleet {
	s, err := sqlite.Open(path, &sqlite.Options{Synchronous: sqlite.Normal, BusyTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &fleet{t: t, path: path, store: s, said: make(chan line, 1024), ends: map[string][]string{}, holds: map[string]bool{}, begun: map[string]bool{}, unknown: map[string]bool{}}
}

// start starts a worker for these agents.
func (f *fleet) start(ctx context.Context, agents string) *process {
	f.t.Helper()
	self, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	p := &process{cmd: exec.CommandContext(ctx, self, f.path), ready: make(chan struct{}), quiet: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childEnv+"="+agents)
	p.cmd.Stderr = f.t.Output()
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		f.t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	go func() {
		defer close(p.quiet)
		for in := bufio.NewScanner(out); in.Scan(); {
			var l line
			switch {
			case json.Unmarshal(in.Bytes(), &l) != nil:
			case l.Type == "ready":
				close(p.ready)
			default:
				select {
				case f.said <- l:
				case <-ctx.Done():
				}
			}
		}
	}()
	f.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // has gone already, where the test went well
		<-p.quiet
	})
	return p
}

// closed tells whether c is.
func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// kill kills a process, and hears what it has said before.
func (f *fleet) kill(ctx context.Context, p *process) {
	f.t.Helper()
	p.signal(f.t, syscall.SIGKILL)
	f.until(ctx, "a killed worker to be dead", func() bool { return closed(p.quiet) })
	_ = p.cmd.Wait() // it was killed
}

// end tells a process to end, which it must do well.
func (f *fleet) end(ctx context.Context, p *process) {
	f.t.Helper()
	f.until(ctx, "a worker to hear signals", func() bool { return closed(p.ready) || closed(p.quiet) })
	p.signal(f.t, syscall.SIGTERM)
	f.until(ctx, "a worker that was told to end", func() bool { return closed(p.quiet) })
	if err := p.cmd.Wait(); err != nil {
		f.t.Errorf("a worker that is told to end: %v", err)
	}
}

func (p *process) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("%v: %v", sig, err)
	}
}

// stand makes a process stand still, but not in the midst of a transaction: then it
// would hold up everybody who writes, which is SQLite's business and not a worker's.
func (f *fleet) stand(p *process) {
	f.t.Helper()
	for {
		p.signal(f.t, syscall.SIGSTOP)
		var status syscall.WaitStatus // the signal is under way until each of its threads stands
		if _, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
			f.t.Fatalf("a worker that is told to stand still: %v, %v", status, err)
		}
		_, err := f.store.AddJob(f.t.Context(), store.Job{ID: "probe", Agent: "nobody"})
		if err == nil || errors.Is(err, store.ErrRepeated) {
			return
		}
		if !errors.Is(err, store.ErrBusy) {
			f.t.Fatal(err)
		}
		p.signal(f.t, syscall.SIGCONT)
		f.wait(f.t.Context(), 10*time.Millisecond) // it gets on with its transaction
	}
}

// until listens to the children until that is so.
func (f *fleet) until(ctx context.Context, what string, holds func() bool) {
	f.t.Helper()
	again := time.NewTicker(100 * time.Millisecond) // what is in the store is not told
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case l := <-f.said:
			switch l.Type {
			case worker.JobEnded:
				f.ends[l.Job] = append(f.ends[l.Job], l.State)
			case worker.JobStarted:
				f.begun[l.Job] = true
			case "holds":
				f.holds[l.Job] = true
			}
		case <-ctx.Done():
			counts, err := f.store.JobCounts(context.WithoutCancel(ctx))
			f.t.Fatalf("waiting for %s: %v; %d jobs have ended, the store has %v, %v", what, context.Cause(ctx), len(f.ends), counts, err)
		}
	}
}

func (f *fleet) add(j store.Job) string {
	f.t.Helper()
	j.Prompt += " " + j.ID
	if _, err := f.store.AddJob(f.t.Context(), j); err != nil {
		f.t.Fatal(err)
	}
	return j.ID
}

// effects are how often each job has had its effect.
func (f *fleet) effects() map[string]int {
	f.t.Helper()
	raw, err := os.ReadFile(f.path + ".effects")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // the first effect makes the file
		f.t.Fatal(err)
	}
	n := map[string]int{}
	for id := range strings.FieldsSeq(string(raw)) {
		n[id]++
	}
	return n
}

// answer accepts what is asked. Of a call whose process has gone it says that it happened, if it has;
// else the model is told, as a process that stands still may make it yet.
func (f *fleet) answer(ctx context.Context, q store.AskQuery) {
	f.t.Helper()
	pending, err := f.store.Asks(ctx, q)
	if err != nil {
		f.t.Fatal(err)
	}
	effects := f.effects()
	for _, a := range pending {
		d := store.Decision{Status: store.AskAccepted, By: "ada"}
		if a.Kind == runlog.AskOutcome {
			d = runlog.OutcomeDecision(runlog.OutcomeTell, "")
			job, _, _ := strings.Cut(a.Run, ".")
			if effects[job] > 0 {
				d = runlog.OutcomeDecision(runlog.OutcomeHappened, "")
			}
			f.unknown[job] = true
		}
		if _, err := f.store.SettleAsk(ctx, a.ID, d); err != nil && !errors.Is(err, store.ErrSettled) {
			f.t.Fatal(err)
		}
	}
}

// TestProcesses is the worker's promise with processes and signals: a thousand jobs over
// two workers on one SQLite store, one of which is told to end midway, while the other
// stands still past its lease and comes back; a list of jobs is cancelled, and questions
// are answered from a process that has nothing but the store. Each job's result is
// recorded once, none is lost, and no effect that must not come twice does.
func TestProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes; not with -short")
	}
	jobs := 1000
	if raceEnabled {
		jobs = 100
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // of a machine that has much else to do
	defer cancel()
	f := newFleet(t)
	var all, list, asks []string
	kinds := map[string]string{}
	held := f.add(store.Job{ID: "held", Agent: "holder", Prompt: "hold"})
	for i := range 5 {
		asks = append(asks, f.add(store.Job{ID: fmt.Sprint("ask-", i), Agent: "holder", Prompt: "ask"}))
	}
	for i := range jobs {
		kind := []string{"plain", "safe", "unsafe", "plain"}[i%4]
		id := f.add(store.Job{ID: fmt.Sprintf("%s-%d", kind, i), Agent: "a", Prompt: kind, Key: fmt.Sprint("key-", i)})
		all, kinds[id] = append(all, id), kind
	}

	first, second := f.start(ctx, "a"), f.start(ctx, "a,holder")
	f.until(ctx, "a call of the second worker", func() bool { return f.holds[held] })
	f.stand(second)
	f.until(ctx, "a third of the jobs", func() bool { return len(f.ends) >= jobs/3 })
	f.end(ctx, first)
	third := f.start(ctx, "a,holder")
	f.until(ctx, "the held job to be found lost, and its end", func() bool {
		f.answer(ctx, store.AskQuery{Run: held + ".1", Status: store.AskPending})
		return len(f.ends[held]) > 0
	})
	second.signal(t, syscall.SIGCONT)
	if err := second.stdin.Close(); err != nil { // its call returns
		t.Error(err)
	}

	for i := range jobs / 20 {
		list = append(list, f.add(store.Job{ID: fmt.Sprint("slow-", i), Agent: "a", Prompt: "slow", Batch: "list"}))
	}
	f.until(ctx, "the list to be begun", func() bool { return f.begun[list[0]] })
	mustEnd := map[string]bool{}
	for _, id := range list {
		j, err := f.store.CancelJob(ctx, id)
		if err != nil {
			t.Fatalf("CancelJob(%q): %v", id, err)
		}
		if !j.State.Ended() {
			mustEnd[id] = true // its worker says so
		}
	}
	f.until(ctx, "the list to be cancelled", func() bool {
		for id := range mustEnd {
			if len(f.ends[id]) == 0 {
				return false
			}
		}
		return len(mustEnd) > 0
	})
	f.until(ctx, "all jobs", func() bool {
		f.answer(ctx, store.AskQuery{Status: store.AskPending}) // a job that has begun again asks again
		n := 0
		for _, id := range append(all, asks...) {
			n += min(len(f.ends[id]), 1)
		}
		return n == len(all)+len(asks)
	})
	for _, p := range []*process{second, third} {
		f.end(ctx, p)
	}
	f.check(ctx, all, list, asks, held, kinds)
}

// check holds that each job has one end, the right one, and the effects it may have.
func (f *fleet) check(ctx context.Context, all, list, asks []string, held string, kinds map[string]string) {
	t := f.t
	t.Helper()
	effects := f.effects()
	unknown := 0
	for _, id := range append(append(all, asks...), held) {
		j, err := f.store.Job(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if len(f.ends[id]) != 1 || f.ends[id][0] != string(j.State) {
			t.Errorf("job %q is %s: its end was told %v, want once", id, j.State, f.ends[id])
		}
		n := effects[id]
		switch {
		case j.State == store.JobDone && !strings.Contains(string(j.Result), "done "+id):
			t.Errorf("job %q: got the result %s", id, j.Result)
		case j.State == store.JobUnknown && kinds[id] == "unsafe": // a worker was told to end, and did not have the time
			if unknown++; n > 1 {
				t.Errorf("job %q: %d effects, want one at most", id, n)
			}
		case j.State != store.JobDone:
			t.Errorf("job %q is %s (%s), want done", id, j.State, j.Error)
		case f.unknown[id] && n <= 1: // its worker has ended in the middle of the call, and the model was told that
		case kinds[id] == "plain" && n != 0, kinds[id] == "safe" && n < 1, kinds[id] == "unsafe" && n != 1, kinds[id] == "" && n != 1:
			t.Errorf("job %q, %s: got %d effects", id, kinds[id], n)
		}
	}
	for _, id := range list {
		if j, err := f.store.Job(ctx, id); err != nil || j.State != store.JobCancelled || len(f.ends[id]) > 1 {
			t.Errorf("job %q of the list: got %s, %v, told %v", id, j.State, err, f.ends[id])
		}
	}
	if j, err := f.store.Job(ctx, held); err != nil || j.State != store.JobDone || effects[held] != 1 || j.Attempts != 1 {
		t.Errorf("the held job: got %+v, %v, %d effects, want done and one", j, err, effects[held])
	}
	if unknown > 8 { // no more than one worker has at once
		t.Errorf("%d jobs are unknown, want 8 at most", unknown)
	}
	t.Logf("%d jobs, %d of them unknown", len(all)+len(list)+len(asks)+1, unknown)
}
