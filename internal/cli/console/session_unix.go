//go:build unix

package console

import "syscall"

// ownSession detaches a command from the terminal of this one, and from its interrupts.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
