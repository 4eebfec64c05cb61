package actors

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counts returns how many workers there are, and how many of them are idle.
func (w *workers) counts() (live, idle int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.live, len(w.idle)
}

// TestWorkersNeverWait: no number of blocked functions keeps another from running.
func TestWorkersNeverWait(t *testing.T) {
	n := 20_000
	if raceEnabled {
		n = 7_000
	}
	var w workers
	var running sync.WaitGroup
	running.Add(n)
	open := make(chan struct{})
	for range n {
		w.Go(func() { running.Done(); <-open })
	}
	running.Wait() // all at once
	close(open)
	<-w.close()
}

// TestWorkersAreUsedAgain: as many as ran at once, not one for each function.
func TestWorkersAreUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w workers
		for range 1000 {
			w.Go(func() {})
			synctest.Wait()
		}
		if live, idle := w.counts(); live != 1 || idle != 1 {
			t.Errorf("workers: got %d, %d idle; want 1", live, idle)
		}
		<-w.close()
	})
}

// TestWorkersOfWaits: tasks that wait have workers as they come, and beyond a number at once a fresh goroutine
// each; one that has panicked or exited counts no more.
func TestWorkersOfWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys, err := NewSystem(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = sys.Shutdown(t.Context()) }()
		for range 3 * maxIdleWorkers {
			sys.GoBlocking("test", runtime.Goexit)
			sys.GoBlocking("test", func() { panic("in a task") })
		}
		synctest.Wait()
		open := make(chan struct{})
		grow := func() int {
			for range 2 * maxIdleWorkers {
				sys.Go("test", func() { <-open })
			}
			close(open)
			synctest.Wait()
			_, idle := sys.workers.counts()
			return idle
		}
		if idle := grow(); idle != maxIdleWorkers {
			t.Fatalf("idle workers: got %d", idle)
		}
		open = make(chan struct{})
		for range maxIdleWorkers - 1 {
			sys.GoBlocking("test", func() { <-open })
		}
		if _, idle := sys.workers.counts(); idle != 1 {
			t.Errorf("idle workers beside tasks that wait: got %d, want 1", idle)
		}
		sys.GoBlocking("test", func() { <-open })
		sys.Go("test", func() {})
		synctest.Wait()
		sys.GoBlocking("test", func() { <-open })
		if _, idle := sys.workers.counts(); idle != 1 {
			t.Errorf("idle workers beside more of them: got %d, want 1", idle)
		}
		close(open)
	})
}

func TestIdleWorkersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w workers
		open := make(chan struct{})
		for range 3 * maxIdleWorkers {
			w.Go(func() { <-open })
		}
		close(open)
		synctest.Wait()
		if live, idle := w.counts(); live != maxIdleWorkers || idle != maxIdleWorkers {
			t.Errorf("workers: got %d, %d idle; want %d", live, idle, maxIdleWorkers)
		}
		<-w.close()
	})
}

// TestIdleWorkersExpire: those that were not needed for a while end, one that is
// in use stays.
func TestIdleWorkersExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w workers
		open := make(chan struct{})
		for range 50 {
			w.Go(func() { <-open })
		}
		close(open)
		for range 30 { // one is needed every second
			time.Sleep(time.Second)
			w.Go(func() {})
		}
		synctest.Wait()
		if live, _ := w.counts(); live != 1 {
			t.Errorf("after 30 s with one in use: got %d workers, want 1", live)
		}
		time.Sleep(2 * idleWorkerTime)
		synctest.Wait()
		if live, _ := w.counts(); live != 0 {
			t.Errorf("after a pause: got %d workers, want none", live)
		}
		w.Go(func() {}) // and it starts again
		synctest.Wait()
		time.Sleep(2 * idleWorkerTime)
		synctest.Wait()
		if live, _ := w.counts(); live != 0 {
			t.Errorf("after another pause: got %d workers, want none", live)
		}
		<-w.close()
	})
}

// TestCloseWorkers: what runs may end, what comes late runs still, and no
// goroutine is left (the bubble would not end).
func TestCloseWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w workers
		open, late := make(chan struct{}), make(chan struct{})
		w.Go(func() {})
		w.Go(func() { <-open })
		synctest.Wait()
		ended := w.close()
		select {
		case <-ended:
			t.Error("closed before the last function returned")
		default:
		}
		w.Go(func() { close(late) })
		<-late
		close(open)
		<-ended
		<-w.close()
		if live, idle := w.counts(); live != 0 || idle != 0 {
			t.Errorf("after close: %d workers, %d idle", live, idle)
		}
	})
}

// TestCloseWorkersRace closes while functions come and go: each runs once.
func TestCloseWorkersRace(t *testing.T) {
	for range 200 {
		var w workers
		var ran atomic.Int32
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 20 {
					w.Go(func() { ran.Add(1) })
				}
			})
		}
		w.close()
		all.Wait()
		<-w.close()
		if got := ran.Load(); got != 80 {
			t.Fatalf("ran %d functions, want 80", got)
		}
	}
}

// TestWorkerExit: a function that ends its goroutine is run once, and its worker is
// counted off.
func TestWorkerExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w workers
		var runs int
		w.Go(func() { runs++; runtime.Goexit() })
		synctest.Wait()
		if live, idle := w.counts(); runs != 1 || live != 0 || idle != 0 {
			t.Errorf("ran %d times, want 1; then %d workers, %d idle, want none", runs, live, idle)
		}
		<-w.close()
	})
}

// TestTimersAreForgotten: a timer that is not running is not kept by its actor.
func TestTimersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys, err := NewSystem(nil)
		if err != nil {
			t.Fatal(err)
		}
		running := func(c *Context) (n int) {
			for timer := c.times; timer != nil; timer = timer.next {
				n++
			}
			return n
		}
		counts := make(chan int, 2)
		ref, err := sys.Spawn(Spec{Kind: KindHost, New: func() Actor {
			return ReceiveFunc(func(c *Context, msg any) {
				switch msg {
				case "set":
					for i := range 100 {
						timer := c.NewTimer("due")
						timer.Set(time.Duration(i%7) * time.Second)
						if i%3 == 0 {
							timer.Clear()
						}
						c.After(time.Second, "after")
					}
					counts <- running(c)
				case "count":
					counts <- running(c)
				}
			})
		}})
		if err != nil {
			t.Fatal(err)
		}
		ref.Send("set")
		if got := <-counts; got != 200 {
			t.Errorf("set: %d clocks run, want 200", got)
		}
		time.Sleep(time.Minute)
		ref.Send("count")
		if got := <-counts; got != 0 {
			t.Errorf("later: %d clocks run, want 0", got)
		}
		if err := sys.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
