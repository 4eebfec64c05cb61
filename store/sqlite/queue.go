package sqlite

import "sync/atomic"

// queue holds the writes that wait for the writer. Any goroutine puts one in, and does not wait.
type queue struct {
	newest atomic.Pointer[op] // each points to the one before it; shut once it is closed
	wake   chan struct{}      // has room for one: something is in the queue
}

// shut is in a queue that takes nothing more.
var shut = new(op)

func newQueue() queue { return queue{wake: make(chan struct{}, 1)} }

// put adds a write, and reports false for a queue that is closed.
func (q *queue) put(o *op) bool {
	for {
		o.next = q.newest.Load()
		if o.next == shut {
			return false
		}
		first := o.next == nil // once o is in the queue, next is the writer's
		if !q.newest.CompareAndSwap(o.next, o) {
			continue
		}
		if first {
			select {
			case q.wake <- struct{}{}:
			default:
			}
		}
		return true
	}
}

// take empties the queue. It returns the oldest write, which points to the next one. Like
// close it is the writer's.
func (q *queue) take() *op {
	if q.newest.Load() == shut {
		return nil
	}
	return oldest(q.newest.Swap(nil))
}

// close is take for the last time.
func (q *queue) close() *op { return oldest(q.newest.Swap(shut)) }

// oldest turns a list around.
func oldest(newest *op) (first *op) {
	for newest != nil {
		first, newest, newest.next = newest, newest.next, first
	}
	return first
}
