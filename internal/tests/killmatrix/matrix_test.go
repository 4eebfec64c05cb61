//go:build linux

package killmatrix

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

const (
	// Variables that make the test binary a host or a server.
	hostVariable   = "TROUPE_KILL_HOST"
	serverVariable = "TROUPE_KILL_SERVER"

	legacy = mcp.V2025_11_25
)

func TestMain(m *testing.M) {
	switch text, file := os.Getenv(hostVariable), os.Getenv(serverVariable); {
	case file != "":
		s, err := newServer(file)
		if err == nil {
			err = roomy() // where its host has a full disk
		}
		if err == nil {
			err = s.ServeStdio(context.Background())
		}
		end(err)
	case text != "":
		var j job
		err := json.Unmarshal([]byte(text), &j)
		if err == nil {
			err = host(j)
		}
		end(err)
	}
	mcptest.Run(m, 16)
}

func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// point is a moment at which a host is killed.
type point struct {
	commit int // at which; zero if it is at an effect
	effect int
	after  bool
}

func (p point) String() string {
	when := "before"
	if p.after {
		when = "after"
	}
	if p.commit > 0 {
		return fmt.Sprintf("%s commit %d", when, p.commit)
	}
	return fmt.Sprintf("%s effect %d", when, p.effect)
}

// TestKillMatrix: wherever a process is killed, the run ends as one that was left alone: every effect
// once, every question answered once, the same conversation, and what was spent is that of the turns
// and of those that were lost.
func TestKillMatrix(t *testing.T) {
	chosen := every(1, 10)
	for _, transport := range transports {
		for number, kind := range slices.Sorted(maps.Keys(kinds)) {
			t.Run(transport+", "+kind, func(t *testing.T) {
				t.Parallel()
				calm := calm(t, transport, kind)
				points := pointsOf(calm)
				n, unknown := 0, 0
				for i, p := range points {
					if !chosen(i, number) {
						continue
					}
					n++
					got := newWorld(t, transport, kind).play(p)
					got.compare(t, p, calm)
					if unknown += got.unknown; p.effect > 0 && !got.killed {
						t.Errorf("%v: the process was not killed", p)
					}
				}
				t.Logf("%d of %d points, %d commits, %d calls of unknown outcome", n, len(points), calm.Commits, unknown)
			})
		}
	}
}

// pointsOf are all points of a run, by what came of it when it was left alone.
func pointsOf(calm *outcome) (points []point) {
	for _, after := range []bool{false, true} {
		for n := range calm.Commits {
			points = append(points, point{commit: n + 1, after: after})
		}
		for n := range calm.effects {
			points = append(points, point{effect: n + 1, after: after})
		}
	}
	return points
}

// world is the surroundings of one run: its store, its server, and the person who answers.
type world struct {
	t         *testing.T
	transport string
	job       job
	s         store.Store
	mu        sync.Mutex     // guards told
	told      map[string]int // answers that counted, by the question
}

func newWorld(t *testing.T, transport, kind string) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, transport: transport, job: job{DB: filepath.Join(dir, "troupe.db"), Orders: filepath.Join(dir, "effects"), Kind: kind}, told: make(map[string]int)}
	var err error
	if w.s, err = sqlite.Open(w.job.DB, &sqlite.Options{BusyTimeout: time.Second, Now: clockOf(w.job.Orders)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.s.Close() })
	if transport == "modern HTTP" {
		url, stop, err := serveHTTP(w.job.Orders)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		w.job.URL = url
	}
	return w
}

// outcome is what came of a run.
type outcome struct {
	report
	killed       bool
	effects      []string
	conversation string
	questions    []string // approvals and limits
	lost         int      // tokens of the turns that were lost
	unknown      int      // calls that were asked about
	resumed      int      // runs that went on in another process
	told         map[string]int
}

// play lets the run go on in process after process until it ends. The first one is killed.
func (w *world) play(p point) *outcome {
	w.t.Helper()
	ctx, end := w.begin()
	defer end()
	w.order("kill", p)
	out := new(outcome)
	for n := range 5 {
		j := w.job
		if n == 0 {
			j = w.at(p, "kill")
		}
		r, err := w.host(ctx, j)
		if err == nil {
			out.report = *r
			break
		}
		if out.killed = true; n > 0 {
			w.t.Fatalf("%v: process %d: %v", p, n+1, err)
		}
		w.release(ctx)
	}
	w.read(ctx, out)
	return out
}

// begin starts the person who answers, until end is called.
func (w *world) begin() (ctx context.Context, end func()) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	answers, stop := context.WithCancel(ctx)
	answering := make(chan struct{})
	go func() {
		defer close(answering)
		w.answer(answers)
	}()
	return ctx, func() {
		stop()
		<-answering
		cancel()
	}
}

// order orders a fault at an effect.
func (w *world) order(fault string, p point) {
	w.t.Helper()
	if p.effect == 0 {
		return
	}
	when := map[bool]string{false: "before", true: "after"}[p.after]
	if err := os.WriteFile(w.job.Orders+".order", fmt.Appendf(nil, "%s %s %d", fault, when, p.effect), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// at is the job of a host that has a fault at a commit.
func (w *world) at(p point, fault string) job {
	j := w.job
	j.At, j.After, j.Fault = p.commit, p.after, fault
	return j
}

// process is a host process.
type process struct {
	cmd            *exec.Cmd
	pid            int
	stdout, stderr bytes.Buffer
	ended          chan struct{}
	err            error // how it has ended; read after ended
}

// start starts a host process.
func (w *world) start(ctx context.Context, j job) *process {
	w.t.Helper()
	raw, err := json.Marshal(j)
	if err != nil {
		w.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	p := &process{cmd: exec.CommandContext(ctx, self), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), hostVariable+"="+string(raw))
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.WaitDelay = 10 * time.Second // a server on a pipe may hold stderr for a moment
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	p.pid = p.cmd.Process.Pid
	go func() {
		defer close(p.ended)
		p.err = p.cmd.Wait()
	}()
	return p
}

// report waits for the end of the process, and returns what it has printed.
func (p *process) report() (*report, error) {
	if <-p.ended; p.err != nil {
		return nil, fmt.Errorf("%w: %s", p.err, p.stderr.String())
	}
	r := new(report)
	if err := json.Unmarshal(p.stdout.Bytes(), r); err != nil {
		return nil, fmt.Errorf("the host printed %q: %w", p.stdout.String(), err)
	}
	return r, nil
}

// host runs a host process to its end.
func (w *world) host(ctx context.Context, j job) (*report, error) {
	w.t.Helper()
	return w.start(ctx, j).report()
}

// release ends the leases of a process that is known to be dead.
func (w *world) release(ctx context.Context) {
	all, err := w.s.Runs(ctx, store.Query{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range all {
		if r.Owner != "" {
			if err := w.s.Release(ctx, r.ID, r.Owner, r.Epoch); err != nil && !errors.Is(err, store.ErrFenced) {
				w.t.Fatal(err)
			}
		}
	}
}

// answer answers every question of the inbox, whether a process waits for it or not.
func (w *world) answer(ctx context.Context) {
	for ctx.Err() == nil {
		asks, err := w.s.Asks(ctx, store.AskQuery{Status: store.AskPending})
		for _, a := range asks {
			if d, ok := w.decision(a); ok && err == nil {
				if _, err := w.s.SettleAsk(ctx, a.ID, d); err == nil {
					w.mu.Lock()
					w.told[a.Kind+" "+a.ID]++
					w.mu.Unlock()
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (w *world) decision(a store.Ask) (store.Decision, bool) {
	yes := store.Decision{Status: store.AskAccepted, By: "the test", Scope: "once"}
	switch a.Kind {
	case runlog.AskForm:
		yes.Answer = json.RawMessage(`{"action":"accept","content":{"word":"yes"}}`)
	case runlog.AskURL:
		if err := os.WriteFile(w.job.Orders+".visited", nil, 0o600); err != nil {
			w.t.Error(err)
		}
	case runlog.AskPage:
		return runlog.PageDecision("retry"), true
	case runlog.AskOutcome:
		var p runlog.OutcomePayload
		var args in
		if json.Unmarshal(a.Payload, &p) != nil || json.Unmarshal(p.Arguments, &args) != nil {
			return store.Decision{}, false
		}
		if w.working() { // what comes of it is seen later
			return store.Decision{}, false
		}
		if slices.Contains(w.effects(), strconv.Itoa(args.N)) {
			return runlog.OutcomeDecision(runlog.OutcomeHappened, result(args.N)), true
		}
		return runlog.OutcomeDecision(runlog.OutcomeAgain, ""), true
	}
	return yes, true
}

// working reports whether a task is at work at its server, which is alive.
func (w *world) working() bool {
	raw, err := os.ReadFile(w.job.Orders + ".working")
	pid, _ := strconv.Atoi(string(raw))
	return err == nil && (pid == os.Getpid() || pid > 1 && !zombie(pid))
}

func (w *world) effects() []string {
	raw, err := os.ReadFile(w.job.Orders)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Error(err)
	}
	return strings.Fields(string(raw))
}

// read reads what came of the run from its journal.
func (w *world) read(ctx context.Context, out *outcome) {
	w.t.Helper()
	all, err := w.s.Runs(ctx, store.Query{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range all {
		entries, err := runlog.Entries(ctx, w.s, r.ID)
		if err != nil {
			w.t.Fatal(err)
		}
		sampled := make(map[string]bool) // by the keys of the calls
		for _, e := range entries {
			switch b := e.Body.(type) {
			case *runlog.ModelFailed:
				out.lost += b.Usage.Total()
			case *runlog.Spent: // a round that goes on asks the model again, whose first answer did not reach the server
				if sampled[e.Key] {
					out.lost += b.Usage.Total()
				}
				sampled[e.Key] = true
			case *runlog.AskOpened:
				switch b.Ask.Kind {
				case runlog.AskKind:
					var p runlog.ApprovalPayload
					if err := json.Unmarshal(b.Ask.Payload, &p); err != nil {
						w.t.Fatal(err)
					}
					out.questions = append(out.questions, p.Tool+" "+string(p.Arguments))
				case runlog.AskLimit:
					out.questions = append(out.questions, string(b.Ask.Payload))
				case runlog.AskOutcome:
					out.unknown++
				}
			}
		}
		if r.Epoch > 1 {
			out.resumed++
		}
		if r.ID == runID {
			raw, err := json.Marshal(runlog.StateOf(entries).Messages())
			if err != nil {
				w.t.Fatal(err)
			}
			out.conversation = strings.ReplaceAll(string(raw), reported, "")
		}
	}
	out.effects = w.effects()
	slices.Sort(out.effects)
	slices.Sort(out.questions)
	w.mu.Lock()
	out.told = maps.Clone(w.told)
	w.mu.Unlock()
}

// reported is what stands before a result that a person reports.
const reported = `a person reports that the call took effect:\n`

// compare holds what came of a run that was killed against one that was left alone.
func (got *outcome) compare(t *testing.T, p point, want *outcome) {
	t.Helper()
	fail := func(what string, got, want any) { t.Errorf("%v: %s: got %v, want %v", p, what, got, want) }
	if got.Text != want.Text || got.Err != want.Err {
		fail("the answer", got.report, want.report)
	}
	if !slices.Equal(got.effects, want.effects) {
		fail("the effects", got.effects, want.effects)
	}
	if got.conversation != want.conversation {
		fail("the conversation", got.conversation, want.conversation)
	}
	if !slices.Equal(got.questions, want.questions) {
		fail("the approvals and limits", got.questions, want.questions)
	}
	if got.Tokens != want.Tokens+got.lost && got.unknown == 0 || got.Tokens > want.Tokens+got.lost+50*got.unknown {
		fail("the tokens that were spent", got.Tokens, fmt.Sprintf("%d and %d of lost turns", want.Tokens, got.lost))
	}
	if forms := len(slices.DeleteFunc(slices.Collect(maps.Keys(got.told)), func(q string) bool { return !strings.HasPrefix(q, runlog.AskForm+" ") })); got.unknown == 0 && forms > 1 {
		fail("the forms that were answered", forms, 1)
	}
	for q, n := range got.told {
		if n != 1 {
			fail("the answers to "+q, n, 1)
		}
	}
}
