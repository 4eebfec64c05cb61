package process

import (
	"fmt"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// tree is a job object: all descendants of a process are in it, and end when the last
// handle of it is closed, which is ours.
type tree struct {
	job windows.Handle
	pid uint32
}

func startTree(cmd *exec.Cmd) (*tree, error) {
	job, err := newJob()
	if err != nil {
		return nil, fmt.Errorf("creating a job object: %w", err)
	}
	// Suspended: what it starts before it is in the job would not be. A process group of
	// its own: Ctrl-C in our console is not for it, and Ctrl-Break can be sent to it alone.
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
	if err := cmd.Start(); err != nil {
		_ = windows.CloseHandle(job)
		return nil, err
	}
	t := &tree{job: job, pid: uint32(cmd.Process.Pid)}
	if err := t.adopt(); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.release()
		return nil, err
	}
	return t, nil
}

// newJob returns a job object whose processes end with its last handle.
func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, err
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		_ = windows.CloseHandle(job)
		return 0, err
	}
	return job, nil
}

// adopt puts the suspended process in the job and lets it run.
func (t *tree) adopt() error {
	p, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, t.pid)
	if err != nil {
		return fmt.Errorf("opening the process: %w", err)
	}
	defer windows.CloseHandle(p)
	if err := windows.AssignProcessToJobObject(t.job, p); err != nil {
		return fmt.Errorf("putting the process in a job object: %w", err)
	}
	return resume(t.pid)
}

// resume lets the threads of a suspended process run. Its only thread is found by the
// list of all, for package os does not keep the handle.
func resume(pid uint32) error {
	list, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return fmt.Errorf("listing threads: %w", err)
	}
	defer windows.CloseHandle(list)
	thread := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	resumed := 0
	for err = windows.Thread32First(list, &thread); err == nil; err = windows.Thread32Next(list, &thread) {
		if thread.OwnerProcessID != pid {
			continue
		}
		if err := resumeThread(thread.ThreadID); err != nil {
			return err
		}
		resumed++
	}
	if resumed == 0 {
		return fmt.Errorf("resuming process %d: it has no thread", pid)
	}
	return nil
}

func resumeThread(id uint32) error {
	h, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, id)
	if err != nil {
		return fmt.Errorf("opening a thread: %w", err)
	}
	defer windows.CloseHandle(h)
	if _, err := windows.ResumeThread(h); err != nil {
		return fmt.Errorf("resuming a thread: %w", err)
	}
	return nil
}

// ended reports false: reaping the process waits for it.
func (*tree) ended() bool { return false }

// ending is [Process.Exit].
func (*tree) ending() syscall.Conn { return nil }

// terminate sends Ctrl-Break, which only a process that shares our console gets; else
// there is no way to ask.
func (t *tree) terminate() {
	if windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, t.pid) != nil {
		t.kill()
	}
}

// A job without processes is no news.
func (t *tree) kill() { _ = windows.TerminateJobObject(t.job, 1) }

func (t *tree) release() { _ = windows.CloseHandle(t.job) }
