//go:build unix

package hostile

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// alive reports whether a process runs; a zombie does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, ok := strings.Cut(string(stat), ") ")
	return err != nil || !ok || !strings.HasPrefix(rest, "Z")
}
