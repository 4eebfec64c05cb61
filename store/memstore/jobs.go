package memstore

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// queue holds the jobs by all that they are looked for. A job moves only in put, which looks
// after the indexes.
type queue struct {
	rows   map[string]*job
	keys   map[string]*job     // by idempotency key
	due    map[string]*dueHeap // of each agent, the queued ones
	held   map[*job]struct{}   // they have a lease, expired or not
	left   map[*job]struct{}   // to be cancelled, without a lease
	counts map[store.JobState]int
	added  int64             // numbers jobs
	waits  map[string]string // the job that waits for an ask without a worker
	fence  int64             // highest epoch of a deleted job
}

// job is one with its place in the queue.
type job struct {
	store.Job
	n     int64
	due   time.Time
	index int // in its heap; below zero if it is in none
}

// jobs is the queue of a store.
type jobs struct {
	*memory
	queue
	records *records // which notifications add to
	asks    *asks    // which jobs wait for
}

func newJobs(m *memory, r *records) *jobs {
	return &jobs{memory: m, records: r, queue: queue{rows: map[string]*job{}, keys: map[string]*job{}, due: map[string]*dueHeap{},
		waits: map[string]string{}, held: map[*job]struct{}{}, left: map[*job]struct{}{}, counts: map[store.JobState]int{}}}
}

// put changes a job, and its place in the indexes.
func (q *queue) put(j *job, to store.Job) {
	q.counts[j.State]--
	q.counts[to.State]++
	j.Job = to
	queue := q.due[j.Agent]
	if j.index >= 0 {
		heap.Remove(queue, j.index)
	}
	if j.State == store.JobQueued {
		if queue == nil {
			queue = new(dueHeap)
			q.due[j.Agent] = queue
		}
		j.due = j.Due()
		heap.Push(queue, j)
	}
	member(q.held, j, j.Owner != "")
	member(q.left, j, j.Owner == "" && j.State == store.JobWaiting)
}

func member(set map[*job]struct{}, j *job, in bool) {
	if in {
		set[j] = struct{}{}
	} else {
		delete(set, j)
	}
}

// remove takes a job away.
func (q *queue) remove(j *job) {
	to := j.Job
	to.State, to.Owner, to.Cancelling = store.JobDone, "", false
	q.put(j, to)
	q.counts[store.JobDone]--
	q.fence = max(q.fence, j.Epoch)
	delete(q.rows, j.ID)
	if j.Key != "" {
		delete(q.keys, j.Key)
	}
}

// AddJob implements [store.Jobs].
func (s *jobs) AddJob(ctx context.Context, in store.Job) (store.Job, error) {
	if err := in.Check(); err != nil {
		return store.Job{}, err
	}
	if in.ID == "" {
		in.ID = store.NewJobID()
	}
	return get(ctx, s.memory, func(now time.Time) (store.Job, error) { return s.addJob(in, now) })
}

// addJob queues a job, unless there is one of that ID or key.
func (s *jobs) addJob(in store.Job, now time.Time) (store.Job, error) {
	old := s.rows[in.ID]
	if old == nil && in.Key != "" {
		old = s.keys[in.Key]
	}
	if old != nil {
		if old.InputHash() == in.InputHash() {
			return cloneJob(old.Job), store.ErrRepeated
		}
		return cloneJob(old.Job), store.ErrExists
	}
	to := cloneJob(in.Queued(now))
	to.Epoch = s.fence + 1
	if err := s.grow(sizeOfJob(to)); err != nil {
		return store.Job{}, err
	}
	s.added++
	j := &job{n: s.added, index: -1}
	s.counts[""]++ // where put takes it from
	j.Agent = to.Agent
	s.put(j, to)
	s.rows[j.ID] = j
	if j.Key != "" {
		s.keys[j.Key] = j
	}
	return cloneJob(j.Job), nil
}

// ClaimJobs implements [store.Jobs].
func (s *jobs) ClaimJobs(ctx context.Context, owner string, n int, ttl time.Duration, agents []string, except ...string) ([]store.Job, error) {
	if err := store.CheckClaim(owner, n, ttl, agents, except...); err != nil {
		return nil, err
	}
	list := []store.Job{}
	err := s.do(ctx, func(now time.Time) error {
		for _, j := range s.lost(now, agents) { // Claim refuses the owner's own
			if to := j.Job; len(list) < n && !slices.Contains(except, j.ID) && to.Claim(owner, now, ttl) {
				list = append(list, s.claimed(j, to))
			}
		}
		for len(list) < n {
			j := s.next(agents)
			if j == nil {
				break
			}
			to := j.Job
			if !to.Claim(owner, now, ttl) {
				break
			}
			list = append(list, s.claimed(j, to))
		}
		return nil
	})
	return list, err
}

// StartAdd implements [store.JobStarter]. It calls done before it returns.
func (s *jobs) StartAdd(j store.Job, done func(store.Job, error)) {
	done(s.AddJob(context.Background(), j))
}

// StartClaim implements [store.JobStarter]. It calls done before it returns.
func (s *jobs) StartClaim(c store.Claim, done func([]store.Job, error)) {
	if err := c.Check(); err != nil {
		done(nil, err)
		return
	}
	done(s.ClaimJobs(context.Background(), c.Owner, min(max(c.Places(), 0), store.MaxClaim), c.TTL, c.Agents))
}

// claimed records a claim; Lost is for its owner only.
func (s *jobs) claimed(j *job, to store.Job) store.Job {
	out := cloneJob(to)
	to.Lost = false
	s.move(j, to)
	return out
}

// move changes a job by little more than its lease, which is not refused where the store is full.
func (s *jobs) move(j *job, to store.Job) {
	s.used += sizeOfJob(to) - sizeOfJob(j.Job)
	s.put(j, to)
}

// lost returns the jobs that were begun and have no lease any more, the longest lost first.
func (q *queue) lost(now time.Time, agents []string) []*job {
	var list []*job
	for j := range q.held {
		if !j.Held(now) && slices.Contains(agents, j.Agent) {
			list = append(list, j)
		}
	}
	for j := range q.left {
		if !now.Before(j.NotBefore) && slices.Contains(agents, j.Agent) {
			list = append(list, j)
		}
	}
	slices.SortFunc(list, func(a, b *job) int { return cmp.Or(a.Lease.Compare(b.Lease), cmp.Compare(a.n, b.n)) })
	return list
}

// next returns the queued job of these agents that is due first.
func (q *queue) next(agents []string) (first *job) {
	for _, a := range agents {
		if h := q.due[a]; h != nil && h.Len() > 0 && (first == nil || before((*h)[0], first)) {
			first = (*h)[0]
		}
	}
	return first
}

// RenewJobs implements [store.Jobs].
func (s *jobs) RenewJobs(ctx context.Context, owner string, ttl time.Duration, leases []store.JobLease) ([]store.JobLease, error) {
	if err := store.CheckLeases(owner, ttl, leases); err != nil {
		return nil, err
	}
	held := []store.JobLease{}
	err := s.do(ctx, func(now time.Time) error {
		for _, l := range leases {
			if j := s.rows[l.ID]; j != nil && j.Owner == owner && j.Epoch == l.Epoch {
				j.Lease = now.Add(ttl)
				held = append(held, l)
			}
		}
		return nil
	})
	return held, err
}

// UpdateJob implements [store.Jobs].
func (s *jobs) UpdateJob(ctx context.Context, u store.JobUpdate) (store.Job, error) {
	if err := u.Check(); err != nil {
		return store.Job{}, err
	}
	u.Result = body(u.Result)
	return s.changeJob(ctx, u.ID, func(j *store.Job, now time.Time) error {
		var asks []store.Ask
		for _, id := range u.Waits {
			if a := s.asks.rows[id]; a != nil {
				asks = append(asks, *a)
			}
		}
		if len(u.Waits) > 0 {
			u.Until(asks, now)
		}
		err := j.Update(u, now)
		if u.Failed && j.State == store.JobQueued {
			j.GoOn(s.asks.runs[j.Run] != nil)
		}
		for i := 0; i < len(asks) && err == nil; i++ {
			s.waits[asks[i].ID] = j.ID
		}
		return err
	})
}

// wake has a job given out that waits for an ask which was decided. It is called under the lock.
func (s *jobs) wake(ask string) {
	id, ok := s.waits[ask]
	if !ok {
		return
	}
	delete(s.waits, ask)
	if j := s.rows[id]; j != nil {
		to := j.Job
		to.Wake()
		s.put(j, to)
	}
}

// CancelJob implements [store.Jobs].
func (s *jobs) CancelJob(ctx context.Context, id string) (store.Job, error) {
	return s.changeJob(ctx, id, (*store.Job).Cancel)
}

// RetryJob implements [store.Jobs].
func (s *jobs) RetryJob(ctx context.Context, id string, fromStart bool) (store.Job, error) {
	return s.changeJob(ctx, id, func(j *store.Job, now time.Time) error {
		err := j.Retry(now, fromStart)
		j.GoOn(!fromStart && s.asks.runs[j.Run] != nil)
		return err
	})
}

// ClaimNotification implements [store.Jobs].
func (s *jobs) ClaimNotification(ctx context.Context, id string, epoch int64, r *store.Record) error {
	if err := store.CheckNotification(id, r); err != nil {
		return err
	}
	return s.do(ctx, func(now time.Time) error {
		j := s.rows[id]
		if j == nil {
			return store.ErrNotFound
		}
		to := j.Job
		if err := to.ClaimNotification(epoch); err != nil {
			return err
		}
		if r != nil {
			if err := s.records.put(*r, now); err != nil {
				return err
			}
		}
		s.put(j, to)
		return nil
	})
}

func (s *jobs) changeJob(ctx context.Context, id string, change func(*store.Job, time.Time) error) (store.Job, error) {
	if err := store.CheckJobID(id); err != nil {
		return store.Job{}, err
	}
	return get(ctx, s.memory, func(now time.Time) (store.Job, error) {
		j := s.rows[id]
		if j == nil {
			return store.Job{}, store.ErrNotFound
		}
		to := j.Job
		if err := change(&to, now); err != nil {
			return cloneJob(j.Job), err
		}
		if err := s.grow(sizeOfJob(to) - sizeOfJob(j.Job)); err != nil {
			return store.Job{}, err
		}
		s.put(j, to)
		return cloneJob(to), nil
	})
}

// ended returns the job that an append ends, and how it is then; nil if its lease is not held.
func (s *jobs) ended(u *store.JobUpdate, now time.Time) (*job, store.Job) {
	if u == nil || s.rows[u.ID] == nil {
		return nil, store.Job{}
	}
	j, end := s.rows[u.ID], *u
	to := j.Job
	end.Result = body(u.Result)
	if to.Update(end, now) != nil {
		return nil, store.Job{}
	}
	return j, to
}

// Job implements [store.Jobs].
func (s *jobs) Job(ctx context.Context, id string) (store.Job, error) {
	if err := store.CheckJobID(id); err != nil {
		return store.Job{}, err
	}
	return get(ctx, s.memory, func(time.Time) (store.Job, error) {
		j := s.rows[id]
		if j == nil {
			return store.Job{}, store.ErrNotFound
		}
		return cloneJob(j.Job), nil
	})
}

// Jobs implements [store.Jobs]. It looks at every job, unless an owner is asked for.
func (s *jobs) Jobs(ctx context.Context, q store.JobQuery) ([]store.Job, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	cursor, paged, err := store.ParseCursor(q.After)
	if err != nil {
		return nil, err
	}
	list := []store.Job{}
	err = s.do(ctx, func(time.Time) error {
		var found []*job
		look := func(j *job) {
			if wanted(&j.Job, q) && (!paged || cursor.Before(j.Created, j.ID)) {
				found = append(found, j)
			}
		}
		if q.Owner != "" {
			for j := range s.held {
				look(j)
			}
		} else {
			for _, j := range s.rows {
				look(j)
			}
		}
		slices.SortFunc(found, func(a, b *job) int { return newest(a.Created, b.Created, a.ID, b.ID) })
		list = page(found, q.Limit, store.Job.Bytes, func(j *job) store.Job {
			if q.Brief {
				return cloneJob(j.Brief())
			}
			return cloneJob(j.Job)
		})
		return nil
	})
	return list, err
}

func wanted(j *store.Job, q store.JobQuery) bool {
	return strings.HasPrefix(j.ID, q.Beginning) && (len(q.States) == 0 || slices.Contains(q.States, j.State)) &&
		(q.Agent == "" || q.Agent == j.Agent) && (q.Batch == "" || q.Batch == j.Batch) &&
		(q.Schedule == "" || q.Schedule == j.Schedule) && (q.Owner == "" || q.Owner == j.Owner) &&
		(!q.Cancelling || j.Cancelling) && (!q.Untold || j.Untold)
}

// JobCounts implements [store.Jobs].
func (s *jobs) JobCounts(ctx context.Context) (map[store.JobState]int, error) {
	return get(ctx, s.memory, func(time.Time) (map[store.JobState]int, error) {
		counts := make(map[store.JobState]int)
		for _, state := range store.JobStates() {
			counts[state] = s.counts[state]
		}
		return counts, nil
	})
}

// DeleteJob implements [store.Jobs].
func (s *jobs) DeleteJob(ctx context.Context, id string) error {
	if err := store.CheckJobID(id); err != nil {
		return err
	}
	return s.do(ctx, func(now time.Time) error {
		j := s.rows[id]
		switch {
		case j == nil:
			return store.ErrNotFound
		case j.Held(now):
			return store.ErrLeased
		}
		s.used -= sizeOfJob(j.Job)
		s.remove(j)
		return nil
	})
}

// PruneJobs implements [store.Jobs].
func (s *jobs) PruneJobs(ctx context.Context, p store.Prune) (removed int, err error) {
	if err := p.Check(); err != nil {
		return 0, err
	}
	return get(ctx, s.memory, func(time.Time) (int, error) {
		var ended []*job
		for _, j := range s.rows {
			if j.State.Ended() && p.Has(j.Agent, string(j.State)) {
				ended = append(ended, j)
			}
		}
		old := pruned(p, ended, func(j *job) (time.Time, time.Time, string) { return j.Created, j.Updated, j.ID }, func(j *job) bool { return !j.Untold })
		for _, j := range old {
			s.used -= sizeOfJob(j.Job)
			s.remove(j)
		}
		return len(old), nil
	})
}

// cloneJob copies what j shares with its caller.
func cloneJob(j store.Job) store.Job {
	j.Input, j.Result = body(j.Input), body(j.Result)
	return j
}

func sizeOfJob(j store.Job) int64 {
	return int64(2*entryBytes + len(j.ID) + len(j.Agent) + len(j.Key) + len(j.Batch) + len(j.Hook) + len(j.Schedule) +
		len(j.Run) + len(j.From) + len(j.Error) + len(j.Owner) + j.Bytes())
}

// dueHeap orders the queued jobs of one agent.
type dueHeap []*job

func before(a, b *job) bool {
	if !a.due.Equal(b.due) {
		return a.due.Before(b.due)
	}
	return a.n < b.n
}

// Len implements [heap.Interface].
func (h dueHeap) Len() int { return len(h) }

// Less implements [heap.Interface].
func (h dueHeap) Less(i, j int) bool { return before(h[i], h[j]) }

// Swap implements [heap.Interface].
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements [heap.Interface].
func (h *dueHeap) Push(x any) {
	j, _ := x.(*job)
	j.index = len(*h)
	*h = append(*h, j)
}

// Pop implements [heap.Interface].
func (h *dueHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	last.index = -1
	return last
}
