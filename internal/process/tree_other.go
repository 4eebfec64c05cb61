//go:build !unix && !windows

package process

import (
	"os/exec"
	"syscall"
)

// tree is the process alone: this system knows no groups.
type tree struct{ cmd *exec.Cmd }

func startTree(cmd *exec.Cmd) (*tree, error) { return &tree{cmd}, cmd.Start() }

// ended reports false: reaping the process waits for it.
func (*tree) ended() bool { return false }

// ending is [Process.Exit].
func (*tree) ending() syscall.Conn { return nil }

// A process that is gone is no news.
func (t *tree) terminate() { t.kill() }
func (t *tree) kill()      { _ = t.cmd.Process.Kill() }
func (*tree) release()     {}
