package peers

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// The transports of a server that listens.
const (
	StreamableHTTP = "streamableHttp"
	SSE            = "sse" // HTTP+SSE of 2024-11-05
)

// startTime bounds the start of a server.
const startTime = 30 * time.Second

// Server is a server that listens on the loopback interface.
type Server struct {
	URL string // of the MCP endpoint
	cmd *exec.Cmd
	out *tail
}

// Listen starts a server on a free port of the loopback interface and stops it
// when the test ends. Its environment holds nothing of ours but PATH. Where the
// server is missing it does what [Require] does.
func Listen(t testing.TB, server, transport string) *Server {
	t.Helper()
	line := Require(t, server, transport)
	s, err := start(line)
	if err != nil {
		t.Fatalf("starting %s: %v", server, err)
	}
	t.Cleanup(func() {
		s.Stop()
		if t.Failed() {
			t.Logf("%s over %s wrote:\n%s", server, transport, s.out)
		}
	})
	path := "/mcp"
	if transport == SSE {
		path = "/sse"
	}
	s.URL += path
	return s
}

// ListenHTTP starts a server on a free port of the loopback interface, as [Listen] does,
// over Streamable HTTP. It is to be stopped.
func ListenHTTP(ctx context.Context, server string) (*Server, error) {
	line, err := Command(ctx, server, StreamableHTTP)
	if err != nil {
		return nil, err
	}
	s, err := start(line)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", server, err)
	}
	s.URL += "/mcp"
	return s, nil
}

// start runs the command line of a Node server with the loopback hook before it, and
// waits for its address.
func start(line []string) (*Server, error) {
	dir, _, _ := strings.Cut(line[1], string(filepath.Separator)+"node_modules")
	if dir == line[1] {
		dir = filepath.Dir(line[1])
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	s := &Server{out: new(tail)}
	s.cmd = exec.Command(line[0], append([]string{"--import", ImportURL(dir, LoopbackHook)}, line[1:]...)...)
	s.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "PORT=0", "PORT_FD=3"}
	s.cmd.ExtraFiles = []*os.File{w}
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	err = s.cmd.Start()
	w.Close()
	if err != nil {
		return nil, err
	}
	_ = r.SetReadDeadline(time.Now().Add(startTime)) // pipes have deadlines
	address, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		s.Stop()
		return nil, fmt.Errorf("it does not listen: %w\n%s", err, s.out)
	}
	s.URL = "http://" + strings.TrimSpace(address)
	return s, nil
}

// Stop kills the server and waits for its end. It may be called again.
func (s *Server) Stop() {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

// tail keeps the end of what a server writes.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const tailSize = 2 << 10

// Write implements [io.Writer]; it never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(p)
	if over := t.buf.Len() - tailSize; over > 0 {
		t.buf.Next(over)
	}
	return len(p), nil
}

// String returns what was kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
