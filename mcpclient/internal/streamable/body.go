package streamable

import (
	"bytes"
	"io"
	"net/http/httptrace"
	"sync/atomic"
)

// body is the body of a POST. It knows how far the transport has come with it, and
// so whether the server can have the message. It learns that from a trace and not by
// reading: net/http sends what is not a plain [bytes.Reader] in a packet of its own.
//
//	untouched ──has a connection──▶ begun ──▶ written
//	    └──withdraw──▶ withdrawn
type body struct {
	frame  []byte
	reader bytes.Reader
	trace  httptrace.ClientTrace
	state  atomic.Int32
	wait   atomic.Pointer[chan struct{}] // closed once it is written; nil if no goroutine waits
}

const (
	untouched int32 = iota
	begun
	written
	withdrawn
)

// init copies the frame.
func (b *body) init(frame []byte) {
	b.frame = append(make([]byte, 0, len(frame)), frame...)
	b.reader.Reset(b.frame)
	b.trace.GotConn, b.trace.WroteRequest = b.connected, b.wrote
}

// connected is told before anything is sent. What was withdrawn is cut off: no server
// takes a message that is shorter than its header says.
func (b *body) connected(httptrace.GotConnInfo) {
	if !b.state.CompareAndSwap(untouched, begun) && b.state.Load() == withdrawn {
		b.reader.Reset(nil)
	}
}

// wrote is told when all was sent.
func (b *body) wrote(info httptrace.WroteRequestInfo) {
	if info.Err == nil && b.state.CompareAndSwap(begun, written) {
		if c := b.wait.Swap(nil); c != nil {
			close(*c)
		}
	}
}

// again gives the body from its beginning to a transport that has sent nothing of it.
func (b *body) again() (io.ReadCloser, error) {
	if b.state.Load() == withdrawn {
		return nil, errWithdrawn
	}
	b.reader.Reset(b.frame)
	return io.NopCloser(&b.reader), nil
}

// rewind makes a message that was refused ready to be sent anew.
func (b *body) rewind() bool {
	if !b.state.CompareAndSwap(written, untouched) {
		return false
	}
	b.reader.Reset(b.frame)
	return true
}

// withdraw keeps a body from being sent, and reports false if it is too late.
func (b *body) withdraw() bool {
	return b.state.CompareAndSwap(untouched, withdrawn) || b.state.Load() == withdrawn
}

// unsent reports whether the server cannot have it.
func (b *body) unsent() bool {
	s := b.state.Load()
	return s == untouched || s == withdrawn
}

// done returns a channel that is closed once the body is written. It is for one caller.
func (b *body) done() <-chan struct{} {
	c := make(chan struct{})
	b.wait.Store(&c)
	if b.state.Load() == written && b.wait.CompareAndSwap(&c, nil) {
		close(c)
	}
	return c
}
