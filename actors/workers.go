package actors

import (
	"sync"
	"time"
)

// workers runs functions on goroutines that it uses again: a fresh goroutine
// grows its stack anew each time, which is what the library's own dispatcher
// spends most of its time on. It never makes a function wait, so no number of
// blocked ones can starve another.
type workers struct {
	mu     sync.Mutex
	idle   []chan job // of workers that wait, the last to have worked on top
	live   int        // idle or not
	closed bool
	ended  chan struct{} // closed by the last to end after close
	sweep  *time.Timer
	swept  int // idle workers that have not been needed since the last sweep
}

// runner is what a worker can do. Then is what the same worker does next, without a change of goroutine; nil is
// nothing. It is lost if run does not return.
type runner interface{ run() (then runner) }

// function is a runner.
type function func()

func (f function) run() (then runner) {
	f()
	return nil
}

// job is something to run; the zero job ends a worker.
type job struct {
	runner
	// waits: it is expected to wait longer than it works. Fresh: take no goroutine that has had to
	// grow its stack.
	waits, fresh bool
	// A function that is a task: system is told that owner has one less. Otherwise both are nil.
	system *System
	owner  any
}

func (j *job) do() (then runner) {
	if j.system != nil {
		defer j.system.endTask(j)
	}
	return j.run()
}

const (
	maxIdleWorkers = 128             // more than this end when they have nothing to do
	idleWorkerTime = 5 * time.Second // unneeded for this long, a worker ends
)

// Go runs f on a goroutine and returns at once. After close it still does, so
// that what has begun can end.
func (w *workers) Go(f func()) { w.run(job{runner: function(f)}) }

func (w *workers) run(j job) {
	w.mu.Lock()
	if n := len(w.idle); n > 0 && !j.fresh {
		worker := w.idle[n-1]
		w.idle[n-1] = nil
		w.idle = w.idle[:n-1]
		w.swept = min(w.swept, n-1)
		w.mu.Unlock()
		worker <- j
		return
	}
	w.live++
	w.mu.Unlock()
	go w.work(j)
}

// work does j and whatever comes after it.
func (w *workers) work(j job) {
	var next chan job // nil until the first job is done: many wait in that one all their life
	defer w.leave()
	for j.runner != nil {
		then := j.do()
		j = job{} // or it would be held, and an actor with it, while the worker waits
		for then != nil {
			then = then.run()
		}
		if next == nil {
			next = make(chan job, 1)
		}
		if !w.offer(next) {
			return
		}
		j = <-next
	}
}

// leave is the end of a worker.
func (w *workers) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.live--; w.live == 0 && w.closed && w.ended != nil {
		close(w.ended)
		w.ended = nil
	}
}

// offer puts a worker on the idle list, unless there are enough or it is closed.
func (w *workers) offer(worker chan job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.idle) >= maxIdleWorkers {
		return false
	}
	w.idle = append(w.idle, worker)
	if w.sweep == nil {
		w.sweep = time.AfterFunc(idleWorkerTime, w.endUnneeded)
		w.swept = len(w.idle)
	}
	return true
}

// endUnneeded ends the workers that were not needed since it last looked; those
// are at the bottom of the list.
func (w *workers) endUnneeded() {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(w.swept, len(w.idle))
	for _, worker := range w.idle[:n] {
		worker <- job{}
	}
	w.idle = append(w.idle[:0:0], w.idle[n:]...)
	w.swept = len(w.idle)
	if w.closed || len(w.idle) == 0 {
		w.sweep = nil
		return
	}
	w.sweep.Reset(idleWorkerTime)
}

// close ends the idle workers, and the busy ones once they are done. The channel
// it returns is closed when there are none left.
func (w *workers) close() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, worker := range w.idle {
		worker <- job{}
	}
	w.idle = nil
	if w.sweep != nil {
		w.sweep.Stop()
		w.sweep = nil
	}
	if w.live == 0 {
		return closed
	}
	if w.ended == nil {
		w.ended = make(chan struct{})
	}
	return w.ended
}
