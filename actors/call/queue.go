package call

// queue is a list of calls that do not await an answer, the oldest first. A call is
// in one queue at most.
type queue struct {
	first, last *Call
	n           int
}

func (q *queue) push(c *Call) {
	c.leave()
	c.prev, c.next, c.in = q.last, nil, q
	if q.last == nil {
		q.first = c
	} else {
		q.last.next = c
	}
	q.last = c
	q.n++
}

// leave takes the call out of the queue it is in, if any.
func (c *Call) leave() {
	q := c.in
	if q == nil {
		return
	}
	if c.prev == nil {
		q.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		q.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.prev, c.next, c.in = nil, nil, nil
	q.n--
}
