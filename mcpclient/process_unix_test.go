//go:build unix

package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// SECA-14, ROB-7: a process gets no secret of ours, and nothing of it is left after
// Close: neither itself nor what it has started.
func TestNothingOfAProcessIsLeft(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Setenv("TROUPE_TEST_SECRET", "hidden")
	t.Setenv("OPENAI_API_KEY", "hidden")
	for _, mode := range []string{"family", "stubborn family"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c, err := Dial(context.Background(), childServer(mode), &Options{System: realSystem(t), ProbeTimeout: 30 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			res, err := c.CallTool(context.Background(), "environment", nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if env := res.Content.Text(); strings.Contains(env, "hidden") || !strings.Contains(env, "PATH=") {
				t.Errorf("environment: got %s", env)
			}
			if res, err = c.CallTool(context.Background(), "pids", nil, nil); err != nil {
				t.Fatal(err)
			}
			var pids []int
			if err := json.Unmarshal([]byte(res.Content.Text()), &pids); err != nil || len(pids) != 2 {
				t.Fatalf("pids: got %s, %v", res.Content.Text(), err)
			}
			if err := c.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			for _, pid := range pids {
				for end := time.Now().Add(20 * time.Second); alive(pid); time.Sleep(10 * time.Millisecond) {
					if time.Now().After(end) {
						t.Errorf("process %d is still there", pid)
						break
					}
				}
			}
		})
	}
}

// alive reports whether a process runs; one that nobody has reaped does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, ok := strings.Cut(string(stat), ") ")
	return err != nil || !ok || !strings.HasPrefix(rest, "Z")
}
