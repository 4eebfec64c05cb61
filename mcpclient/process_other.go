//go:build !unix

package mcpclient

import (
	"os"
	"os/exec"
)

// separate does nothing: there are no process groups here.
func separate(*exec.Cmd) {}

// A process that is gone is no news.
func terminateGroup(p *os.Process) { _ = p.Kill() }
func killGroup(p *os.Process)      { _ = p.Kill() }
