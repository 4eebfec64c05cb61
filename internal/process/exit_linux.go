package process

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// exit is the end of a process: a file that becomes readable. It can be waited for without a
// thread.
type exit struct {
	pidfd int
	file  *os.File // nil where the kernel is older than 5.4
}

// prepare asks for the file.
func (e *exit) prepare(attr *syscall.SysProcAttr) {
	e.pidfd = -1
	attr.PidFD = &e.pidfd
}

// started takes it.
func (e *exit) started() {
	if e.pidfd < 0 {
		return
	}
	if err := unix.SetNonblock(e.pidfd, true); err != nil { // Go's poller takes only such files
		_ = unix.Close(e.pidfd)
		return
	}
	e.file = os.NewFile(uintptr(e.pidfd), "pidfd")
}

// conn returns the file, nil if there is none.
func (e *exit) conn() syscall.Conn {
	if e.file == nil {
		return nil
	}
	return e.file
}

// wait returns true once the process has ended, and false if it cannot know. It is called once.
func (e *exit) wait() bool {
	if e.file == nil {
		return false
	}
	defer e.file.Close()
	raw, err := e.file.SyscallConn()
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
