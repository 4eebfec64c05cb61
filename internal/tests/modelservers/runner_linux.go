package modelservers

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Runners returns the processes that the server has started, one for each model that is
// loaded. It is Linux's only.
func (s *OllamaServer) Runners() ([]*os.Process, error) {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("looking for runners: %w", err)
	}
	var found []*os.Process
	for _, e := range all {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat")) // it may have ended
		if err != nil {
			continue
		}
		// pid (name) state ppid …; the name may hold anything.
		_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[0] == "Z" || fields[1] != strconv.Itoa(s.cmd.Process.Pid) {
			continue
		}
		p, err := os.FindProcess(pid)
		if err != nil {
			return nil, err
		}
		found = append(found, p)
	}
	return found, nil
}
