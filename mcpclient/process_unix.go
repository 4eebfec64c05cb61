//go:build unix

package mcpclient

import (
	"os"
	"os/exec"
	"syscall"
)

// separate gives the process a group of its own: signals reach all of it, and
// those that a terminal sends to us do not.
func separate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// A group that is gone is no news.
func terminateGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }
func killGroup(p *os.Process)      { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
