package pipe

import (
	"errors"
	"syscall"
)

// unreader is a process that can count the input that it has not read.
type unreader interface {
	// Unread returns how many bytes of its input the process has not read; false if that
	// cannot be known.
	Unread() (bytes int, known bool)
}

// NeverRead reports whether the process has ended without reading anything that it was sent:
// then its end says nothing about the question. It is false if that cannot be known.
func (l *Stdio) NeverRead() bool {
	if !l.exited.Completed() {
		return false
	}
	if l.sends.Load() == 1 && errors.Is(l.out.Flush(), syscall.EPIPE) {
		return true // it had ended before the only message could be written
	}
	p, ok := l.proc.(unreader)
	if !ok {
		return false
	}
	left, known := p.Unread()
	return known && int64(left) == l.sent.Load()
}
