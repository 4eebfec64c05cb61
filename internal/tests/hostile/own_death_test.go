package hostile

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// hostVariable makes the test binary a host that is to be killed.
const hostVariable = "TROUPE_HOSTILE_HOST"

func init() {
	register("process", func() script {
		begun := make(chan struct{}, 1)
		return func(c *turn) bool {
			if c.m.Method != mcp.MethodCallTool {
				return false
			}
			switch c.name() {
			case "pid":
				c.textResult(strconv.Itoa(os.Getpid()))
			case "environment":
				c.textResult(strings.Join(os.Environ(), "\n"))
			case "mute":
				begun <- struct{}{}
			case "mute has begun":
				<-begun
				return false
			case "junk":
				for i := range 100 {
					fmt.Printf("log line %d\n\n  \x1b[31mred\n%%!\n", i)
				}
				return false
			default:
				return false
			}
			return true
		}
	})
}

// runHost has a server, tells its process id, and waits to be killed in the middle of
// a call.
func runHost(string) {
	os.Unsetenv(hostVariable)
	c, err := mcpclient.Dial(context.Background(), openStdio(nil, "process", mcp.V2025_11_25), nil)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	res, err := c.CallTool(context.Background(), "pid", nil, nil)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(res.Content.Text())
	_, _ = c.CallTool(context.Background(), "mute", nil, nil)
}

// SECA-14, ROB-7: a server's process does not outlive a host that was killed.
func TestOurOwnDeath(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), hostVariable+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("the host says %q", line)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	mcptest.Eventually(t, mcptest.Patience, "gone", func() bool { return !alive(pid) })
}

// SECA-14: junk among the answers is passed over, and secrets of ours are not inherited.
func TestStdioManners(t *testing.T) {
	t.Setenv("TROUPE_HOSTILE_SECRET", "canary")
	c := dial(t, openStdio(t, "process", mcp.V2025_11_25), nil)
	if got, err := text(t, c, "junk", answerBound); err != nil || got != "junk" {
		t.Errorf("among junk: got %q, %v", got, err)
	}
	if got, err := text(t, c, "environment", answerBound); err != nil || strings.Contains(got, "canary") {
		t.Errorf("environment: got %q, %v", got, err)
	}
}

// ROB-2, ROB-7: kill -9 in the middle of a call ends that call, and no other; the next
// one has a new process.
func TestKilledInACall(t *testing.T) {
	t.Parallel()
	c := dial(t, openStdio(t, "process", mcp.V2025_11_25), nil)
	other := dial(t, openStdio(t, "process", mcp.V2025_11_25), nil)
	for range 3 {
		got, err := text(t, c, "pid", mcptest.Patience)
		pid, _ := strconv.Atoi(got)
		if err != nil || pid == 0 {
			t.Fatalf("pid: got %q, %v", got, err)
		}
		ended := make(chan error, 1)
		go func() { _, err := text(t, c, "mute", mcptest.Patience); ended <- err }()
		if _, err := text(t, c, "mute has begun", mcptest.Patience); err != nil {
			t.Fatal(err)
		}
		if p, err := os.FindProcess(pid); err != nil || p.Kill() != nil {
			t.Fatalf("killing %d: %v", pid, err)
		}
		select {
		case err := <-ended:
			if err == nil {
				t.Error("the call under way: got no error")
			}
		case <-time.After(mcptest.Patience):
			t.Fatal("the call under way does not end")
		}
		if got, err := text(t, other, "good", answerBound); err != nil {
			t.Errorf("another server: got %q, %v", got, err)
		}
	}
}
