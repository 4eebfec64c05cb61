package mcpserver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// role makes the test binary a server.
const role = "TROUPE_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(role) == "" {
		os.Exit(m.Run())
	}
	var opts mcpserver.Options
	if os.Getenv(role) == "loud" {
		opts.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	s, err := mcpserver.New(mcp.Implementation{Name: "child", Version: "1"}, &opts)
	if err == nil {
		err = addTools(s, &gate{begun: make(chan context.Context, 1), ended: make(chan error, 1)})
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err == nil {
		err = mcpserver.AddFunc(s, &mcp.Tool{Name: "quit"}, func(context.Context, struct{}) (string, error) { cancel(); return "", nil })
	}
	if err == nil {
		if err = s.ServeStdio(ctx); errors.Is(err, context.Canceled) {
			err = nil
		}
	}
	if err = errors.Join(err, s.Close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A real process on real pipes: it answers, and ends when the client hangs up,
// or by itself although its standard input is still open.
func TestServeStdio(t *testing.T) {
	for _, end := range []string{"hang up", "hang up in a call", "quit"} {
		t.Run(end, func(t *testing.T) {
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, exe)
			cmd.Env = append(os.Environ(), role+"=1")
			cmd.Stderr = os.Stderr
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			v := mcp.V2026_07_28
			for i := range 10 {
				io.WriteString(in, call(v, i, "echo", `{"text":"hi"}`)+"\n")
				if !lines.Scan() || !strings.Contains(lines.Text(), fmt.Sprintf(`"id":%d,"result"`, i)) {
					t.Fatalf("call %d: got %s", i, lines.Text())
				}
			}
			switch end {
			case "hang up":
				in.Close()
			case "hang up in a call":
				io.WriteString(in, call(v, "b", "block", `{}`)+"\n")
				in.Close()
			case "quit":
				io.WriteString(in, call(v, "q", "quit", `{}`)+"\n")
			}
			for lines.Scan() { // until it has closed its end
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("the server ended with %v", err)
			}
		})
	}
}
