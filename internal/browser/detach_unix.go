//go:build unix

package browser

import (
	"os/exec"
	"syscall"
)

// detach gives the program a session of its own, without our terminal: neither its
// signals nor our end reach it.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
