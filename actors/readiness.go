package actors

import (
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"
)

// ReadWait waits for one file, again and again: see [System.WhenReadable]. Its methods may be called
// from any goroutine.
type ReadWait struct {
	sys   *System
	owner string
	file  syscall.RawConn // nil if it was closed at once
	ready func()
	id    uint64        // of the newest wait; guarded by the system's readiness
	due   time.Duration // its end by the system's clock, also guarded; 0 if it has none, late if it was that
}

// late is the time of a wait that its limit has ended.
const late time.Duration = -1

// WhenReadable runs ready once, as a task of owner, as soon as conn has something to read or
// has ended: a pipe or a socket by its other end, a pidfd by the end of its process. Until then
// the wait holds no goroutine, and counts as a task that runs. Ready may run before WhenReadable has
// returned, and without a cause: it runs, too, for the waits that are open when [System.Shutdown] returns.
// So it reads without relying on what is there.
//
// WhenReadable returns false, and ready never runs, where only a goroutine can wait for conn: on systems
// other than Linux, for files that the kernel does not watch (regular ones), for a closed conn, and
// after Shutdown. A conn has one wait at a time. The wait does not notice that this process closes conn:
// Cancel it before, or Wake it after.
func (s *System) WhenReadable(owner string, conn syscall.Conn, ready func()) (w *ReadWait, ok bool) {
	w = s.NewReadWait(owner, conn, ready)
	return w, w.Begin()
}

// NewReadWait returns a wait that has not begun. It is for input that is waited for more than once: who closes
// it needs to know one wait only.
func (s *System) NewReadWait(owner string, conn syscall.Conn, ready func()) *ReadWait {
	w := &ReadWait{sys: s, owner: owner, ready: ready}
	if file, err := conn.SyscallConn(); err == nil {
		w.file = file
	}
	return w
}

// Begin waits as [System.WhenReadable] does. A wait that is open must not begin; ready may begin it again.
func (w *ReadWait) Begin() bool { return w.begin(0) }

// BeginWithin is [ReadWait.Begin], but ready runs also when d has passed, or up to a second later: see
// [ReadWait.Late].
func (w *ReadWait) BeginWithin(d time.Duration) bool {
	return w.begin(w.sys.clock.at(time.Now().Add(d)))
}

func (w *ReadWait) begin(due time.Duration) bool {
	if w.file == nil {
		return false
	}
	w.sys.tasks.begin(w.owner)
	if !w.sys.readiness.begin(w, due) {
		w.sys.tasks.end(w.owner)
		return false
	}
	return true
}

// Cancel ends the wait. It returns true if ready never runs, and false if it has run or will, or the
// wait has not begun.
func (w *ReadWait) Cancel() bool {
	if w.sys.readiness.end(w.newest()) == nil {
		return false
	}
	w.sys.tasks.end(w.owner)
	return true
}

// Wake runs ready now if the wait is open.
func (w *ReadWait) Wake() { w.sys.readiness.wake(w.newest()) }

// Late reports whether ready runs because the time of BeginWithin has passed. It is for ready only.
func (w *ReadWait) Late() bool {
	w.sys.readiness.mu.Lock()
	defer w.sys.readiness.mu.Unlock()
	return w.due == late
}

func (w *ReadWait) newest() uint64 {
	w.sys.readiness.mu.Lock()
	defer w.sys.readiness.mu.Unlock()
	return w.id
}

// poller waits for many files at once, as the operating system lets it.
type poller interface {
	// add lets wait report the file once, by its id.
	add(file syscall.RawConn, id uint64) error
	// remove takes the file back, if it is not closed: then the system has done that.
	remove(file syscall.RawConn)
	// wait reports files that are ready. It returns false once the poller is closed.
	wait(ready func(id uint64)) bool
	close()
}

// readiness are the open waits of a system. One worker waits for all of them, from the first
// to Shutdown.
type readiness struct {
	mu     sync.Mutex           // held while the poller takes a file or gives it back: a file is the poller's while its wait is open
	waits  map[uint64]*ReadWait // by ids that are never used again, as descriptors are
	last   uint64
	poller poller // nil before the first wait
	closed bool

	bell *time.Timer   // nil before the first wait with a limit
	next time.Duration // when it rings, by the system's clock; 0 while it is still
}

// begin opens a wait, unless its file cannot be waited for. Due 0 is no limit.
func (r *readiness) begin(w *ReadWait, due time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.poller == nil && !r.start(&w.sys.workers) {
		return false
	}
	r.last++
	if r.poller.add(w.file, r.last) != nil {
		return false
	}
	w.id, w.due = r.last, due
	r.waits[w.id] = w
	if due > 0 && (r.next == 0 || due < r.next) {
		r.ringAt(&w.sys.clock, due)
	}
	return true
}

// ringAt sets the bell. The lock is held.
func (r *readiness) ringAt(k *clock, due time.Duration) {
	r.next = due
	if wait := due - k.now(); r.bell == nil {
		r.bell = time.AfterFunc(wait, func() { r.expire(k) })
	} else {
		r.bell.Reset(wait)
	}
}

// seldom is the time between two rings of the bell, each of which looks at all waits.
const seldom = time.Second

// expire wakes the waits whose time has passed.
func (r *readiness) expire(k *clock) {
	r.mu.Lock()
	now := k.now()
	var over []*ReadWait
	first := forever
	for id, w := range r.waits {
		switch {
		case w.due == 0:
		case w.due <= now:
			over = append(over, r.take(id))
			w.due = late
		default:
			first = min(first, w.due)
		}
	}
	r.next = 0
	if first < forever && !r.closed {
		r.ringAt(k, max(first, now+seldom))
	}
	r.mu.Unlock()
	for _, w := range over {
		w.run()
	}
}

// start makes the poller, if there is one.
func (r *readiness) start(workers *workers) bool {
	p := newPoller()
	if p == nil {
		return false
	}
	r.poller, r.waits = p, make(map[uint64]*ReadWait)
	workers.Go(func() {
		for p.wait(r.wake) {
		}
		r.close() // it is, unless the poller failed
	})
	return true
}

// end ends a wait: of those that try it is for one to say what becomes of ready. It returns
// nil for the others.
func (r *readiness) end(id uint64) *ReadWait {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.take(id)
}

// take is end under the lock.
func (r *readiness) take(id uint64) *ReadWait {
	w := r.waits[id]
	if w != nil {
		delete(r.waits, id)
		r.poller.remove(w.file)
	}
	return w
}

func (r *readiness) wake(id uint64) {
	if w := r.end(id); w != nil {
		w.run()
	}
}

// run runs ready, as the task that the wait was.
func (w *ReadWait) run() {
	w.sys.workers.run(job{runner: function(w.ready), system: w.sys, owner: w.owner})
}

// close ends the poller, and wakes the waits that are left.
func (r *readiness) close() {
	r.mu.Lock()
	r.closed = true
	if r.bell != nil {
		r.bell.Stop()
	}
	p := r.poller
	left := slices.Collect(maps.Keys(r.waits))
	r.mu.Unlock()
	if p != nil {
		p.close()
	}
	for _, id := range left {
		r.wake(id)
	}
}
