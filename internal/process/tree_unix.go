//go:build unix

package process

import (
	"os/exec"
	"syscall"
)

// tree is a process group.
type tree struct {
	group int
	exit  exit
}

func startTree(cmd *exec.Cmd) (*tree, error) {
	t := new(tree)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	t.exit.prepare(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t.exit.started()
	t.group = cmd.Process.Pid
	survivors.add(t.group)
	return t, nil
}

// ended waits until the group's first process has ended, and reports true; or reports
// false at once where only reaping the process waits for it.
func (t *tree) ended() bool { return t.exit.wait() }

// ending is [Process.Exit].
func (t *tree) ending() syscall.Conn { return t.exit.conn() }

// A group that is gone is no news.
func (t *tree) terminate() { _ = syscall.Kill(-t.group, syscall.SIGTERM) }
func (t *tree) kill()      { _ = syscall.Kill(-t.group, syscall.SIGKILL) }

func (t *tree) release() { survivors.remove(t.group) }
