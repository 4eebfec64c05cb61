package relay

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcpclient"
)

// maxLeft bounds the operations of a front that no call waits for.
const maxLeft = 256

// ErrClosed refuses operations of a closed front, and ends those under way.
var ErrClosed = errors.New("expose: the front is closed")

// Options are the settings of a front's operations. All fields but Inbox are required.
type Options struct {
	System *actors.System
	Log    *slog.Logger
	// Inbox decides on questions that the client cannot be asked. Nil declines.
	Inbox mcpclient.Human
	// TaskAfter is how long a call takes until it becomes a task.
	TaskAfter time.Duration
	// Keep is how long an operation goes on that no call waits for.
	Keep time.Duration
}

// Operations are the operations of a front, by ID, so that a call that comes again finds its
// own.
type Operations struct {
	Options

	mu     sync.Mutex // guards the fields below: calls of all clients enter and leave here, for a map access each, where an actor would put a hop into each
	byID   map[string]*Operation
	left   []leftBehind // the longest left first
	closed bool
}

// leftBehind is an operation that no call waits for.
type leftBehind struct {
	op    *Operation
	clock *time.Timer // gives it up
}

// NewOperations returns an empty table.
func NewOperations(o Options) *Operations {
	return &Operations{Options: o, byID: make(map[string]*Operation)}
}

func (t *Operations) add(op *Operation) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	t.byID[op.id] = op
	return nil
}

// find returns the operation of an ID if it is the owner's (SECA-7).
func (t *Operations) find(id, owner string) (*Operation, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	op := t.byID[id]
	if op == nil || op.client.Owner != owner {
		return nil, ErrUnknown
	}
	return op, nil
}

// resume notes that a call waits for an operation again.
func (t *Operations) resume(op *Operation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.take(op)
}

// take takes an operation off those left behind, and reports whether it was one. The caller
// holds mu.
func (t *Operations) take(op *Operation) bool {
	i := slices.IndexFunc(t.left, func(l leftBehind) bool { return l.op == op })
	if i < 0 {
		return false
	}
	t.left[i].clock.Stop()
	t.left = slices.Delete(t.left, i, i+1)
	return true
}

func (t *Operations) remove(op *Operation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byID, op.id)
	t.take(op)
}

// leave keeps an operation that no call waits for, for a while. Beyond the bound the longest
// left of the client that has the most gives way (ROB-3).
func (t *Operations) leave(op *Operation) {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		t.remove(op)
		return
	}
	t.left = append(t.left, leftBehind{op, time.AfterFunc(t.Keep, func() { t.giveUp(op) })})
	var out *Operation
	if len(t.left) > maxLeft {
		out = t.left[MostOf(t.left, func(l leftBehind) any { return l.op.payer() })].op
	}
	t.mu.Unlock()
	if out != nil {
		t.giveUp(out)
	}
}

// giveUp cancels an operation if it is still left behind.
func (t *Operations) giveUp(op *Operation) {
	t.mu.Lock()
	left := t.take(op)
	if left {
		delete(t.byID, op.id)
	}
	t.mu.Unlock()
	if left {
		op.cancel(errLeft)
	}
}

// Close ends all operations.
func (t *Operations) Close() {
	t.mu.Lock()
	t.closed = true
	all := slices.Collect(maps.Values(t.byID))
	t.mu.Unlock()
	for _, op := range all {
		op.cancel(ErrClosed)
		t.giveUp(op)
	}
}

// payer is the one whose share an operation takes: its principal, or its anonymous client.
func (op *Operation) payer() any {
	if op.client.Owner == "" {
		return op.client
	}
	return op.client.Owner
}

// MostOf returns the index of the first element of the payer that has the most: a flood
// drives out its own (SECA-9). There must be an element.
func MostOf[E any](all []E, payer func(E) any) (first int) {
	count := make(map[any]int)
	most := 0
	for _, one := range all {
		count[payer(one)]++
		most = max(most, count[payer(one)])
	}
	return slices.IndexFunc(all, func(one E) bool { return count[payer(one)] == most })
}
