//go:build !unix

package hostile

import "os"

// alive reports whether a process runs.
func alive(pid int) bool {
	_, err := os.FindProcess(pid)
	return err == nil
}
