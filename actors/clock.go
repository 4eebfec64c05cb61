package actors

import (
	"container/heap"
	"math"
	"sync"
	"time"
)

// clock rings the timers of a system. They share one bell: a timer of the runtime's
// for each would take twice the memory, and thousands of actors wait with one set.
// Its times are since its start, which are a third of the size of a time.Time.
type clock struct {
	start time.Time

	mu     sync.Mutex
	timers timerHeap
	bell   *time.Timer   // nil before the first timer that waits
	next   time.Duration // when bell rings; 0 when that is not known
}

// forever is the longest wait for a time of the wall's.
const forever = time.Duration(math.MaxInt64 / 2)

// at returns t as a time of the clock; it is never 0.
func (k *clock) at(t time.Time) time.Duration {
	since := t.Sub(k.start)
	if t == t.Round(0) { // without a monotonic part: the wall's clock may have been set since start
		since = time.Since(k.start) + min(time.Until(t), forever)
	}
	return max(since, 1)
}

// now returns the time.
func (k *clock) now() time.Duration { return k.at(time.Now()) }

// set lets t ring at a time, in place of the one it was set to. Only t's actor calls it.
func (k *clock) set(t *Timer, at time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t.rings = at
	if t.place == 0 {
		heap.Push(&k.timers, t)
	} else {
		heap.Fix(&k.timers, t.place-1)
	}
	k.arm()
}

// still lets t not ring any more, though its ring may be under way. Only t's actor
// calls it.
func (k *clock) still(t *Timer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t.rings = 0
	if t.place == 0 {
		return
	}
	heap.Remove(&k.timers, t.place-1)
	if k.bell != nil && len(k.timers) == 0 {
		k.next = 0
		k.bell.Stop()
	}
}

// arm sets the bell, unless it rings in time: then it is set again by its ring. It is
// called under the lock.
func (k *clock) arm() {
	if len(k.timers) == 0 {
		return
	}
	first := k.timers[0].rings
	if k.next != 0 && k.next <= first {
		return
	}
	k.next = first
	switch wait := first - k.now(); {
	case wait <= 0: // a bell for now costs more, and two at once in a bubble of synctest can crash the race detector
		go k.ring()
	case k.bell == nil:
		k.bell = time.AfterFunc(wait, k.ring)
	default:
		k.bell.Reset(wait)
	}
}

// ring runs on the bell's goroutine. It sends for one timer only, after the bell was
// set for the next: what an inline actor does with its message holds up no other.
func (k *clock) ring() {
	var due *Timer
	k.mu.Lock()
	k.next = 0
	if len(k.timers) > 0 && k.timers[0].rings <= k.now() {
		due, _ = heap.Pop(&k.timers).(*Timer)
	}
	k.arm()
	k.mu.Unlock()
	if due != nil {
		due.ring()
	}
}

// timerHeap has the timer that rings first on top. Each knows its place in it.
type timerHeap []*Timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].rings < h[j].rings }

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i+1, j+1
}

func (h *timerHeap) Push(x any) {
	t, _ := x.(*Timer)
	*h = append(*h, t)
	t.place = len(*h)
}

func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	if *h = (*h)[:last]; last == 0 {
		*h = nil // its room is that of the busiest moment
	}
	t.place = 0
	return t
}
