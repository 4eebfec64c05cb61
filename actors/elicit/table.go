package elicit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// What a wait can end with beside success.
var (
	// ErrExpired says that neither a completion nor a person came in time.
	ErrExpired = errors.New("elicit: expired")
	// ErrCancelled says that Cancel gave it up; the error wraps the cause too.
	ErrCancelled = errors.New("elicit: cancelled")
	// ErrFailed says that its actor has failed or was stopped.
	ErrFailed = errors.New("elicit: failed")
	// ErrLimit refuses one more pending elicitation.
	ErrLimit = errors.New("elicit: too many pending")
	// ErrID refuses an id that is empty or longer than a kilobyte.
	ErrID = errors.New("elicit: the id is empty or too long")
)

// maxID bounds an id, in bytes: it is the peer's (ROB-3).
const maxID = 1 << 10

// Options bounds a table.
type Options struct {
	// Limit bounds the pending elicitations. Zero means 10,000.
	Limit int
	// Early bounds the ids of completed elicitations that are remembered, EarlyFor
	// the time. Zero means 1,000 and five minutes.
	Early    int
	EarlyFor time.Duration
	// Expiry ends a pending elicitation after so long. Zero means an hour, negative
	// means never.
	Expiry time.Duration
	// LookEvery is how often those of [Table.OpenLooking] look whether they are done. Zero
	// means three seconds.
	LookEvery time.Duration
	// Logger takes structured logs. Nil drops them.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Limit = cmp.Or(o.Limit, 10_000)
	o.Early = cmp.Or(o.Early, 1000)
	o.EarlyFor = cmp.Or(o.EarlyFor, 5*time.Minute)
	o.Expiry = cmp.Or(o.Expiry, time.Hour)
	o.LookEvery = cmp.Or(o.LookEvery, 3*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// Table holds the pending elicitations of one connection. Its methods may be used
// from any goroutine.
type Table struct {
	spawn actors.SpawnFunc
	opts  Options

	mu      sync.Mutex // nothing is called under it
	pending map[string]*Pending
	recent  recent
}

// New returns an empty table; spawn starts its actors.
func New(spawn actors.SpawnFunc, opts Options) *Table {
	return &Table{spawn: spawn, opts: opts.withDefaults(), pending: make(map[string]*Pending)}
}

// Open returns the pending elicitation with this id; it is made if there is none.
// One whose completion has come before is over already. The error is [ErrLimit] or
// [ErrID].
func (t *Table) Open(id string) (*Pending, error) { return t.OpenLooking(id, time.Time{}, nil) }

// OpenLooking is Open for an elicitation with an expiry of its own, unless that is zero, which
// may be completed elsewhere, where no notification calls Complete: its actor calls done every
// [Options].LookEvery, and once more before it expires. Done is called on a task of the actor and
// must heed ctx; [ErrExpired] and [ErrCancelled] end it, any other error means that done does not
// know. Nil, and the done of one that is pending already, are not called.
func (t *Table) OpenLooking(id string, expiry time.Time, done func(ctx context.Context) (bool, error)) (*Pending, error) {
	if id == "" || len(id) > maxID {
		return nil, ErrID
	}
	t.mu.Lock()
	if p := t.pending[id]; p != nil {
		t.mu.Unlock()
		return p, nil
	}
	p := &Pending{table: t, id: id, expiry: expiry, done: done}
	if t.recent.has(id, time.Now(), t.opts.EarlyFor) {
		t.mu.Unlock()
		p.over = true
		return p, nil
	}
	if len(t.pending) >= t.opts.Limit {
		t.mu.Unlock()
		return nil, fmt.Errorf("%w (%d)", ErrLimit, t.opts.Limit)
	}
	t.pending[id] = p
	t.mu.Unlock()
	if expiry.IsZero() && t.opts.Expiry > 0 {
		p.expiry = time.Now().Add(t.opts.Expiry)
	}
	t.spawn(actors.Spec{
		Kind: actors.KindElicitation, New: p.newActor, OnStop: p.stopped,
	}, p.spawned)
	return p, nil
}

// Complete says that the server has what it wanted. An id that is not pending
// is remembered, as it may be opened yet.
func (t *Table) Complete(id string) {
	if id == "" || len(id) > maxID {
		return
	}
	t.mu.Lock()
	p := t.pending[id]
	// Those that are pending as well: another call may be answered with the same id
	// after its completion.
	t.recent.add(id, time.Now(), t.opts.Early, t.opts.EarlyFor)
	t.mu.Unlock()
	if p != nil {
		p.tell(&completed{})
	}
}

// Pending returns the pending elicitation with this id, nil if there is none.
func (t *Table) Pending(id string) *Pending {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pending[id]
}

// Len returns how many are pending.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.pending)
}

// forget takes out a pending elicitation that is over.
func (t *Table) forget(p *Pending) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending[p.id] == p {
		delete(t.pending, p.id)
	}
}

// recent remembers the ids that were completed lately, the oldest first.
type recent struct {
	ids  []string
	when map[string]time.Time
}

func (r *recent) add(id string, now time.Time, limit int, keep time.Duration) {
	for len(r.ids) > 0 && now.Sub(r.when[r.ids[0]]) >= keep {
		r.drop()
	}
	if _, has := r.when[id]; has {
		return // a duplicate does not prolong it
	}
	if len(r.ids) >= limit {
		r.drop()
	}
	if r.when == nil {
		r.when = make(map[string]time.Time)
	}
	r.ids = append(r.ids, id)
	r.when[id] = now
}

// drop forgets the oldest.
func (r *recent) drop() {
	delete(r.when, r.ids[0])
	r.ids = r.ids[1:]
}

func (r *recent) has(id string, now time.Time, keep time.Duration) bool {
	at, has := r.when[id]
	return has && now.Sub(at) < keep
}
