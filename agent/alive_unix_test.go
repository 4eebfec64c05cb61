//go:build unix

package agent_test

import (
	"os"
	"syscall"
)

// alive reports whether a process runs.
func alive(p *os.Process) bool { return p.Signal(syscall.Signal(0)) == nil }
