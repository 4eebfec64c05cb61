package memstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// journal holds the runs with their events and leases.
type journal struct {
	*memory
	asks    *asks // which runs open and settle
	jobs    *jobs // which runs end
	runs    runs
	deleted int64 // highest epoch of a deleted run; a new run starts above it
}

// Create implements [store.Journal].
func (s *journal) Create(ctx context.Context, r store.Run, owner string, ttl time.Duration, first ...store.Event) (store.Run, error) {
	if err := r.Check(); err != nil {
		return store.Run{}, err
	}
	if err := store.CheckLease(owner, ttl); err != nil {
		return store.Run{}, err
	}
	if err := store.CheckEvents(first); err != nil {
		return store.Run{}, err
	}
	return get(ctx, s.memory, func(now time.Time) (store.Run, error) {
		if old, ok := s.runs[r.ID]; ok {
			return s.seen(old), store.ErrExists
		}
		if err := s.lease(&r, owner, now, ttl); err != nil {
			return store.Run{}, err
		}
		n := &run{bytes: sizeOfRun(r) + sizeOf(first)}
		if err := s.grow(n.bytes); err != nil {
			return store.Run{}, err
		}
		if r.State == "" {
			r.State = store.Running
		}
		r.Created, r.Updated, r.Seq = now, now, 0
		n.head = r
		n.add(first, r.Epoch, now)
		s.runs[r.ID] = n
		return s.seen(n), nil
	})
}

// lease makes a run that is created the root of a tree with a lease of its own, or a part of one that owner holds.
func (s *journal) lease(r *store.Run, owner string, now time.Time, ttl time.Duration) error {
	r.Root, r.Owner, r.Expires = r.ID, "", time.Time{}
	if above := s.runs[r.Parent]; above != nil {
		head := s.seen(above)
		if r.Root, r.Job = head.Root, head.Job; !head.HeldBy(owner, r.Epoch) {
			return store.ErrFenced
		}
		return nil
	}
	if r.Parent != "" {
		r.Job = ""
	}
	if r.Job == "" {
		r.Owner, r.Epoch, r.Expires = owner, s.deleted+1, now.Add(ttl)
		return nil
	}
	if j := s.jobs.rows[r.Job]; j == nil || !j.Leases(r.ID) || j.Owner != owner || j.Epoch != r.Epoch {
		return store.ErrFenced
	}
	return nil
}

// tree returns what has the lease of a run's tree: its job, if that is not nil, else a run. That is the root, or the
// run itself where the root was deleted.
func (s *journal) tree(r *run) (*run, *job) {
	if j := s.jobs.rows[r.head.Job]; j != nil && j.Leases(r.head.Root) {
		return nil, j
	}
	if root := s.runs[r.head.Root]; root != nil {
		return root, nil
	}
	return r, nil
}

// seen returns a run as it is read: with the lease of its tree.
func (s *journal) seen(r *run) store.Run {
	head := r.head
	if head.State.Ended() {
		head.Owner, head.Expires = "", time.Time{} // the tree may go on
	} else if root, j := s.tree(r); j != nil {
		head.Owner, head.Epoch, head.Expires = j.Owner, j.Epoch, j.Lease
	} else {
		head.Owner, head.Epoch, head.Expires = root.head.Owner, root.head.Epoch, root.head.Expires
	}
	return head
}

// Append implements [store.Journal].
func (s *journal) Append(ctx context.Context, a store.Append) (last int64, err error) {
	if err := a.Check(); err != nil {
		return 0, err
	}
	err = s.do(ctx, func(now time.Time) error {
		r, err := s.appendable(a)
		if r != nil && err == errRepeat {
			last = a.After + int64(len(a.Events))
			return nil
		}
		if err != nil {
			return err
		}
		open, err := s.unopened(a, now)
		if err != nil {
			return err
		}
		n := sizeOf(a.Events) + sizeOfAsks(open, a.Settle)
		if a.Summary != "" {
			n += int64(len(a.Summary) - len(r.head.Summary))
		}
		job, ended := s.jobs.ended(a.Job, now)
		grows := n
		if job != nil {
			grows += sizeOfJob(ended) - sizeOfJob(job.Job)
		}
		if err := s.grow(grows); err != nil {
			return err
		}
		if job != nil {
			s.jobs.put(job, ended)
			if a.Job.Ended != nil {
				*a.Job.Ended = cloneJob(ended)
			}
		}
		r.bytes += n - sizeOfAsks(open, a.Settle)
		r.add(a.Events, a.Epoch, now)
		r.change(a, now)
		for _, ask := range open {
			s.asks.add(ask, now)
		}
		for _, d := range a.Settle {
			s.asks.decide(d.Ask, d.Decision, now)
		}
		last = r.head.Seq
		return nil
	})
	return last, err
}

// StartCreate implements [store.Starter]. It calls done before it returns.
func (s *journal) StartCreate(r store.Run, owner string, ttl time.Duration, first []store.Event, done func(store.Run, error)) {
	done(s.Create(context.Background(), r, owner, ttl, first...))
}

// StartAppend implements [store.Starter]. It calls done before it returns.
func (s *journal) StartAppend(a store.Append, done func(last int64, err error)) {
	done(s.Append(context.Background(), a))
}

// errRepeat says that an append was made before.
var errRepeat = errors.New("it is there already")

// appendable returns the run that a may be written to.
func (s *journal) appendable(a store.Append) (*run, error) {
	r, err := s.runs.writable(a.Run)
	if r == nil {
		return nil, err
	}
	head := s.seen(r)
	if a.After != store.Unchecked && head.Epoch == a.Epoch && a.After < r.head.Seq &&
		a.Repeats(slices.Collect(r.page(a.After, min(a.After+int64(len(a.Events)), r.head.Seq)))) {
		return r, errRepeat
	}
	switch {
	case err != nil:
		return r, err
	case !head.HeldBy(a.Owner, a.Epoch):
		return r, store.ErrFenced
	case a.After != store.Unchecked && a.After != r.head.Seq:
		return r, store.ErrConflict
	}
	return r, nil
}

// unopened returns the asks of a that are still to be opened, or why its asks cannot
// be opened and settled.
func (s *journal) unopened(a store.Append, now time.Time) ([]store.Ask, error) {
	var open []store.Ask
	for _, ask := range a.Asks {
		old := s.asks.rows[ask.ID]
		if old == nil {
			ask.Decision = store.Decision{}
			open = append(open, ask)
		} else if old.Run != ask.Run || old.Hash != ask.Hash {
			return nil, store.ErrExists
		}
	}
	for _, d := range a.Settle {
		ask := s.asks.rows[d.Ask]
		if ask == nil || ask.Run != a.Run {
			return nil, store.ErrNotFound
		}
		if ask.Seen(now).Status != store.AskPending {
			return nil, store.ErrSettled
		}
	}
	return open, nil
}

func sizeOfAsks(open []store.Ask, settle []store.Settlement) (n int64) {
	for _, a := range open {
		n += sizeOfAsk(a)
	}
	for _, d := range settle {
		n += sizeOfDecision(d.Decision)
	}
	return n
}

// Events implements [store.Journal].
func (s *journal) Events(ctx context.Context, id string, after int64, limit int) ([]store.Event, error) {
	if err := store.CheckID("run", id); err != nil {
		return nil, err
	}
	page := []store.Event{}
	err := s.do(ctx, func(time.Time) error {
		r, ok := s.runs[id]
		if !ok {
			return store.ErrNotFound
		}
		bytes := 0
		from := min(max(after, 0), r.head.Seq)
		for e := range r.page(from, min(from+int64(store.PageSize(limit)), r.head.Seq)) {
			if bytes += len(e.Body); bytes > store.MaxPageBytes && len(page) > 0 {
				break
			}
			e.Body = body(e.Body)
			page = append(page, e)
		}
		return nil
	})
	return page, err
}

// Run implements [store.Journal].
func (s *journal) Run(ctx context.Context, id string) (store.Run, error) {
	if err := store.CheckID("run", id); err != nil {
		return store.Run{}, err
	}
	return get(ctx, s.memory, func(time.Time) (store.Run, error) {
		r, ok := s.runs[id]
		if !ok {
			return store.Run{}, store.ErrNotFound
		}
		return s.seen(r), nil
	})
}

// Runs implements [store.Journal]. It looks at every run.
func (s *journal) Runs(ctx context.Context, q store.Query) ([]store.Run, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	cursor, paged, err := store.ParseCursor(q.After)
	if err != nil {
		return nil, err
	}
	list := []store.Run{}
	err = s.do(ctx, func(now time.Time) error {
		for _, r := range s.runs {
			if head := s.seen(r); matches(head, q, now) && (!paged || cursor.Before(head.Created, head.ID)) {
				list = append(list, head)
			}
		}
		return nil
	})
	slices.SortFunc(list, func(a, b store.Run) int { return newest(a.Created, b.Created, a.ID, b.ID) })
	return slices.Clip(list[:min(len(list), store.PageSize(q.Limit))]), err
}

// Delete implements [store.Journal].
func (s *journal) Delete(ctx context.Context, id string) error {
	if err := store.CheckID("run", id); err != nil {
		return err
	}
	return s.do(ctx, func(now time.Time) error {
		r, ok := s.runs[id]
		if !ok {
			return store.ErrNotFound
		}
		if s.seen(r).Leased(now) {
			return store.ErrLeased
		}
		s.remove(id, r)
		return nil
	})
}

// remove forgets a run, its events and its asks.
func (s *journal) remove(id string, r *run) {
	s.deleted = max(s.deleted, s.seen(r).Epoch)
	s.used -= r.bytes
	delete(s.runs, id)
	for k, a := range s.asks.rows {
		if a.Run == id {
			s.used -= sizeOfAsk(*a)
			delete(s.asks.rows, k)
		}
	}
}

// PruneRuns implements [store.Journal].
func (s *journal) PruneRuns(ctx context.Context, p store.Prune) (removed int, err error) {
	if err := p.Check(); err != nil {
		return 0, err
	}
	return get(ctx, s.memory, func(time.Time) (int, error) {
		var ended []store.Run
		for _, r := range s.runs {
			if r.head.State.Ended() && p.Has(r.head.Agent, string(r.head.State)) {
				ended = append(ended, r.head)
			}
		}
		old := pruned(p, ended, func(r store.Run) (time.Time, time.Time, string) { return r.Created, r.Updated, r.ID }, func(r store.Run) bool {
			parent := s.runs[r.Parent]
			return parent == nil || parent.head.State.Ended()
		})
		for _, r := range old {
			s.remove(r.ID, s.runs[r.ID])
		}
		return len(old), nil
	})
}

// pruned returns what of the ended entries p removes, of those that may go.
func pruned[T any](p store.Prune, ended []T, of func(T) (created, updated time.Time, id string), may func(T) bool) []T {
	slices.SortFunc(ended, func(a, b T) int {
		createdA, _, idA := of(a)
		createdB, _, idB := of(b)
		return cmp.Or(createdA.Compare(createdB), cmp.Compare(idA, idB))
	})
	beyond := 0 // so many are beyond the number that is kept
	if p.Keep > 0 {
		beyond = max(len(ended)-p.Keep, 0)
	}
	var old []T
	for i, e := range ended {
		if _, updated, _ := of(e); len(old) < p.Most() && may(e) && (i < beyond || updated.Before(p.Before)) {
			old = append(old, e)
		}
	}
	return old
}

// Claim implements [store.Leases].
func (s *journal) Claim(ctx context.Context, id, owner string, ttl time.Duration) (store.Run, error) {
	if err := checkLease(id, owner, ttl); err != nil {
		return store.Run{}, err
	}
	return get(ctx, s.memory, func(now time.Time) (store.Run, error) {
		r, err := s.runs.writable(id)
		if r == nil {
			return store.Run{}, err
		}
		if err == nil {
			err = s.claim(r, owner, now, ttl)
		}
		return s.seen(r), err
	})
}

// claim leases the tree of a run to owner.
func (s *journal) claim(r *run, owner string, now time.Time, ttl time.Duration) error {
	root, j := s.tree(r)
	if j != nil {
		to := j.Job
		if !to.TakeUp(owner, now, ttl) {
			return store.ErrLeased
		}
		s.jobs.move(j, to)
		return nil
	}
	head := &root.head
	if head.Owner != owner && head.Leased(now) {
		return store.ErrLeased
	}
	if head.Job != "" { // it had the job's lease before, whose epochs are other ones
		epoch := s.jobs.fence
		if j := s.jobs.rows[head.Job]; j != nil {
			epoch = j.Epoch
		}
		head.Epoch = max(head.Epoch, epoch)
	}
	if head.ID != head.Root && s.runs[head.Root] == nil { // it had that of its root
		head.Epoch = max(head.Epoch, s.deleted)
	}
	head.Owner, head.Epoch, head.Expires = owner, head.Epoch+1, now.Add(ttl)
	return nil
}

// Renew implements [store.Leases].
func (s *journal) Renew(ctx context.Context, id, owner string, epoch int64, ttl time.Duration) error {
	if err := checkLease(id, owner, ttl); err != nil {
		return err
	}
	return s.do(ctx, func(now time.Time) error {
		r, err := s.runs.writable(id)
		if err != nil {
			return err
		}
		if !s.seen(r).HeldBy(owner, epoch) {
			return store.ErrFenced
		}
		if root, j := s.tree(r); j != nil {
			j.Lease = now.Add(ttl)
		} else {
			root.head.Expires = now.Add(ttl)
		}
		return nil
	})
}

// Release implements [store.Leases].
func (s *journal) Release(ctx context.Context, id, owner string, epoch int64) error {
	if err := checkLease(id, owner, time.Second); err != nil {
		return err
	}
	return s.do(ctx, func(now time.Time) error {
		r, ok := s.runs[id]
		if !ok {
			return store.ErrNotFound
		}
		head := s.seen(r)
		switch root, j := s.tree(r); {
		case head.Epoch != epoch || head.Owner != "" && head.Owner != owner:
			return store.ErrFenced
		case head.Owner == "": // it was released, or has ended
		case j != nil:
			asks := s.pending(head.Root)
			to := j.Job
			to.LeaveRun(asks, now)
			s.jobs.move(j, to)
			for _, a := range asks {
				s.jobs.waits[a.ID] = j.ID
			}
		default:
			root.head.Owner, root.head.Expires = "", time.Time{}
		}
		return nil
	})
}

// pending returns the pending asks of a tree.
func (s *journal) pending(root string) (list []store.Ask) {
	for _, a := range s.asks.rows {
		if r := s.runs[a.Run]; r != nil && r.head.Root == root && a.Status == store.AskPending {
			list = append(list, *a)
		}
	}
	return list
}

func checkLease(run, owner string, ttl time.Duration) error {
	if err := store.CheckID("run", run); err != nil {
		return err
	}
	return store.CheckLease(owner, ttl)
}
