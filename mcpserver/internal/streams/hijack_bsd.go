//go:build unix && !linux

package streams

import "syscall"

// boundSilence does nothing: the kernel's own bound on retransmission counts.
func boundSilence(syscall.RawConn) {}
