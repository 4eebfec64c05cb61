// writer.go: the one goroutine that writes.
//
//	        first write              commit
//	idle ───────────────▶ grouping ─────────▶ acknowledging ──▶ idle
//	  │                     │ disk error          ▲
//	  │ 1 s                 └──▶ one by one ──────┘
//	  └──▶ checkpoint

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// Bounds of one commit.
const (
	groupEvents = store.MaxEvents
	groupBytes  = store.MaxPageBytes
	groupTime   = 2 * time.Millisecond  // or as long as the last commit took, if that is longer,
	maxGroup    = 20 * time.Millisecond // but not longer than this
)

// weight is what a write adds to a commit.
type weight struct{ events, bytes int }

// States of an op.
const (
	queued int32 = iota
	begun
	withdrawn // its caller has gone; it is never run
)

// task is what a write does, and what becomes of it.
type task interface {
	// run is called in a transaction of its own or of a group. It may be called again, after a
	// rollback; and it refuses before it changes anything, for a refusal does not roll back.
	run(*tx) error
	// ended is called once, by the writer, when what run did is durable or has failed. The op may be another
	// write's from then on.
	ended(err error)
}

// op is one write under way. The goroutine that moves it out of queued owns it.
type op struct {
	task
	doing string // what it does, for errors
	size  weight
	last  bool                 // it runs behind the other writes of its commit
	alone func(*session) error // runs between commits, in place of the task's run; nil for a write

	room  <-chan struct{} // gives its place back to those that wait for one; nil for one that was started
	next  *op             // in the queue
	state atomic.Int32
	since time.Time // when it was queued
	err   error     // of the last run; the writer's until it has ended
}

// awaited is the task of a write that its caller waits for.
type awaited struct {
	op
	does func(*tx) error
	done chan struct{} // closed once it has ended
}

func (a *awaited) run(t *tx) error { return a.does(t) }

func (a *awaited) ended(error) { close(a.done) }

// writer owns the connection that writes.
type writer struct {
	db      *sql.DB
	session *session // nil after a failure it could not recover from; opened again for the next write
	now     func() time.Time
	busy    time.Duration
	log     *slog.Logger
	idle    time.Duration // without a write, until a checkpoint
	gather  time.Duration // how long writes are gathered for a commit, or as long as the last one took: see maxGroup
	library library
	tx      tx            // the one there is
	ran     []*op         // room for the writes of a group
	lasts   []*op         // and for those that run last
	took    time.Duration // the last commit
	shared  bool          // the last commit had several writes
	hurries int           // so many groups are committed without a yield

	queue   queue
	taken   *op           // out of the queue, the oldest first; the writer's
	room    chan struct{} // has a value for each write of do that waits
	started atomic.Int64  // writes of start that wait
	closing chan struct{} // closed by close: nothing new is accepted
	once    sync.Once     // closes closing
	ended   chan struct{} // closed by the writer when it has ended
	err     error         // of closing; read after ended
}

func newWriter(db *sql.DB, first *session, o Options) *writer {
	return &writer{
		db:      db,
		session: first,
		now:     o.Now,
		busy:    o.BusyTimeout,
		log:     o.Logger,
		idle:    o.idle,
		gather:  o.gather,
		library: o.library,
		queue:   newQueue(),
		room:    make(chan struct{}, o.Queue),
		closing: make(chan struct{}),
		ended:   make(chan struct{}),
	}
}

// do queues a write and waits until what run did is durable; run is that of a [task]. Doing says what
// it does, for errors.
func (w *writer) do(ctx context.Context, doing string, size weight, run func(*tx) error) error {
	return w.await(ctx, &awaited{op: op{doing: doing, size: size}, does: run})
}

func (w *writer) await(ctx context.Context, o *awaited) error {
	select { // not left to chance below
	case <-w.closing:
		return store.ErrClosed
	default:
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case w.room <- struct{}{}:
	case <-w.closing:
		return store.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	o.task, o.room, o.since, o.done = o, w.room, time.Now(), make(chan struct{})
	if !w.queue.put(&o.op) {
		return store.ErrClosed
	}
	select {
	case <-o.done:
	case <-ctx.Done():
		if o.state.CompareAndSwap(queued, withdrawn) {
			return context.Cause(ctx)
		}
		<-o.done // it has begun: the truth is near
	}
	return o.err
}

// doAlone runs f on the connection that writes, with no transaction open, when what was queued before is committed.
func (w *writer) doAlone(ctx context.Context, doing string, f func(*session) error) error {
	return w.await(ctx, &awaited{op: op{doing: doing, alone: f}})
}

// startedPerPlace is how many started writes may wait for each place of the queue: what
// starts one, such as a run, does not wait, and has no other under way.
const startedPerPlace = 64

var errCrowded = errors.New("too many writes wait for the store")

// start is do without waiting. After an error the task is not called.
func (w *writer) start(o *op) error {
	select { // the writer ends once nothing waits: writes that follow each other would keep it
	case <-w.closing:
		return store.ErrClosed
	default:
	}
	o.since = time.Now()
	err := errCrowded
	if w.started.Add(1) <= int64(startedPerPlace*cap(w.room)) {
		if w.queue.put(o) {
			return nil
		}
		err = store.ErrClosed
	}
	w.started.Add(-1)
	return err
}

// close lets the writer finish what was accepted, and waits for it.
func (w *writer) close() error {
	w.once.Do(func() { close(w.closing) })
	<-w.ended
	return w.err
}

// loop is the writer's life.
func (w *writer) loop() {
	defer close(w.ended)
	rest := time.NewTimer(w.idle)
	defer rest.Stop()
	for {
		select {
		case <-w.queue.wake:
			w.drain()
			rest.Reset(w.idle)
		case <-rest.C:
			w.checkpoint()
		case <-w.closing:
			w.taken = w.queue.close()
			w.drain()
			w.err = w.session.close()
			if err := w.db.Close(); w.err == nil {
				w.err = err
			}
			return
		}
	}
}

// drain commits all that waits.
func (w *writer) drain() {
	for first := w.next(); first != nil; first = w.next() {
		if first.alone != nil {
			w.runAlone(first)
		} else {
			w.group(first)
		}
	}
}

// runAlone runs what needs the connection without a transaction.
func (w *writer) runAlone(o *op) {
	if !o.state.CompareAndSwap(queued, begun) {
		return
	}
	if o.err = w.connect(); o.err == nil {
		o.err = o.alone(w.session)
	}
	w.end(o)
}

// peek returns the write that next takes, or nil.
func (w *writer) peek() *op {
	if w.taken == nil {
		w.taken = w.queue.take()
	}
	return w.taken
}

// next takes the write that has waited longest, or nil.
func (w *writer) next() *op {
	o := w.peek()
	if o == nil {
		return nil
	}
	w.taken, o.next = o.next, nil
	if o.room != nil {
		<-o.room
	} else {
		w.started.Add(-1)
	}
	return o
}

// group commits first together with what waits behind it.
func (w *writer) group(first *op) {
	start := time.Now()
	if err := w.begin(); err != nil {
		w.noTransaction(first, err)
		return
	}
	ran, lasts := w.ran[:0], w.lasts[:0]
	defer func() {
		clear(ran)
		clear(lasts)
		w.ran, w.lasts = ran, lasts
	}()
	var failed error
	var size weight
	gathers := max(w.gather, min(w.took, maxGroup))
	w.hurries = max(w.hurries-1, 0)
	for o := first; o != nil; o = w.follower(len(ran) > 1 || w.shared) {
		if !o.state.CompareAndSwap(queued, begun) {
			continue
		}
		if o.last {
			lasts = append(lasts, o)
			continue
		}
		ran = append(ran, o)
		if failed = w.try(o); failed != nil {
			break
		}
		size.events += o.size.events
		size.bytes += o.size.bytes
		if size.events >= groupEvents || size.bytes >= groupBytes || time.Since(start) >= gathers {
			break
		}
	}
	for _, o := range lasts {
		ran = append(ran, o)
		if failed == nil {
			failed = w.try(o)
		}
	}
	w.shared = len(ran) > 1
	if failed == nil {
		commits := time.Now()
		failed = w.session.commit()
		w.took = time.Since(commits)
	}
	if failed != nil {
		w.retry(ran, failed)
		return
	}
	for _, o := range ran {
		w.end(o)
	}
}

// The writer lets other goroutines run before it commits: one that is about to write may do so, and a commit costs
// as much as some twenty writes. Where nothing else can run this takes no time; where others compute for long, it is
// left for a while.
const (
	yields      = 3
	longYield   = groupTime
	withoutThem = 16 // groups after one that took so long
)

// follower returns the next write of a group, or nil if it is to be committed. Busy is the store's, if several write
// at once.
func (w *writer) follower(busy bool) *op {
	o := w.nextWrite()
	for i := 0; o == nil && busy && w.hurries == 0 && i < yields; i++ {
		before := time.Now()
		runtime.Gosched()
		if time.Since(before) > longYield {
			w.hurries = withoutThem
		}
		o = w.nextWrite()
	}
	return o
}

// nextWrite is next, unless that is one to be run alone.
func (w *writer) nextWrite() *op {
	if o := w.peek(); o != nil && o.alone != nil {
		return nil
	}
	return w.next()
}

// end tells a write what has become of it.
func (w *writer) end(o *op) {
	if o.err != nil && !refused(o.err) {
		o.err = fmt.Errorf("%s: %w", o.doing, translate(w.library, o.err))
	}
	o.ended(o.err)
}

// try runs a write in the open transaction. The error is one that spoils that.
func (w *writer) try(o *op) error {
	w.tx.s, w.tx.now = w.session, store.Clock(w.now())
	if o.err = o.run(&w.tx); refused(o.err) {
		return nil
	}
	return o.err
}

// retry follows a failed group: each of its writes gets a transaction of its
// own, so that only those fail that cannot be kept.
func (w *writer) retry(ran []*op, failed error) {
	w.log.Warn("a commit has failed and is rolled back", "writes", len(ran), "err", failed)
	w.recover()
	if len(ran) == 1 { // it was alone already
		ran[0].err = failed
		w.end(ran[0])
		return
	}
	var down error // no transaction can be had: do not wait for each
	for _, o := range ran {
		if down == nil {
			down = w.begin()
		}
		if down != nil {
			o.err = down
		} else if w.try(o) == nil {
			if err := w.session.commit(); err != nil {
				o.err = err
				w.recover()
			}
		} else {
			w.recover()
		}
		w.end(o)
	}
}

// noTransaction answers first, for no transaction can be had. If that is because another
// process holds the lock, it also answers what has waited for the lock as long as first
// had to. What came later waits on: each write waits its own BusyTimeout.
func (w *writer) noTransaction(first *op, err error) {
	w.log.Warn("the store cannot be written", "err", err)
	w.fail(first, err)
	if !errors.Is(translate(w.library, err), store.ErrBusy) {
		return
	}
	for o := w.peek(); o != nil && time.Since(o.since) >= w.busy; o = w.peek() {
		w.fail(w.next(), err)
	}
}

// fail answers a write that was not begun.
func (w *writer) fail(o *op, err error) {
	if o.state.CompareAndSwap(queued, begun) {
		o.err = err
		w.end(o)
	}
}

// begin opens a transaction.
func (w *writer) begin() error {
	if err := w.connect(); err != nil {
		return err
	}
	err := w.session.begin()
	if err != nil {
		w.recover()
	}
	return err
}

// connect opens the connection where the last one was given up.
func (w *writer) connect() error {
	if w.session != nil {
		return nil
	}
	s, err := openSession(w.db)
	if err == nil {
		w.session = s
	}
	return err
}

// recover leaves the connection without a transaction, or gives it up.
func (w *writer) recover() {
	if !w.session.rollback() {
		w.log.Warn("the connection is given up")
		w.session.discard()
		w.session = nil
	}
}

func (w *writer) checkpoint() {
	if w.session == nil {
		return
	}
	pages, err := w.session.checkpoint(w.busy)
	if err != nil {
		w.log.Warn("the log could not be moved into the file", "err", err)
		w.recover()
		return
	}
	w.log.Debug("the log was moved into the file", "pages", pages)
}
