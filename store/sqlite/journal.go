package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/troupe-dev/troupe/store"
)

// journal holds the statements on runs, their events and their leases.
type journal struct{ *database }

// runColumns are those of a run's head, in the order of scanRun. They are read from the view heads, where a run has
// the lease of its tree, and written to the table runs, where it has none unless it is the root of a tree without a job.
const runColumns = "id, agent, parent, root, job, title, summary, state, input_hash, created, updated, seq, owner, epoch, expires, imported"

func scanRun(row scanner) (r store.Run, err error) {
	err = row.Scan(&r.ID, &r.Agent, &r.Parent, &r.Root, &r.Job, &r.Title, &r.Summary, &r.State, &r.InputHash,
		(*micros)(&r.Created), (*micros)(&r.Updated), &r.Seq, &r.Owner, &r.Epoch, (*micros)(&r.Expires), &r.Imported)
	return r, found(err)
}

// found turns the absence of a row into the store's word for it.
func found(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return store.ErrNotFound
	}
	return err
}

// head reads a run in a transaction.
func (t *tx) head(id string) (store.Run, error) {
	return scanRun(t.row("SELECT "+runColumns+" FROM heads WHERE id = ?", id))
}

// writable reads a run that must not have ended; it is returned even then.
func (t *tx) writable(id string) (store.Run, error) {
	r, err := t.head(id)
	if err == nil && r.State.Ended() {
		err = store.ErrFinished
	}
	return r, err
}

// Create implements [store.Journal].
func (s *journal) Create(ctx context.Context, r store.Run, owner string, ttl time.Duration, first ...store.Event) (store.Run, error) {
	c, err := newCreation(r, owner, ttl, first)
	if err == nil {
		err = s.writer.do(ctx, creatingARun, weigh(first), c.make)
	}
	return c.outcome(err)
}

// StartCreate implements [store.Starter].
func (s *journal) StartCreate(r store.Run, owner string, ttl time.Duration, first []store.Event, done func(store.Run, error)) {
	c, err := newCreation(r, owner, ttl, first)
	if err != nil {
		done(store.Run{}, err)
		return
	}
	started := startedCreations.Get().(*startedCreation)
	started.op, started.creation, started.done = op{task: started, doing: creatingARun, size: weigh(first)}, c, done
	if err := s.writer.start(&started.op); err != nil {
		started.ended(err)
	}
}

const creatingARun = "creating a run"

// creation is the record of a run that begins.
type creation struct {
	run   store.Run // as it is to be, and then as it is
	ttl   time.Duration
	first []store.Event
	old   *store.Run // the one that has its ID; nil for none
}

func newCreation(r store.Run, owner string, ttl time.Duration, first []store.Event) (c creation, err error) {
	if err := r.Check(); err != nil {
		return c, err
	}
	if err := store.CheckLease(owner, ttl); err != nil {
		return c, err
	}
	if err := store.CheckEvents(first); err != nil {
		return c, err
	}
	if r.State == "" {
		r.State = store.Running
	}
	r.Seq, r.Owner = int64(len(first)), owner
	return creation{run: r, ttl: ttl, first: first}, nil
}

func (c *creation) make(t *tx) error {
	run, err := t.create(c.run, c.ttl, c.first)
	switch {
	case err == nil:
		c.run = run
	case errors.Is(err, store.ErrExists):
		c.old = &run
	}
	return err
}

// outcome returns what a creation that has ended with err has come to.
func (c *creation) outcome(err error) (store.Run, error) {
	switch {
	case err == nil:
		return c.run, nil
	case c.old != nil && errors.Is(err, store.ErrExists):
		return *c.old, err
	}
	return store.Run{}, err
}

// startedCreation is the task of a creation that nothing waits for.
type startedCreation struct {
	op
	creation
	done func(store.Run, error)
}

func (s *startedCreation) run(t *tx) error { return s.make(t) }

func (s *startedCreation) ended(err error) {
	done := s.done
	run, err := s.outcome(err)
	*s = startedCreation{}
	startedCreations.Put(s)
	done(run, err)
}

// startedCreations and startedAppends are used again.
var (
	startedCreations = sync.Pool{New: func() any { return new(startedCreation) }}
	startedAppends   = sync.Pool{New: func() any { return new(startedAppend) }}
)

// create adds a run, unless there is one of that ID.
func (t *tx) create(r store.Run, ttl time.Duration, first []store.Event) (store.Run, error) {
	held, err := t.lease(&r)
	if errors.Is(err, store.ErrFenced) {
		if old, err := t.head(r.ID); err == nil {
			return old, store.ErrExists
		} else if !errors.Is(err, store.ErrNotFound) {
			return r, err
		}
	}
	if err != nil {
		return r, err
	}
	r.Created, r.Updated = t.now, t.now
	if !held {
		r.Expires, r.Epoch = t.now.Add(ttl), t.s.fence+1
	}
	n, err := t.addRun(r, held)
	if err == nil && n == 0 { // there is one, or a run was deleted
		if old, err := t.head(r.ID); err == nil {
			return old, store.ErrExists
		} else if !errors.Is(err, store.ErrNotFound) {
			return r, err
		}
		if err := t.row("SELECT epoch FROM fence").Scan(&t.s.fence); err != nil {
			return r, err
		}
		r.Epoch = t.s.fence + 1
		n, err = t.addRun(r, held)
	}
	if err != nil {
		return r, err
	}
	t.s.remember(r.ID, place{n, r.Root, r.Job})
	return r, t.insert(n, 0, r.Epoch, first)
}

// lease makes a run that is created the root of a tree, or a part of its parent's, and reports whether it has a lease
// already that is its owner's: that of its job, or of its parent's tree.
func (t *tx) lease(r *store.Run) (held bool, err error) {
	r.Root = r.ID
	if r.Parent != "" {
		above, err := t.head(r.Parent)
		switch {
		case errors.Is(err, store.ErrNotFound):
			r.Job = ""
			return false, nil
		case err == nil && !above.HeldBy(r.Owner, r.Epoch):
			err = store.ErrFenced
		}
		r.Root, r.Job, r.Expires = above.Root, above.Job, above.Expires
		return true, err
	}
	if r.Job == "" {
		return false, nil
	}
	err = t.row("SELECT lease FROM jobs WHERE id = ? AND run = ? AND owner = ? AND epoch = ? AND "+goesOn, r.Job, r.ID, r.Owner, r.Epoch).Scan((*micros)(&r.Expires))
	if errors.Is(err, sql.ErrNoRows) {
		err = store.ErrFenced
	}
	return true, err
}

// goesOn is the condition on a job that has not ended.
const goesOn = "state IN ('queued', 'running', 'waiting')"

// addRun adds the head of a run, and returns its number: 0 if there is a run of that ID, or if its epoch, of a lease
// of its own, does not follow the fence.
func (t *tx) addRun(r store.Run, held bool) (int64, error) {
	const add = "INSERT OR FAIL INTO runs (" + runColumns + ") SELECT ?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16 FROM fence"
	query, owner, expires := add+" WHERE epoch = ?14 - 1 ON CONFLICT (id) DO NOTHING", r.Owner, r.Expires
	if held {
		query, owner, expires = add+" WHERE true ON CONFLICT (id) DO NOTHING", "", time.Time{}
	}
	res, err := t.s.exec(query, r.ID, r.Agent, r.Parent, r.Root, r.Job, r.Title, r.Summary, string(r.State), r.InputHash,
		r.Created.UnixMicro(), r.Updated.UnixMicro(), r.Seq, owner, r.Epoch, expires.UnixMicro(), r.Imported)
	if err != nil {
		return 0, err
	}
	if met, err := res.RowsAffected(); met == 0 || err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

// Append implements [store.Journal].
func (s *journal) Append(ctx context.Context, a store.Append) (last int64, err error) {
	if err := a.Check(); err != nil {
		return 0, err
	}
	err = s.writer.do(ctx, appendingToRun, weighAppend(a), func(t *tx) (err error) {
		last, err = t.append(a)
		return err
	})
	if err != nil {
		return 0, err
	}
	return last, nil
}

// StartAppend implements [store.Starter].
func (s *journal) StartAppend(a store.Append, done func(last int64, err error)) {
	if err := a.Check(); err != nil {
		done(0, err)
		return
	}
	started := startedAppends.Get().(*startedAppend)
	started.op, started.a, started.done = op{task: started, doing: appendingToRun, size: weighAppend(a)}, a, done
	if err := s.writer.start(&started.op); err != nil {
		started.ended(err)
	}
}

// startedAppend is the task of an append that nothing waits for.
type startedAppend struct {
	op
	a    store.Append
	last int64
	done func(last int64, err error)
}

func (s *startedAppend) run(t *tx) (err error) {
	s.last, err = t.append(s.a)
	return err
}

func (s *startedAppend) ended(err error) {
	last, done := s.last, s.done
	if err != nil {
		last = 0
	}
	*s = startedAppend{}
	startedAppends.Put(s)
	done(last, err)
}

const appendingToRun = "appending to a run"

func weighAppend(a store.Append) weight {
	return weight{max(1, len(a.Events)+len(a.Asks)+len(a.Settle)), a.Bytes()}
}

// append makes an append, and returns the number of the run's last event.
func (t *tx) append(a store.Append) (last int64, err error) {
	at, err := t.advance(a)
	if err == errRepeat {
		return a.After + int64(len(a.Events)), nil
	}
	if err != nil {
		return 0, err
	}
	if err := t.insert(at.n, at.last, a.Epoch, a.Events); err != nil {
		return 0, err
	}
	if !a.State.Ended() {
		return at.last + int64(len(a.Events)), nil
	}
	delete(t.s.rows, a.Run)
	if a.Job != nil {
		err = t.endJob(*a.Job)
	}
	return at.last + int64(len(a.Events)), err
}

// advance changes the head of a run, and its asks, as a says, and returns where the run ended before.
func (t *tx) advance(a store.Append) (end, error) {
	asks := len(a.Asks)+len(a.Settle) > 0
	if run, ok := t.s.rows[a.Run]; ok && a.After != store.Unchecked && len(a.Events) > 0 && !asks {
		at := end{run, a.After}
		if met, err := t.change(at, a); met || err != nil {
			return at, err
		}
	}
	at, err := t.appendable(a)
	if err != nil {
		return at, err
	}
	t.s.remember(a.Run, at.place)
	if asks {
		if err := t.changeAsks(a); err != nil {
			return at, err
		}
	}
	_, err = t.change(at, a)
	return at, err
}

// changeAsks opens and settles the asks of an append, unless that is refused.
func (t *tx) changeAsks(a store.Append) error {
	open, err := t.unopened(a)
	if err != nil {
		return err
	}
	for _, ask := range open {
		if err := t.openAsk(ask); err != nil {
			return err
		}
	}
	for _, d := range a.Settle {
		if _, err := t.settleAsk(d.Ask, d.Decision); err != nil {
			return err
		}
	}
	return nil
}

// errRepeat says that an append was made before.
var errRepeat = errors.New("it is there already")

// place is a run's number in the table, and its tree, which do not change.
type place struct {
	n         int64
	root, job string
}

// end is where a run can be appended to.
type end struct {
	place
	last int64
}

// appendable finds the end of the run that a may be written to.
func (t *tx) appendable(a store.Append) (e end, err error) {
	var epoch int64
	var state store.RunState
	var owner string
	row := t.row("SELECT n, root, job, seq, epoch, state, owner FROM heads WHERE id = ?", a.Run)
	if err := found(row.Scan(&e.n, &e.root, &e.job, &e.last, &epoch, &state, &owner)); err != nil {
		return e, err
	}
	elsewhere := a.After != store.Unchecked && a.After != e.last
	if elsewhere && epoch == a.Epoch && a.After < e.last {
		if repeat, err := t.repeats(e.n, a); err != nil {
			return e, err
		} else if repeat {
			return e, errRepeat
		}
	}
	switch {
	case state.Ended():
		return e, store.ErrFinished
	case epoch != a.Epoch || owner != a.Owner || owner == "":
		return e, store.ErrFenced
	case elsewhere:
		return e, store.ErrConflict
	}
	return e, nil
}

// repeats reports whether the events of a stand behind a.After in run n.
func (t *tx) repeats(n int64, a store.Append) (bool, error) {
	var events []store.Event
	err := t.each("SELECT seq, epoch, time, type, key, body, false FROM events WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?",
		[]any{n, a.After, len(a.Events)}, func(row scanner) (bool, error) {
			e, err := scanEvent(row)
			events = append(events, e)
			return true, err
		})
	return err == nil && a.Repeats(events), err
}

// unopened returns the asks of a that are still to be opened, or why its asks cannot
// be opened and settled. Nothing is changed yet: see [writer.do].
func (t *tx) unopened(a store.Append) ([]store.Ask, error) {
	var open []store.Ask
	for _, ask := range a.Asks {
		old, err := scanAsk(t.row("SELECT "+askColumns+" FROM asks WHERE id = ?", ask.ID))
		switch {
		case errors.Is(err, store.ErrNotFound):
			open = append(open, ask)
		case err != nil:
			return nil, err
		case old.Run != ask.Run || old.Hash != ask.Hash:
			return nil, store.ErrExists
		}
	}
	for _, d := range a.Settle {
		old, err := scanAsk(t.row("SELECT "+askColumns+" FROM asks WHERE id = ? AND run = ?", d.Ask, a.Run))
		if err != nil {
			return nil, err
		}
		if old.Seen(t.now).Status != store.AskPending {
			return nil, store.ErrSettled
		}
	}
	return open, nil
}

// maxInsert bounds the events of one statement: there is one for each number of them.
const maxInsert = 8

// inserts are the statements that add events; the first adds one.
var inserts = func() (queries [maxInsert]string) {
	query := "INSERT OR FAIL INTO events (run, epoch, seq, time, type, key, body) VALUES "
	for i := range queries {
		query += fmt.Sprintf("(?1, ?2, ?3 + %d, ?%d, ?%d, ?%d, CAST(?%d AS TEXT))", i, 4*i+4, 4*i+5, 4*i+6, 4*i+7)
		queries[i] = query
		query += ", "
	}
	return queries
}()

// insert adds events behind the one with number last.
func (t *tx) insert(run, last, epoch int64, events []store.Event) error {
	for some := range slices.Chunk(events, maxInsert) {
		args := append(t.args[:0], run, epoch, last+1)
		for _, e := range some {
			if e.Time.IsZero() {
				e.Time = t.now
			}
			if e.Body == nil {
				e.Body = json.RawMessage{} // nil would be NULL
			}
			args = append(args, e.Time.UnixMicro(), e.Type, e.Key, []byte(e.Body))
		}
		err := t.exec(inserts[len(some)-1], args...)
		clear(args)
		if t.args = args; err != nil {
			return err
		}
		last += int64(len(some))
	}
	return nil
}

// changes are the statements that change the head of a run with events (0), its state or summary (1), or end it (2): of a
// tree without a job its root, which has the tree's lease, and of another tree any run.
func changes() (root, other [3]string) {
	const run = " WHERE n = ?3 AND id = ?4 AND seq = ?5 AND state IN ('running', 'waiting')"
	for i, set := range [...]string{
		"UPDATE runs SET seq = ?1, updated = ?2",
		"UPDATE runs SET seq = ?1, updated = ?2, state = coalesce(nullif(?8, ''), state), summary = coalesce(nullif(?9, ''), summary)",
		fmt.Sprintf("UPDATE runs SET seq = ?1, updated = ?2, state = ?8, summary = coalesce(nullif(?9, ''), summary), owner = '', epoch = ?7, expires = %d", time.Time{}.UnixMicro()),
	} {
		root[i] = set + run + " AND root = id AND job = '' AND owner = ?6 AND epoch = ?7"
		next := 8 + 2*min(i, 1)
		other[i] = set + run + fmt.Sprintf(` AND root = ?%d AND job = ?%d AND coalesce(
			(SELECT owner = ?6 AND epoch = ?7 FROM jobs WHERE id = ?%[2]d AND run = ?%[1]d AND `+goesOn+`),
			(SELECT owner = ?6 AND epoch = ?7 FROM runs AS top WHERE id = ?%[1]d), owner = ?6 AND epoch = ?7)`, next, next+1)
	}
	return root, other
}

var changesOfRoots, changesOfOthers = changes()

// change applies what an append says of the head of a run that ends there, and reports whether it met
// the run: one that has not ended, with the end that a expects, and the lease of its tree.
func (t *tx) change(at end, a store.Append) (bool, error) {
	which := 0
	switch {
	case a.State.Ended():
		which = 2
	case a.State != "" || a.Summary != "":
		which = 1
	case len(a.Events) == 0:
		return false, nil
	}
	args := append(t.args[:0], at.last+int64(len(a.Events)), t.now.UnixMicro(), at.n, a.Run, at.last, a.Owner, a.Epoch)
	if which > 0 {
		args = append(args, string(a.State), a.Summary)
	}
	query := changesOfRoots[which]
	if at.job != "" || at.root != a.Run {
		args, query = append(args, at.root, at.job), changesOfOthers[which]
	}
	met, err := t.changed(query, args...)
	clear(args)
	t.args = args
	return met, err
}

// Events implements [store.Journal].
func (s *journal) Events(ctx context.Context, run string, after int64, limit int) ([]store.Event, error) {
	if err := store.CheckID("run", run); err != nil {
		return nil, err
	}
	page := []store.Event{}
	bytes := 0
	err := s.read(ctx, "reading the events of a run", func(q reader) error {
		err := q.each(`SELECT e.seq, e.epoch, e.time, e.type, e.key, e.body, e.seq <= r.imported FROM runs AS r JOIN events AS e ON e.run = r.n
			WHERE r.id = ? AND e.seq > ? ORDER BY e.seq LIMIT ?`,
			[]any{run, after, store.PageSize(limit)},
			func(row scanner) (bool, error) {
				e, err := scanEvent(row)
				if err != nil {
					return false, err
				}
				e.Run = run
				if bytes += len(e.Body); bytes > store.MaxPageBytes && len(page) > 0 {
					return false, nil
				}
				page = append(page, e)
				return true, nil
			})
		if err != nil || len(page) > 0 {
			return err
		}
		var one int
		return found(q.row("SELECT 1 FROM runs WHERE id = ?", run).Scan(&one))
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}

// scanEvent reads an event but for its run.
func scanEvent(row scanner) (e store.Event, err error) {
	err = row.Scan(&e.Seq, &e.Epoch, (*micros)(&e.Time), &e.Type, &e.Key, (*body)(&e.Body), &e.Imported)
	return e, err
}

// Run implements [store.Journal].
func (s *journal) Run(ctx context.Context, id string) (r store.Run, err error) {
	if err := store.CheckID("run", id); err != nil {
		return store.Run{}, err
	}
	err = s.read(ctx, "reading a run", func(q reader) error {
		r, err = scanRun(q.row("SELECT "+runColumns+" FROM heads WHERE id = ?", id))
		return err
	})
	return r, err
}

// Runs implements [store.Journal].
func (s *journal) Runs(ctx context.Context, q store.Query) ([]store.Run, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	cursor, paged, err := store.ParseCursor(q.After)
	if err != nil {
		return nil, err
	}
	var w where
	oneOf(&w, "state", q.States)
	if q.Beginning != "" {
		w.beginning(q.Beginning)
	}
	if q.Agent != "" {
		w.and("agent = ?", q.Agent)
	}
	if q.Parent != "" {
		w.and("parent = ?", q.Parent)
	}
	if !q.Since.IsZero() {
		w.and("created >= ?", store.Clock(q.Since).UnixMicro())
	}
	if !q.Until.IsZero() {
		w.and("created < ?", store.Clock(q.Until).UnixMicro())
	}
	if q.Free {
		w.and("state IN ('running', 'waiting') AND (owner = '' OR expires <= ?)", s.now().UnixMicro())
	}
	query, args := w.newest("SELECT "+runColumns+" FROM heads", cursor, paged, store.PageSize(q.Limit))
	return list(ctx, s.database, "listing runs", query, args, scanRun, nil)
}

// Delete implements [store.Journal].
func (s *journal) Delete(ctx context.Context, id string) error {
	if err := store.CheckID("run", id); err != nil {
		return err
	}
	return s.writer.do(ctx, "deleting a run", weight{events: 1}, func(t *tx) error {
		r, err := t.head(id)
		if err != nil {
			return err
		}
		if r.Leased(t.now) {
			return store.ErrLeased
		}
		return t.removeRun(id, r.Epoch)
	})
}

// removeRun deletes a run, its events and its asks.
func (t *tx) removeRun(id string, epoch int64) error {
	if err := t.exec("UPDATE fence SET epoch = max(epoch, ?)", epoch); err != nil {
		return err
	}
	for _, q := range []string{
		"DELETE FROM events WHERE run = (SELECT n FROM runs WHERE id = ?)",
		"DELETE FROM asks WHERE run = ?",
		"DELETE FROM runs WHERE id = ?",
	} {
		if err := t.exec(q, id); err != nil {
			return err
		}
	}
	return nil
}

// Claim implements [store.Leases].
func (s *journal) Claim(ctx context.Context, run, owner string, ttl time.Duration) (store.Run, error) {
	if err := checkLease(run, owner, ttl); err != nil {
		return store.Run{}, err
	}
	var r store.Run
	err := s.writer.do(ctx, "claiming a run", weight{events: 1}, func(t *tx) (err error) {
		if r, err = t.writable(run); err == nil {
			err = t.claimTree(&r, owner, ttl)
		}
		return err
	})
	if err != nil && !errors.Is(err, store.ErrLeased) && !errors.Is(err, store.ErrFinished) {
		return store.Run{}, err
	}
	return r, err
}

// claimTree leases the tree of a run to owner.
func (t *tx) claimTree(r *store.Run, owner string, ttl time.Duration) error {
	j, leases, err := t.jobOf(r)
	switch {
	case err != nil:
		return err
	case leases:
		if !j.TakeUp(owner, t.now, ttl) {
			return store.ErrLeased
		}
		r.Owner, r.Epoch, r.Expires = j.Owner, j.Epoch, j.Lease
		return t.exec("UPDATE jobs SET state = ?, owner = ?, epoch = ?, lease = ?, updated = ? WHERE id = ?",
			string(j.State), j.Owner, j.Epoch, j.Lease.UnixMicro(), j.Updated.UnixMicro(), j.ID)
	case r.Owner != owner && r.Leased(t.now):
		return store.ErrLeased
	}
	// A tree that had the lease of its job before goes on above its epochs, and so does a run whose root was deleted.
	if err := t.row("SELECT max(?, coalesce((SELECT 0 FROM runs WHERE id = ?), epoch)) FROM fence", j.Epoch, r.Root).Scan(&j.Epoch); err != nil {
		return err
	}
	r.Owner, r.Epoch, r.Expires = owner, max(r.Epoch, j.Epoch)+1, t.now.Add(ttl)
	return t.exec("UPDATE runs SET owner = ?, epoch = ?, expires = ? WHERE id = "+ownTree, r.Owner, r.Epoch, r.Expires.UnixMicro(), r.Root, r.ID)
}

// ownTree is the run that has the lease of a tree without a job: the root, by its ID, or the run itself, by its own, where
// the root was deleted.
const ownTree = "coalesce((SELECT id FROM runs AS top WHERE id = ?), ?)"

// jobOf returns the job of a run's tree, and reports whether the lease of the tree is the job's. Of a job that was deleted it has
// the epoch at most, and of none nothing.
func (t *tx) jobOf(r *store.Run) (j store.Job, leases bool, err error) {
	if r.Job == "" {
		return j, false, nil
	}
	j, err = t.job(r.Job)
	if errors.Is(err, store.ErrNotFound) {
		err = t.row("SELECT job FROM fence").Scan(&j.Epoch)
	}
	return j, j.Leases(r.Root), err
}

// Renew implements [store.Leases].
func (s *journal) Renew(ctx context.Context, run, owner string, epoch int64, ttl time.Duration) error {
	if err := checkLease(run, owner, ttl); err != nil {
		return err
	}
	return s.writer.do(ctx, "renewing a lease", weight{events: 1}, func(t *tx) error {
		r, err := t.writable(run)
		if err != nil {
			return err
		}
		if !r.HeldBy(owner, epoch) {
			return store.ErrFenced
		}
		until := t.now.Add(ttl).UnixMicro()
		if r.Job != "" {
			met, err := t.changed("UPDATE jobs SET lease = ? WHERE id = ? AND run = ? AND "+goesOn, until, r.Job, r.Root)
			if met || err != nil {
				return err
			}
		}
		return t.exec("UPDATE runs SET expires = ? WHERE id = "+ownTree, until, r.Root, r.ID)
	})
}

// Release implements [store.Leases].
func (s *journal) Release(ctx context.Context, run, owner string, epoch int64) error {
	if err := checkLease(run, owner, time.Second); err != nil {
		return err
	}
	return s.writer.do(ctx, "releasing a lease", weight{events: 1}, func(t *tx) error {
		r, err := t.head(run)
		switch {
		case err != nil:
			return err
		case r.Epoch != epoch || r.Owner != "" && r.Owner != owner:
			return store.ErrFenced
		case r.Owner == "": // it was released, or has ended
			return nil
		}
		j, leases, err := t.jobOf(&r)
		switch {
		case err != nil:
			return err
		case leases:
			return t.releaseJob(&j)
		}
		return t.exec("UPDATE runs SET owner = '', expires = ? WHERE id = "+ownTree, time.Time{}.UnixMicro(), r.Root, r.ID)
	})
}

// releaseJob releases a job by its run, until one of the pending asks of the run's tree is decided.
func (t *tx) releaseJob(j *store.Job) error {
	const pending = " WHERE status = 'pending' AND run IN (SELECT ?1 UNION ALL SELECT id FROM runs WHERE root = ?1 AND root <> id)"
	var asks []store.Ask
	err := t.each("SELECT "+askColumns+" FROM asks"+pending, []any{j.Run}, func(row scanner) (bool, error) {
		a, err := scanAsk(row)
		asks = append(asks, a)
		return true, err
	})
	if err == nil && len(asks) > 0 {
		err = t.exec("UPDATE asks SET job = ?2"+pending, j.Run, j.ID)
	}
	if err != nil {
		return err
	}
	j.LeaveRun(asks, t.now)
	return t.putJob(*j)
}

func checkLease(run, owner string, ttl time.Duration) error {
	if err := store.CheckID("run", run); err != nil {
		return err
	}
	return store.CheckLease(owner, ttl)
}

func weigh(events []store.Event) weight {
	w := weight{events: max(len(events), 1)}
	for _, e := range events {
		w.bytes += len(e.Body)
	}
	return w
}

// micros is a time in its column.
type micros time.Time

// Scan implements [sql.Scanner].
func (m *micros) Scan(v any) error {
	n, ok := v.(int64)
	if !ok {
		return errors.New("a time is not an integer")
	}
	*m = micros(time.UnixMicro(n).UTC())
	return nil
}

// body is JSON in its column; none is the empty text there, and nil in Go.
type body json.RawMessage

// Scan implements [sql.Scanner].
func (b *body) Scan(v any) error {
	text, ok := v.(string)
	if !ok {
		return errors.New("a body is not text")
	}
	*b = nil
	if text != "" {
		*b = body(text)
	}
	return nil
}

// where collects conditions. They are constants; values are only ever arguments
// (SECA-55).
type where struct {
	conditions []string
	args       []any
}

func (w *where) and(condition string, args ...any) {
	w.conditions = append(w.conditions, "("+condition+")")
	w.args = append(w.args, args...)
}

// clause is the text of the conditions, in a query.
func (w *where) clause() string {
	if len(w.conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conditions, " AND ")
}

// beginning requires that IDs begin so, by their index, which a pattern would not use.
func (w *where) beginning(of string) {
	w.and("id >= ? AND id < ?", of, of+string(unicode.MaxRune))
}

// oneOf requires one of these values of a column, if there are any.
func oneOf[T ~string](w *where, column string, values []T) {
	if len(values) == 0 {
		return
	}
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = string(v)
	}
	w.and(column+" IN (?"+strings.Repeat(",?", len(args)-1)+")", args...)
}

// newest completes a query with the conditions, in the order of a [store.Cursor].
func (w *where) newest(query string, c store.Cursor, paged bool, limit int) (string, []any) {
	if paged {
		w.and("(created, id) < (?, ?)", c.Created.UnixMicro(), c.ID)
	}
	return query + w.clause() + " ORDER BY created DESC, id DESC LIMIT ?", append(w.args, limit)
}
