//go:build unix && !linux

package process

import "syscall"

// exit is not known here before the process is reaped.
type exit struct{}

func (*exit) prepare(*syscall.SysProcAttr) {}
func (*exit) started()                     {}
func (*exit) conn() syscall.Conn           { return nil }
func (*exit) wait() bool                   { return false }
