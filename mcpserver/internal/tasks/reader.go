package tasks

import (
	"context"
	"slices"

	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/port"
)

// Reader is a request of tasks/result that waits for its task (TASK-09). It is the
// stream of the notifications and questions of the task meanwhile (TASK-10).
type Reader struct {
	inbound.Call
	Task    *Task
	Port    port.Port
	Version mcp.Version
	// Session is the session of the request.
	Session interface{ Go(f func()) }

	// Guarded by the task's lock.
	stop func() bool // ends the wait for the task
	gone bool        // the request is over
}

// Handle implements [inbound.Handler].
func (c *Reader) Handle(context.Context) error {
	t := c.Task
	t.mu.Lock()
	var held [][]byte
	if !c.gone {
		c.stop = context.AfterFunc(t.Over(), func() { c.Finish(nil) })
		if c.Session == any(t.from) { // answers that come elsewhere are not found (ELIC-13)
			t.readers = append(t.readers, c)
			held, t.held = t.held, nil
		}
	}
	t.mu.Unlock()
	for _, frame := range held {
		t.deliver(frame, true)
	}
	return inbound.ErrParked
}

// leave is called when the request is over.
func (c *Reader) leave() {
	c.Task.mu.Lock()
	defer c.Task.mu.Unlock()
	c.gone = true
	c.Task.readers = slices.DeleteFunc(c.Task.readers, func(o *Reader) bool { return o == c })
	if c.stop != nil {
		c.stop()
	}
}

// Answer implements [inbound.Handler]: with exactly what the call would have been
// answered with (TASK-09).
func (c *Reader) Answer(err error) {
	c.leave()
	var result []byte
	if err != nil { // the session ends, not the task
		c.unpark()
	} else {
		result, err = c.Task.Result()
	}
	if err != nil {
		wire := mcp.ErrorOf(err).For(c.Version)
		c.Port.Respond(mcp.AppendError(nil, c.ID(), wire), wire)
		return
	}
	c.Port.Respond(mcp.AppendResult(nil, c.ID(), result), nil)
}

// Drop is for [inbound.Handler]: the client does not wait any more. The task goes on.
func (c *Reader) Drop(error) {
	c.leave()
	c.unpark()
	c.Port.Drop()
}

// unpark frees the actor of a request that has its outcome from elsewhere. Finish waits
// for what Answer and Drop are called under, so not here.
func (c *Reader) unpark() {
	c.Session.Go(func() { c.Finish(nil) })
}
