//go:build !unix

package browser

import "os/exec"

// detach does nothing: there are no sessions.
func detach(*exec.Cmd) {}
