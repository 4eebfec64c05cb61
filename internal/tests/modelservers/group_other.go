//go:build !unix

package modelservers

import "os/exec"

func separate(*exec.Cmd) {}

// killGroup kills the process.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
