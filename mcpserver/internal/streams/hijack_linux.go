package streams

import "syscall"

// tcpUserTimeout is the option of RFC 5482, which package syscall does not name.
const tcpUserTimeout = 18

// boundSilence makes the kernel end a connection whose other end has vanished.
func boundSilence(raw syscall.RawConn) {
	_ = raw.Control(func(fd uintptr) { // a socket of another kind has no such option
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(silence.Milliseconds()))
	})
}
