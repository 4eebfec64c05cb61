package mcpclient

import (
	"errors"
	"syscall"
)

// unreader is a process of which can be known what it has left unread.
type unreader interface {
	// Unread returns how many bytes of its input the process has not read; false if that
	// can not be known.
	Unread() (bytes int, known bool)
}

// neverRead reports whether the newest process has ended and has read nothing of what it
// was sent: that it ended says nothing about what it was asked. False if it can not be
// known.
func (c *Client) neverRead() bool {
	l := c.process.Load()
	return l != nil && l.neverRead()
}

func (l *stdio) neverRead() bool {
	select {
	case <-l.exited:
	default:
		return false
	}
	if l.sends.Load() == 1 && errors.Is(l.in.Flush(), syscall.EPIPE) {
		return true // it had ended before the only message could be written
	}
	p, ok := l.proc.(unreader)
	if !ok {
		return false
	}
	left, known := p.Unread()
	return known && int64(left) == l.sent.Load()
}
