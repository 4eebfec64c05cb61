//go:build !unix

package console

import "syscall"

// ownSession changes nothing here: an interrupt of the console's terminal reaches the command, too.
func ownSession() *syscall.SysProcAttr { return nil }
