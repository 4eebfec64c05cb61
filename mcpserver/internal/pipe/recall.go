package pipe

import (
	"io"
	"sync/atomic"
	"time"
)

// recall ends a read whose source is read again later: one between enter and leave, of one goroutine at a time. The other
// methods may come from any goroutine, and do not block. A nil recall recalls nothing.
type recall struct {
	in    io.Reader
	file  deadliner
	state atomic.Int32  // of a read
	set   chan struct{} // has room for one: the deadline of a recalled read is set
	ended atomic.Bool
}

// States of a read.
const (
	away int32 = iota
	entered
	called
)

// newRecall returns nil for a source whose reads cannot be ended and begun again: one that is not a file of the system,
// such as a connection, whose deadline may be the program's, or that has no deadlines.
func newRecall(in io.Reader) *recall {
	f, ok := in.(interface {
		deadliner
		Fd() uintptr
	})
	if !ok || f.SetReadDeadline(time.Time{}) != nil {
		return nil
	}
	return &recall{in: in, file: f, set: make(chan struct{}, 1)}
}

// enter is called before a read. What the calls before it were for, the reader can see after it.
func (r *recall) enter() { r.state.Store(entered) }

// leave is called after the read, and reports whether that was recalled.
func (r *recall) leave() bool {
	if r.state.CompareAndSwap(entered, away) {
		return false
	}
	<-r.set
	r.state.Store(away)
	_ = r.file.SetReadDeadline(time.Time{}) // as before; an error shows in the next read
	if r.ended.Load() {
		Interrupt(r.in)
	}
	return true
}

// call ends the read that was entered, if there is one.
func (r *recall) call() {
	if r != nil && r.state.CompareAndSwap(entered, called) {
		_ = r.file.SetReadDeadline(past) // see newRecall
		r.set <- struct{}{}
	}
}

// End is [Interrupt], for reads that may be recalled at the same time.
func (r *recall) End() {
	r.ended.Store(true)
	Interrupt(r.in)
}
