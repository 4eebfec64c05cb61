//go:build linux

package chaos

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// world is a store with its workers, the model, the servers, and the person who answers.
type world struct {
	t      *testing.T
	seed   uint64
	s      store.Store // the test's own handle
	db     *sql.DB     // of the same file: locks it, and reads the history
	ledger ledger
	model  *provider
	tools  *host
	fleet  *fleet
	// program is the command, with which a person retries; empty where no job is for that.
	program string

	mu     sync.Mutex // guards what follows
	jobs   map[string]string
	told   map[string]told // answers that were acknowledged, by the question
	errs   []string        // what cannot be
	cancel map[string]time.Time
	retry  map[string]int // acknowledged retries of a job that had ended
	idle   bool           // the person does not answer
	mute   string         // the kind of questions that the person does not answer
	locked bool           // the test has the store locked
	slow   bool           // the person thinks for up to three seconds
}

// told is an answer that counts.
type told struct {
	ask      store.Ask
	decision store.Decision
	word     string // of a form
	op       string // the call it is about; empty for none
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	dir := t.TempDir()
	if keep := os.Getenv("CHAOS_KEEP"); keep != "" { // the store, the ledger and the logs of the workers stay
		dir = filepath.Join(keep, fmt.Sprintf("%s-%d", strings.NewReplacer("/", "-", " ", "-", ",", "").Replace(t.Name()), seed))
		if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, seed: seed, ledger: ledger{filepath.Join(dir, "effects")}, jobs: make(map[string]string), told: make(map[string]told), cancel: make(map[string]time.Time), retry: make(map[string]int)}
	path := filepath.Join(dir, "troupe.db")
	// No machine loses its power here, and a disk that others use is slow to sync.
	s, err := sqlite.Open(path, &sqlite.Options{BusyTimeout: busy, Synchronous: sqlite.Normal})
	if err != nil {
		t.Fatal(err)
	}
	w.s = s
	t.Cleanup(func() { _ = s.Close() })
	if w.db, err = sql.Open(sql.Drivers()[0], path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.db.Close() })
	w.db.SetMaxOpenConns(4)
	w.must(w.exec(history))
	if w.model, err = newProvider(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.model.away)
	server, err := newServer(w.ledger, "modern")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	if w.tools, err = newHost(server.Handler()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.tools.away)
	w.fleet = &fleet{dir: dir, at: make(map[string]*process), orders: orders{DB: path, Ledger: w.ledger.path, Model: "http://" + w.model.addr, MCP: "http://" + w.tools.addr + "/mcp", Lease: lease, ParkAfter: parkAfter, FirstByte: time.Second}}
	t.Cleanup(w.fleet.stop)
	return w
}

// history keeps each change of a row that counts: what is gone when an oracle looks at the end. The
// store does not know of it.
const history = `
CREATE TABLE chaos_history (n INTEGER PRIMARY KEY, at REAL, what TEXT, id TEXT, was TEXT, state TEXT, owner TEXT, epoch INTEGER);
CREATE TRIGGER chaos_claims AFTER UPDATE ON jobs WHEN NEW.epoch <> OLD.epoch AND NEW.owner <> '' BEGIN
	INSERT INTO chaos_history (at, what, id, was, state, owner, epoch) VALUES ((julianday('now')-2440587.5)*86400.0, 'claim', NEW.id, OLD.state, NEW.state, NEW.owner, NEW.epoch); END;
CREATE TRIGGER chaos_states AFTER UPDATE ON jobs WHEN NEW.state <> OLD.state BEGIN
	INSERT INTO chaos_history (at, what, id, was, state, owner, epoch) VALUES ((julianday('now')-2440587.5)*86400.0, 'state', NEW.id, OLD.state, NEW.state, OLD.owner, NEW.epoch); END;
CREATE TRIGGER chaos_fired AFTER UPDATE ON schedules WHEN NEW.last <> OLD.last BEGIN
	INSERT INTO chaos_history (at, what, id, was, state, owner, epoch) VALUES ((julianday('now')-2440587.5)*86400.0, 'fired', NEW.name, '', NEW.last_job, '', NEW.last); END;
CREATE TRIGGER chaos_settled AFTER UPDATE ON asks WHEN NEW.status <> OLD.status BEGIN
	INSERT INTO chaos_history (at, what, id, was, state, owner, epoch) VALUES ((julianday('now')-2440587.5)*86400.0, 'settled', NEW.id, OLD.status, NEW.status, NEW.by, 0); END;
`

// change is a row of the history.
type change struct {
	at                        float64 // seconds since 1970
	what, id, was, state, own string
	epoch                     int64
}

func (w *world) changes(ctx context.Context) (all []change, err error) {
	rows, err := w.db.QueryContext(ctx, "SELECT at, what, id, was, state, owner, epoch FROM chaos_history ORDER BY n")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var c change
		if err := rows.Scan(&c.at, &c.what, &c.id, &c.was, &c.state, &c.own, &c.epoch); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, rows.Err()
}

// exec writes to the file behind the store's back, as another process does.
func (w *world) exec(statement string, args ...any) (err error) {
	for range 50 {
		if _, err = w.db.Exec(statement, args...); err == nil || !strings.Contains(err.Error(), "locked") {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// wrong notes what cannot be.
func (w *world) wrong(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errs = append(w.errs, fmt.Sprintf(format, args...))
}

// stubborn does what may fail for a moment, since the store is locked.
func stubborn(ctx context.Context, do func() error) error {
	for {
		err := do()
		if err == nil || !store.Passing(err) || ctx.Err() != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// add hands a job in.
func (w *world) add(ctx context.Context, id, kind string) {
	w.t.Helper()
	w.must(stubborn(ctx, func() error {
		_, err := w.s.AddJob(ctx, store.Job{ID: id, Agent: kinds[kind].agent, Prompt: prompt(id, kind)})
		if errors.Is(err, store.ErrRepeated) {
			err = nil
		}
		return err
	}))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jobs[id] = kind
}

// start starts a worker.
func (w *world) start(name string) *process {
	w.t.Helper()
	p, err := w.fleet.start(name, "")
	w.must(err)
	return p
}

// lock has the file locked, until end is called.
func (w *world) lock(ctx context.Context) (end func() error, err error) {
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	for _, what := range []string{"PRAGMA busy_timeout = 10000", "BEGIN IMMEDIATE"} {
		if _, err := conn.ExecContext(ctx, what); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.locked = true
	return func() error {
		w.mu.Lock()
		w.locked = false
		w.mu.Unlock()
		_, err := conn.ExecContext(context.Background(), "ROLLBACK")
		return errors.Join(err, conn.Close())
	}, nil
}

func (w *world) isLocked() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.locked
}

// chance is a number from 0 to 99 that follows from the seed and a name.
func (w *world) chance(name string) int {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", w.seed, name)
	return int(h.Sum64() >> 3 % 100)
}

// denies reports whether the person says no to a call.
func (w *world) denies(op string) bool { return w.chance(op) < 25 }

// person answers what is in the inbox, whether a worker is up or not, cancels the jobs that are for it, and sees to those
// that failed for a reason of theirs, until ctx ends.
func (w *world) person(ctx context.Context) {
	for ; ctx.Err() == nil; sleep(ctx, 100*time.Millisecond) {
		w.mu.Lock()
		idle := w.idle
		w.mu.Unlock()
		if idle {
			continue
		}
		w.answer(ctx)
		w.see(ctx)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// away has the person answer, or not.
func (w *world) away(is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle = is
}

// silent has the person answer no question of a kind; "" is none.
func (w *world) silent(kind string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mute = kind
}

// answer answers each question that is open.
func (w *world) answer(ctx context.Context) {
	asks, err := w.s.Asks(ctx, store.AskQuery{Status: store.AskPending})
	if err != nil {
		return // the store is locked
	}
	w.mu.Lock()
	mute := w.mute
	w.mu.Unlock()
	for _, a := range asks {
		if a.Kind == mute {
			continue
		}
		if w.slow && time.Since(a.Created) < time.Duration(w.chance("thinks "+a.ID))*30*time.Millisecond {
			continue
		}
		t, ok := w.decision(a)
		if !ok {
			continue
		}
		if w.chance("twice "+a.ID) < 15 { // two persons at once, who say different things: one of them counts
			w.both(ctx, t)
			continue
		}
		w.settle(ctx, t)
	}
}

// settle answers one question, and keeps the answer if it was acknowledged.
func (w *world) settle(ctx context.Context, t told) {
	_, err := w.s.SettleAsk(ctx, t.ask.ID, t.decision)
	if err != nil {
		return // decided already, withdrawn, or the store is locked
	}
	w.mu.Lock()
	_, before := w.told[t.ask.ID]
	w.told[t.ask.ID] = t
	w.mu.Unlock()
	if before {
		w.wrong("answers: question %s was acknowledged twice", t.ask.ID)
	}
}

func (w *world) both(ctx context.Context, one told) {
	other := one
	if one.ask.Kind == runlog.AskForm {
		other.word = "other-" + one.ask.ID
		other.decision.Answer = form(other.word)
	}
	other.decision.By = "another person"
	var wg sync.WaitGroup
	for _, t := range []told{one, other} {
		wg.Go(func() { w.settle(ctx, t) })
	}
	wg.Wait()
}

func form(word string) json.RawMessage {
	return fmt.Appendf(nil, `{"action":"accept","content":{"word":%q}}`, word)
}

// decision is what the person says to a question; false for not yet.
func (w *world) decision(a store.Ask) (told, bool) {
	t := told{ask: a, decision: store.Decision{Status: store.AskAccepted, By: "a person", Scope: "once"}}
	var about struct{ Arguments args }
	if len(a.Payload) > 0 && json.Unmarshal(a.Payload, &about) == nil {
		t.op = about.Arguments.Op
	}
	switch a.Kind {
	case runlog.AskKind:
		if w.denies(t.op) {
			t.decision = store.Decision{Status: store.AskDeclined, By: "a person", Answer: runlog.DeclineAnswer("no")}
		}
	case runlog.AskForm:
		t.word = "word-" + a.ID
		t.decision.Answer = form(t.word)
	case runlog.AskOutcome:
		// What has left a process that stands still, or was killed just now, may still have its effect.
		if w.fleet.anyStill() || time.Since(a.Created) < time.Second {
			return t, false
		}
		lines, err := w.ledger.lines()
		if err != nil {
			w.wrong("the ledger: %v", err)
			return t, false
		}
		by := "a person"
		if slices.ContainsFunc(lines, func(l line) bool { return l.Phase == "effect" && l.Op == t.op }) {
			t.decision = runlog.OutcomeDecision(runlog.OutcomeHappened, result(t.op))
		} else {
			t.decision = runlog.OutcomeDecision(runlog.OutcomeAgain, "")
		}
		t.decision.By = by
	}
	return t, true
}

// see cancels the jobs that are for it, and retries those that failed for a reason of theirs once that is mended.
func (w *world) see(ctx context.Context) {
	w.mu.Lock()
	jobs := make(map[string]string)
	for id, kind := range w.jobs {
		jobs[id] = kind
	}
	w.mu.Unlock()
	for id, kind := range jobs {
		switch kind {
		case "cancelled":
			w.mu.Lock()
			done := !w.cancel[id].IsZero()
			w.mu.Unlock()
			if done {
				continue
			}
			lines, err := w.ledger.lines()
			if err != nil || !slices.ContainsFunc(lines, func(l line) bool {
				return l.job() == id && l.Op == fmt.Sprintf("%s/%c", id, 'a'+w.chance(id)%3)
			}) {
				continue
			}
			if _, err := w.s.CancelJob(ctx, id); err == nil || errors.Is(err, store.ErrFinished) {
				w.mu.Lock()
				w.cancel[id] = time.Now()
				w.mu.Unlock()
			}
		case "mended":
			j, err := w.s.Job(ctx, id)
			if err != nil || j.State != store.JobFailed {
				continue
			}
			w.model.mend(id)
			if _, err := w.troupe(ctx, "jobs", "retry", id); err == nil {
				w.mu.Lock()
				w.retry[id]++
				w.mu.Unlock()
			} else if !strings.Contains(err.Error(), "busy") && !strings.Contains(err.Error(), "lock") && ctx.Err() == nil {
				w.wrong("jobs retry %s: %v", id, err)
			}
		}
	}
}

// troupe runs the command.
func (w *world) troupe(ctx context.Context, args ...string) (string, error) {
	home := filepath.Dir(w.fleet.orders.DB)
	cmd := exec.CommandContext(ctx, w.program, append([]string{"--store", w.fleet.orders.DB}, args...)...)
	cmd.Dir, cmd.Env = home, []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("troupe %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}
