package process

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// exit is the end of a process: a file that becomes readable. The runtime's poller
// waits for it, so it costs no thread.
type exit struct{ pidfd int }

// prepare asks for the file; it is negative where the kernel is older than 5.4.
func (e *exit) prepare(attr *syscall.SysProcAttr) {
	e.pidfd = -1
	attr.PidFD = &e.pidfd
}

// wait returns true once the process has ended, and false if it cannot know.
func (e *exit) wait() bool {
	if e.pidfd < 0 {
		return false
	}
	if err := unix.SetNonblock(e.pidfd, true); err != nil { // the poller takes only such files
		_ = unix.Close(e.pidfd)
		return false
	}
	f := os.NewFile(uintptr(e.pidfd), "pidfd")
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	ended := false
	err = raw.Read(func(fd uintptr) bool {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, 0)
		ended = n > 0
		return ended || err != nil && err != unix.EINTR
	})
	return err == nil && ended
}
