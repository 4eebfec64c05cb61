package pipe

import "golang.org/x/sys/unix"

// Unread implements [unreader]: the kernel keeps what is in a pipe for as long as we have
// our end of it.
func (c *child) Unread() (bytes int, known bool) {
	raw, err := c.stdin.SyscallConn()
	if err != nil {
		return 0, false
	}
	ctl := raw.Control(func(fd uintptr) { bytes, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return bytes, ctl == nil && err == nil
}
