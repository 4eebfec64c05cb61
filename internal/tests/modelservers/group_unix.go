//go:build unix

package modelservers

import (
	"os/exec"
	"syscall"
)

// separate gives the process a group of its own, which what it starts belongs to.
func separate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the process and what it has started.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
