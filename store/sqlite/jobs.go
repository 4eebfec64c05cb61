package sqlite

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sort"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// jobs holds the statements on the queue.
type jobs struct {
	*database
	found atomic.Bool // the last claim found jobs: there may be more
}

// jobColumns are those of a job, in the order of scanJob; briefColumns have nothing in
// place of what can be large.
const (
	jobColumns = "id, agent, key, batch, prompt, input, max_attempts, not_before, expires, timeout, hook, schedule, " +
		"state, attempts, failures, losses, progress, run, origin, result, error, cancelling, untold, created, updated, owner, epoch, lease"
	briefColumns = "id, agent, key, batch, substr(prompt, 1, 200), '', max_attempts, not_before, expires, timeout, hook, schedule, " +
		"state, attempts, failures, losses, progress, run, origin, '', error, cancelling, untold, created, updated, owner, epoch, lease"
)

// jobFields returns where the columns of a job go, in the order of jobColumns.
func jobFields(j *store.Job) []any {
	return []any{&j.ID, &j.Agent, &j.Key, &j.Batch, &j.Prompt, (*body)(&j.Input), &j.MaxAttempts,
		(*micros)(&j.NotBefore), (*micros)(&j.Expires), (*int64)(&j.Timeout), &j.Hook, &j.Schedule,
		&j.State, &j.Attempts, &j.Failures, &j.Losses, &j.Progress, &j.Run, &j.From, (*body)(&j.Result), &j.Error, &j.Cancelling, &j.Untold,
		(*micros)(&j.Created), (*micros)(&j.Updated), &j.Owner, &j.Epoch, (*micros)(&j.Lease)}
}

func scanJob(row scanner) (j store.Job, err error) {
	err = row.Scan(jobFields(&j)...)
	return j, found(err)
}

func (t *tx) job(id string) (store.Job, error) {
	return scanJob(t.row("SELECT "+jobColumns+" FROM jobs WHERE id = ?", id))
}

// AddJob implements [store.Jobs].
func (s *jobs) AddJob(ctx context.Context, j store.Job) (store.Job, error) {
	a, err := newAddition(j)
	if err == nil {
		err = s.writer.do(ctx, addingAJob, a.size(), a.make)
	}
	return a.outcome(err)
}

// StartAdd implements [store.JobStarter].
func (s *jobs) StartAdd(j store.Job, done func(store.Job, error)) {
	a, err := newAddition(j)
	if err == nil {
		started := &startedAddition{op: op{doing: addingAJob, size: a.size()}, addition: a, done: done}
		started.task = started
		err = s.writer.start(&started.op)
	}
	if err != nil {
		done(a.outcome(err))
	}
}

const addingAJob = "adding a job"

// addition adds a job to the queue.
type addition struct {
	job store.Job
	out store.Job // once it is made
}

func newAddition(j store.Job) (addition, error) {
	if err := j.Check(); err != nil {
		return addition{}, err
	}
	if j.ID == "" {
		j.ID = store.NewJobID()
	}
	return addition{job: j}, nil
}

func (a *addition) size() weight { return weight{1, a.job.Bytes()} }

func (a *addition) make(t *tx) (err error) {
	a.out, err = t.addJob(a.job)
	return err
}

// outcome returns what an addition that has ended with err has come to.
func (a *addition) outcome(err error) (store.Job, error) {
	if err != nil && !errors.Is(err, store.ErrExists) && !errors.Is(err, store.ErrRepeated) {
		return store.Job{}, err
	}
	return a.out, err
}

// startedAddition is the task of an addition that nothing waits for.
type startedAddition struct {
	op
	addition
	done func(store.Job, error)
}

func (s *startedAddition) run(t *tx) error { return s.make(t) }

func (s *startedAddition) ended(err error) { s.done(s.outcome(err)) }

// addJob queues a job, unless there is one of that ID or key.
func (t *tx) addJob(j store.Job) (store.Job, error) {
	if added, err := t.insertJob(j); err != nil || added.Epoch > 0 {
		return added, err
	}
	old, err := scanJob(t.row("SELECT "+jobColumns+" FROM jobs WHERE id = ? OR (key = ? AND key <> '') LIMIT 1", j.ID, j.Key))
	switch {
	case err == nil && old.InputHash() == j.InputHash():
		return old, store.ErrRepeated
	case err == nil:
		return old, store.ErrExists
	case !errors.Is(err, store.ErrNotFound):
		return store.Job{}, err
	}
	if err := t.row("SELECT job FROM fence").Scan(&t.s.fenceOfJobs); err != nil { // a job was deleted
		return store.Job{}, err
	}
	return t.insertJob(j)
}

// insertJob queues a job. The epoch of what it returns is 0 if there is one of that ID or key, or the fence
// is not where it was.
func (t *tx) insertJob(j store.Job) (store.Job, error) {
	j = j.Queued(t.now)
	j.Epoch = t.s.fenceOfJobs + 1
	met, err := t.changed("INSERT OR FAIL INTO jobs ("+jobColumns+", due) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, "+
		"'queued', 0, 0, 0, 0, '', '', '', '', 0, 0, ?13, ?13, '', ?14, ?15, ?16 FROM fence WHERE job = ?14 - 1 ON CONFLICT DO NOTHING",
		j.ID, j.Agent, j.Key, j.Batch, j.Prompt, string(j.Input), j.MaxAttempts, j.NotBefore.UnixMicro(), j.Expires.UnixMicro(),
		int64(j.Timeout), j.Hook, j.Schedule, j.Created.UnixMicro(), j.Epoch, j.Lease.UnixMicro(), j.Due().UnixMicro())
	if !met {
		j.Epoch = 0
	}
	return j, err
}

// ClaimJobs implements [store.Jobs]. It writes only if there is something to claim, or the last one found
// something.
func (s *jobs) ClaimJobs(ctx context.Context, owner string, n int, ttl time.Duration, agents []string, except ...string) ([]store.Job, error) {
	if err := store.CheckClaim(owner, n, ttl, agents, except...); err != nil {
		return nil, err
	}
	list := []store.Job{}
	if n == 0 || len(agents) == 0 {
		return list, nil
	}
	agents = slices.Compact(slices.Sorted(slices.Values(agents)))
	if !s.found.Load() {
		if is, err := s.claimable(ctx, owner, agents); !is || err != nil {
			return list, err
		}
	}
	err := s.writer.do(ctx, claiming, weight{events: n}, func(t *tx) (err error) {
		list, err = t.claim(list[:0], n, agents, except, owner, ttl) // it may run again
		return err
	})
	if err != nil {
		return nil, err
	}
	s.found.Store(len(list) > 0)
	return list, nil
}

// StartClaim implements [store.JobStarter].
func (s *jobs) StartClaim(c store.Claim, done func([]store.Job, error)) {
	if err := c.Check(); err != nil {
		done(nil, err)
		return
	}
	c.Agents = slices.Compact(slices.Sorted(slices.Values(c.Agents)))
	started := &startedClaim{op: op{doing: claiming, size: weight{events: 1}, last: true}, claim: c, jobs: s, done: done}
	started.task = started
	if err := s.writer.start(&started.op); err != nil {
		done(nil, err)
	}
}

// startedClaim is the task of a claim that nothing waits for. It is made behind the other writes of its commit, so
// that it has the places of the jobs that end with them.
type startedClaim struct {
	op
	claim store.Claim
	jobs  *jobs
	list  []store.Job
	done  func([]store.Job, error)
}

func (s *startedClaim) run(t *tx) (err error) {
	s.list = nil // of a transaction that was rolled back
	if n := s.claim.Places(); n > 0 {
		s.list, err = t.claim(nil, min(n, store.MaxClaim), s.claim.Agents, nil, s.claim.Owner, s.claim.TTL)
	}
	return err
}

func (s *startedClaim) ended(err error) {
	if err != nil {
		s.done(nil, err)
		return
	}
	s.jobs.found.Store(len(s.list) > 0)
	s.done(s.list, nil)
}

const claiming = "claiming jobs"

// claim appends to a list the jobs that it claims for owner, n at most: see [store.Jobs].ClaimJobs.
func (t *tx) claim(list []store.Job, n int, agents, except []string, owner string, ttl time.Duration) ([]store.Job, error) {
	list, err := t.claimLeft(list, n, agents, except, owner, ttl)
	if err == nil {
		list, err = t.claimDue(list, n-len(list), agents, owner, ttl)
	}
	return list, err
}

// claimable reports whether there are jobs to claim, without a transaction that writes: of a worker
// without work most looks end here.
func (s *jobs) claimable(ctx context.Context, owner string, agents []string) (is bool, err error) {
	served := "agent IN (?3"
	args := []any{owner, s.now().UnixMicro(), agents[0]}
	for _, a := range agents[1:] {
		args = append(args, a)
		served += ", ?" + strconv.Itoa(len(args))
	}
	err = s.read(ctx, "looking for jobs", func(q reader) error {
		return q.row("SELECT EXISTS (SELECT 1 FROM jobs WHERE owner <> '' AND owner <> ?1 AND lease <= ?2 AND "+served+
			")) OR EXISTS (SELECT 1 FROM jobs WHERE state = 'waiting' AND owner = '' AND not_before <= ?2 AND "+served+
			")) OR EXISTS (SELECT 1 FROM jobs WHERE state = 'queued' AND due <= ?2 AND "+served+"))", args...).Scan(&is)
	})
	return is, err
}

// claimLeft appends to a list the jobs of these agents that were lost, and then those that were released
// while they wait, n at most.
func (t *tx) claimLeft(list []store.Job, n int, agents, except []string, owner string, ttl time.Duration) ([]store.Job, error) {
	var left []string
	take := func(query string, args ...any) error {
		return t.each(query, args, func(row scanner) (bool, error) {
			var id, agent string
			err := row.Scan(&id, &agent)
			if slices.Contains(agents, agent) && !slices.Contains(except, id) && len(left) < n {
				left = append(left, id)
			}
			return len(left) < n, err
		})
	}
	now := t.now.UnixMicro()
	if err := take("SELECT id, agent FROM jobs WHERE owner <> '' AND owner <> ? AND lease <= ? ORDER BY lease, n", owner, now); err != nil {
		return list, err
	}
	if err := take("SELECT id, agent FROM jobs WHERE state = 'waiting' AND owner = '' AND not_before <= ? ORDER BY not_before, n", now); err != nil {
		return list, err
	}
	for _, id := range left {
		j, claimed, err := t.claimJob(id, owner, ttl)
		if err != nil {
			return list, err
		}
		if claimed {
			list = append(list, j)
		}
	}
	return list, nil
}

// claimJob claims a job that was lost, or released while it waits, and reports whether it could.
func (t *tx) claimJob(id, owner string, ttl time.Duration) (store.Job, bool, error) {
	j, err := t.job(id)
	if err != nil || !j.Claim(owner, t.now, ttl) {
		return j, false, err
	}
	return j, true, t.exec("UPDATE jobs SET state = ?, attempts = ?, run = ?, owner = ?, epoch = ?, lease = ?, updated = ? WHERE id = ?",
		string(j.State), j.Attempts, j.Run, j.Owner, j.Epoch, j.Lease.UnixMicro(), j.Updated.UnixMicro(), id)
}

// dueJobs are queued jobs, and their numbers in the table.
type dueJobs struct {
	jobs []store.Job
	n    []int64
}

func (q *dueJobs) Len() int { return len(q.jobs) }

// Less puts those first that have been due longest.
func (q *dueJobs) Less(i, k int) bool {
	return cmp.Or(q.jobs[i].Due().Compare(q.jobs[k].Due()), cmp.Compare(q.n[i], q.n[k])) < 0
}

func (q *dueJobs) Swap(i, k int) {
	q.jobs[i], q.jobs[k] = q.jobs[k], q.jobs[i]
	q.n[i], q.n[k] = q.n[k], q.n[i]
}

// claimDue appends to a list the queued jobs of these agents that have been due longest, n at most, and
// claims them.
func (t *tx) claimDue(list []store.Job, n int, agents []string, owner string, ttl time.Duration) ([]store.Job, error) {
	if n <= 0 {
		return list, nil
	}
	var j store.Job
	var number int64
	var due dueJobs
	fields := append(jobFields(&j), &number)
	for _, a := range agents {
		err := t.each("SELECT "+jobColumns+", n FROM jobs WHERE state = 'queued' AND agent = ? AND due <= ? ORDER BY due, n LIMIT ?",
			[]any{a, t.now.UnixMicro(), n}, func(row scanner) (bool, error) {
				err := row.Scan(fields...)
				if due.jobs == nil {
					due.jobs, due.n = make([]store.Job, 0, min(n, 64)), make([]int64, 0, min(n, 64))
				}
				due.jobs, due.n = append(due.jobs, j), append(due.n, number)
				return true, err
			})
		if err != nil {
			return list, err
		}
	}
	if len(agents) > 1 {
		sort.Sort(&due)
	}
	claimed := due.jobs[:0]
	for i := range due.jobs[:min(len(due.jobs), n)] {
		j := &due.jobs[i]
		if !j.Claim(owner, t.now, ttl) {
			continue
		}
		if err := t.exec("UPDATE jobs SET state = 'running', attempts = ?, progress = 0, run = ?, owner = ?, epoch = ?, lease = ?, updated = ? WHERE n = ?",
			j.Attempts, j.Run, j.Owner, j.Epoch, j.Lease.UnixMicro(), j.Updated.UnixMicro(), due.n[i]); err != nil {
			return list, err
		}
		claimed = append(claimed, *j)
	}
	if len(list) == 0 {
		return claimed, nil
	}
	return append(list, claimed...), nil
}

// RenewJobs implements [store.Jobs].
func (s *jobs) RenewJobs(ctx context.Context, owner string, ttl time.Duration, leases []store.JobLease) ([]store.JobLease, error) {
	if err := store.CheckLeases(owner, ttl, leases); err != nil {
		return nil, err
	}
	held := []store.JobLease{}
	if len(leases) == 0 {
		return held, nil
	}
	err := s.writer.do(ctx, "renewing jobs", weight{events: len(leases)}, func(t *tx) error {
		held = held[:0]
		for _, l := range leases {
			met, err := t.changed("UPDATE jobs SET lease = ? WHERE id = ? AND owner = ? AND epoch = ?",
				t.now.Add(ttl).UnixMicro(), l.ID, owner, l.Epoch)
			if err != nil {
				return err
			}
			if met {
				held = append(held, l)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return held, nil
}

// UpdateJob implements [store.Jobs].
func (s *jobs) UpdateJob(ctx context.Context, u store.JobUpdate) (store.Job, error) {
	if err := u.Check(); err != nil {
		return store.Job{}, err
	}
	return s.changeJob(ctx, "updating a job", u.ID, weight{1 + len(u.Waits), len(u.Result)}, func(t *tx, j *store.Job) error {
		if len(u.Waits) > 0 {
			if err := t.waitFor(&u); err != nil {
				return err
			}
		}
		err := j.Update(u, t.now)
		if err == nil && u.Failed && j.State == store.JobQueued {
			err = t.goOn(j)
		}
		return err
	})
}

// goOn has the next attempt of a job go on from its run: see [store.Job.GoOn].
func (t *tx) goOn(j *store.Job) error {
	var recorded bool
	err := t.row("SELECT EXISTS (SELECT 1 FROM runs WHERE id = ?)", j.Run).Scan(&recorded)
	j.GoOn(recorded)
	return err
}

// waitFor notes which job the asks wake that an update waits for.
func (t *tx) waitFor(u *store.JobUpdate) error {
	var asks []store.Ask
	for _, id := range u.Waits {
		a, err := scanAsk(t.row("SELECT "+askColumns+" FROM asks WHERE id = ?", id))
		switch {
		case errors.Is(err, store.ErrNotFound):
			continue
		case err != nil:
			return err
		}
		asks = append(asks, a)
		if err := t.exec("UPDATE asks SET job = ? WHERE id = ?", u.ID, id); err != nil {
			return err
		}
	}
	u.Until(asks, t.now)
	return nil
}

// CancelJob implements [store.Jobs].
func (s *jobs) CancelJob(ctx context.Context, id string) (store.Job, error) {
	return s.changeJob(ctx, "cancelling a job", id, weight{events: 1}, func(t *tx, j *store.Job) error { return j.Cancel(t.now) })
}

// RetryJob implements [store.Jobs].
func (s *jobs) RetryJob(ctx context.Context, id string, fromStart bool) (store.Job, error) {
	return s.changeJob(ctx, "queueing a job again", id, weight{events: 1}, func(t *tx, j *store.Job) error {
		if err := j.Retry(t.now, fromStart); err != nil || fromStart {
			return err
		}
		return t.goOn(j)
	})
}

// ClaimNotification implements [store.Jobs].
func (s *jobs) ClaimNotification(ctx context.Context, id string, epoch int64, r *store.Record) error {
	if err := store.CheckNotification(id, r); err != nil {
		return err
	}
	size := weight{events: 1}
	if r != nil {
		size.bytes = r.Bytes()
	}
	return s.writer.do(ctx, "noting that a job's end is told", size, func(t *tx) error {
		j, err := t.job(id)
		if err != nil {
			return err
		}
		if err := j.ClaimNotification(epoch); err != nil {
			return err
		}
		if r != nil {
			if err := t.putRecord(*r); err != nil {
				return err
			}
		}
		return t.exec("UPDATE jobs SET untold = 0 WHERE id = ?", id)
	})
}

// changeJob changes one job. The job comes back also with what refuses the change.
func (s *jobs) changeJob(ctx context.Context, doing, id string, size weight, change func(*tx, *store.Job) error) (store.Job, error) {
	if err := store.CheckJobID(id); err != nil {
		return store.Job{}, err
	}
	var j store.Job
	err := s.writer.do(ctx, doing, size, func(t *tx) (err error) {
		if j, err = t.job(id); err != nil {
			return err
		}
		if err := change(t, &j); err != nil {
			return err
		}
		return t.putJob(j)
	})
	if err != nil && !refused(err) {
		return store.Job{}, err
	}
	return j, err
}

// putJob writes a job that has changed.
func (t *tx) putJob(j store.Job) error {
	return t.exec(`UPDATE jobs SET state = ?, attempts = ?, failures = ?, losses = ?, progress = ?, run = ?, origin = ?, result = ?, error = ?, cancelling = ?, untold = ?, not_before = ?,
		due = ?, updated = ?, owner = ?, lease = ? WHERE id = ?`,
		string(j.State), j.Attempts, j.Failures, j.Losses, j.Progress, j.Run, j.From, string(j.Result), j.Error, j.Cancelling, j.Untold, j.NotBefore.UnixMicro(),
		j.Due().UnixMicro(), j.Updated.UnixMicro(), j.Owner, j.Lease.UnixMicro(), j.ID)
}

// endJob ends the job of an [store.Append], if its lease is held. It writes what an update that ends a job
// changes.
func (t *tx) endJob(u store.JobUpdate) error {
	if u.Ended != nil {
		*u.Ended = store.Job{} // of a transaction that was rolled back
	}
	var j store.Job
	if u.Known != nil {
		j = *u.Known
	} else if known, err := t.job(u.ID); err == nil {
		j = known
	} else if errors.Is(err, store.ErrNotFound) {
		return nil
	} else {
		return err
	}
	if j.ID != u.ID || j.Update(u, t.now) != nil {
		return nil
	}
	met, err := t.changed(`UPDATE jobs SET state = ?, failures = ?, losses = ?, result = ?, error = ?, cancelling = 0, untold = ?, updated = ?, owner = '', lease = ?
		WHERE id = ? AND owner = ? AND epoch = ? AND state IN ('running', 'waiting')`,
		string(j.State), j.Failures, j.Losses, string(j.Result), j.Error, j.Untold, j.Updated.UnixMicro(), j.Lease.UnixMicro(), j.ID, u.Owner, u.Epoch)
	if met && u.Ended != nil {
		*u.Ended = j
	}
	return err
}

// Job implements [store.Jobs].
func (s *jobs) Job(ctx context.Context, id string) (j store.Job, err error) {
	if err := store.CheckJobID(id); err != nil {
		return store.Job{}, err
	}
	err = s.read(ctx, "reading a job", func(q reader) error {
		j, err = scanJob(q.row("SELECT "+jobColumns+" FROM jobs WHERE id = ?", id))
		return err
	})
	if err != nil {
		return store.Job{}, err
	}
	return j, nil
}

// Jobs implements [store.Jobs].
func (s *jobs) Jobs(ctx context.Context, q store.JobQuery) ([]store.Job, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	cursor, paged, err := store.ParseCursor(q.After)
	if err != nil {
		return nil, err
	}
	w := jobConditions(q)
	columns := jobColumns
	if q.Brief {
		columns = briefColumns
	}
	query, args := w.newest("SELECT "+columns+" FROM jobs", cursor, paged, store.PageSize(q.Limit))
	return list(ctx, s.database, "listing jobs", query, args, scanJob, store.Job.Bytes)
}

func jobConditions(q store.JobQuery) (w where) {
	if q.Beginning != "" {
		w.beginning(q.Beginning)
	}
	w.jobStates(q.States)
	if q.Agent != "" {
		w.and("agent = ?", q.Agent)
	}
	if q.Batch != "" {
		w.and("batch <> '' AND batch = ?", q.Batch)
	}
	if q.Schedule != "" {
		w.and("schedule <> '' AND schedule = ?", q.Schedule)
	}
	if q.Owner != "" {
		w.and("owner <> '' AND owner = ?", q.Owner)
	}
	if q.Cancelling {
		w.and("cancelling = 1")
	}
	if q.Untold {
		w.and("untold = 1")
	}
	return w
}

// Jobs that are running have a lease, and are found by it; most jobs are done, and are found by their times. The
// index of states has neither.
const (
	areRunning   = "owner <> '' AND state = 'running'"
	areElsewhere = "state NOT IN ('running', 'done')"
)

// jobStates requires one of these states, if there are any.
func (w *where) jobStates(states []store.JobState) {
	if slices.Contains(states, store.JobDone) || !slices.Contains(states, store.JobRunning) {
		oneOf(w, "state", states)
		if len(states) > 0 && !slices.Contains(states, store.JobDone) {
			w.and(areElsewhere)
		}
		return
	}
	var others where
	oneOf(&others, "state", states)
	w.and("n IN (SELECT n FROM jobs WHERE "+areRunning+" UNION ALL SELECT n FROM jobs WHERE "+areElsewhere+" AND "+others.conditions[0]+")", others.args...)
}

// JobCounts implements [store.Jobs].
func (s *jobs) JobCounts(ctx context.Context) (map[store.JobState]int, error) {
	counts := make(map[store.JobState]int)
	for _, state := range store.JobStates() {
		counts[state] = 0
	}
	err := s.read(ctx, "counting jobs", func(q reader) error {
		// One statement: the counts are those of one moment.
		return q.each("SELECT state, count(*) FROM jobs WHERE "+areElsewhere+" GROUP BY state "+
			"UNION ALL SELECT 'running', count(*) FROM jobs WHERE "+areRunning+" UNION ALL SELECT 'done', count(*) FROM jobs", nil,
			func(row scanner) (bool, error) {
				var state store.JobState
				var n int
				err := row.Scan(&state, &n)
				counts[state] = n
				return true, err
			})
	})
	for state, n := range counts {
		if state != store.JobDone {
			counts[store.JobDone] -= n
		}
	}
	if err != nil {
		return nil, err
	}
	return counts, nil
}

// DeleteJob implements [store.Jobs].
func (s *jobs) DeleteJob(ctx context.Context, id string) error {
	if err := store.CheckJobID(id); err != nil {
		return err
	}
	return s.writer.do(ctx, "deleting a job", weight{events: 1}, func(t *tx) error {
		j, err := t.job(id)
		if err != nil {
			return err
		}
		if j.Held(t.now) {
			return store.ErrLeased
		}
		return t.removeJob(id, j.Epoch)
	})
}

// removeJob deletes a job.
func (t *tx) removeJob(id string, epoch int64) error {
	if err := t.exec("UPDATE fence SET job = max(job, ?)", epoch); err != nil {
		return err
	}
	return t.exec("DELETE FROM jobs WHERE id = ?", id)
}
