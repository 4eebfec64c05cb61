package actors

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// epoll is the kernel's list of files to wait for. It is a file itself, for which Go's own poller
// waits: so the wait blocks a goroutine and no thread.
type epoll struct {
	file   *os.File
	raw    syscall.RawConn
	events []unix.EpollEvent // of the goroutine that waits
}

func newPoller() poller {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil
	}
	if unix.SetNonblock(fd, true) != nil { // Go's poller takes only such files
		_ = unix.Close(fd)
		return nil
	}
	p := &epoll{file: os.NewFile(uintptr(fd), "epoll"), events: make([]unix.EpollEvent, 64)}
	if p.raw, err = p.file.SyscallConn(); err != nil {
		p.file.Close()
		return nil
	}
	return p
}

func (p *epoll) add(file syscall.RawConn, id uint64) error {
	return p.control(file, unix.EPOLL_CTL_ADD, &unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(uint32(id)), Pad: int32(uint32(id >> 32)),
	})
}

func (p *epoll) remove(file syscall.RawConn) { _ = p.control(file, unix.EPOLL_CTL_DEL, nil) }

// control changes the list while neither file can be closed: a descriptor of a closed one may
// be another file's.
func (p *epoll) control(file syscall.RawConn, op int, event *unix.EpollEvent) error {
	var err error
	outer := p.raw.Control(func(list uintptr) {
		inner := file.Control(func(fd uintptr) { err = unix.EpollCtl(int(list), op, int(fd), event) })
		if inner != nil {
			err = inner
		}
	})
	if outer != nil {
		return outer
	}
	return err
}

func (p *epoll) wait(ready func(uint64)) bool {
	var n int
	var err error
	closed := p.raw.Read(func(fd uintptr) bool {
		n, err = unix.EpollWait(int(fd), p.events, 0)
		return n > 0 || err != nil
	})
	if closed != nil || err != nil && err != unix.EINTR {
		return false
	}
	for _, e := range p.events[:max(n, 0)] {
		ready(uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32)
	}
	return true
}

func (p *epoll) close() { p.file.Close() }
