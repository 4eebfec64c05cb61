package pipe

import (
	"io"
	"time"
)

// Interrupt ends a read that waits for the peer.
func Interrupt(in io.Reader) {
	if d, ok := in.(interface{ SetReadDeadline(time.Time) error }); ok && d.SetReadDeadline(time.Unix(1, 0)) == nil {
		return
	}
	if c, ok := in.(io.Closer); ok {
		c.Close()
	}
}
