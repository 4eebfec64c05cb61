//go:build linux

package killmatrix

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// effects are the effects of a server, a line each, in a file; beside it is the order for a fault of the
// host at one of them, and the host's process ID.
type effects struct{ file string }

type in struct {
	N int `json:"n"`
}

// newServer returns a server whose tools have effects: at once, as a task, and after a form, a page or
// sampling.
func newServer(file string) (*mcpserver.Server, error) {
	e := &effects{file}
	s, err := mcpserver.New(mcp.Implementation{Name: "effects", Version: "1"}, &mcpserver.Options{Tasks: &mcpserver.TaskOptions{Poll: 50 * time.Millisecond}})
	if err != nil {
		return nil, err
	}
	type form struct {
		Word string `json:"word"`
	}
	return s, errors.Join(
		mcpserver.AddTool(s, &mcp.Tool{Name: "do"}, func(_ context.Context, _ *mcpserver.ToolRequest, in in) (string, error) {
			return e.happen(in.N)
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "long", Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskRequired}}, func(_ context.Context, _ *mcpserver.ToolRequest, in in) (string, error) {
			begun := e.file + ".working"
			if err := os.WriteFile(begun, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
				return "", err
			}
			time.Sleep(100 * time.Millisecond) // the task is at work while its host is killed
			text, err := e.happen(in.N)
			return text, errors.Join(err, os.Remove(begun))
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "asks"}, func(ctx context.Context, req *mcpserver.ToolRequest, in in) (string, error) {
			if _, err := mcpserver.Elicit[form](ctx, req, "word", "Which word?"); err != nil {
				return "", err
			}
			return e.happen(in.N)
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "visits"}, func(_ context.Context, req *mcpserver.ToolRequest, in in) (string, error) {
			if _, err := os.Stat(e.file + ".visited"); err != nil {
				return "", req.NeedURL("page", "Visit the page.", "https://pages.example/")
			}
			return e.happen(in.N)
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "samples"}, func(ctx context.Context, req *mcpserver.ToolRequest, in in) (string, error) {
			_, err := req.Sample(ctx, "say", &mcp.CreateMessageParams{MaxTokens: 10, Messages: []mcp.SamplingMessage{{Role: "user", Content: mcp.Contents{mcp.Text("say")}}}})
			if err != nil {
				return "", err
			}
			return e.happen(in.N)
		}),
	)
}

// happen has the effect, and the fault before or after it if that is the order.
func (e *effects) happen(n int) (string, error) {
	raw, _ := os.ReadFile(e.file + ".order")
	order := strings.Fields(string(raw)) // fault, when, and at which effect
	mine := len(order) == 3 && order[2] == strconv.Itoa(n)
	if mine && order[1] == "before" {
		e.fault(order[0])
	}
	f, err := os.OpenFile(e.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	_, err = fmt.Fprintf(f, "%d\n", n)
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	if mine && order[1] == "after" {
		e.fault(order[0])
	}
	return result(n), nil
}

// result is what the model reads of an effect.
func result(n int) string { return fmt.Sprintf("did %d", n) }

// fault kills the host, has it stand still, or meets the test, once.
func (e *effects) fault(what string) {
	_ = os.Remove(e.file + ".order")
	raw, err := os.ReadFile(e.file + ".pid")
	pid, _ := strconv.Atoi(string(raw))
	if err != nil || pid <= 1 {
		return
	}
	is, sig := zombie, syscall.SIGKILL
	switch what {
	case "meet":
		meet(e.file)
		return
	case "stop":
		time.Sleep(settled)
		is, sig = stands, syscall.SIGSTOP
	}
	_ = syscall.Kill(pid, sig)
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && !is(pid); {
		time.Sleep(time.Millisecond)
	}
}

// zombie reports whether a process has ended, and may wait for its parent.
func zombie(pid int) bool { return slices.Contains([]string{"", "Z", "X"}, processState(pid)) }

// stands reports whether a process was stopped.
func stands(pid int) bool { return processState(pid) == "T" }

// processState is that of /proc; "" is for no process.
func processState(pid int) string {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(raw), ") ")
	return rest[:min(len(rest), 1)]
}

// serveHTTP serves over HTTP until the test ends, and returns the address.
func serveHTTP(file string) (url string, stop func(), err error) {
	s, err := newServer(file)
	if err != nil {
		return "", nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	web := &http.Server{Handler: s.Handler()}
	go func() { _ = web.Serve(l) }()
	return "http://" + l.Addr().String() + "/mcp", func() { _ = web.Close(); _ = s.Close() }, nil
}
