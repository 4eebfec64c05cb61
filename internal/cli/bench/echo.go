package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/pause"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// echoFlags make an echo server worse than it could be.
type echoFlags struct {
	http   string
	slow   time.Duration
	serial bool
	leak   int
}

// echoCommand is the server that "bench" measures when none is named, and tries its
// verdicts on.
func echoCommand(e *env.Env) *cobra.Command {
	var f echoFlags
	cmd := &cobra.Command{
		Use:   "echo",
		Short: "Serve the tool echo, to be measured; slow, one call at a time or leaking if asked to",
		Long: `Serve the tool echo, which answers with its argument: over stdin and stdout, or with --http over HTTP at /mcp, in every
revision. "troupe bench" measures it where no other server is named. The flags make it as bad as servers can be, to see
what is said of that.`,
		Example: `  troupe bench echo --http 127.0.0.1:8089
  troupe bench -- troupe bench echo --slow 50ms
  troupe bench -- troupe bench echo --leak 4096`,
		Args: env.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.slow < 0 || f.leak < 0 || f.leak > 1<<20 {
				return env.Usagef("--slow must not be negative, and --leak is 0 to %d bytes", 1<<20)
			}
			s, err := newEcho(&f, new(leak))
			if err != nil {
				return err
			}
			if f.http == "" {
				err = s.ServeStdio(cmd.Context())
				if cmd.Context().Err() != nil {
					err = nil
				}
				return errors.Join(err, s.Close())
			}
			return errors.Join(serveEcho(cmd.Context(), e, s, f.http), s.Close())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.http, "http", "", "serve at `ADDRESS`, path /mcp; the address is the first line on stderr (default: stdin and stdout)")
	flags.DurationVar(&f.slow, "slow", 0, "wait this `TIME` in each call")
	flags.BoolVar(&f.serial, "serial", false, "carry out one call at a time")
	flags.IntVar(&f.leak, "leak", 0, "keep `BYTES` of each call for ever")
	return cmd
}

// leak keeps what it is given.
type leak struct {
	mu   sync.Mutex
	kept [][]byte
}

func (l *leak) keep(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := make([]byte, n)
	for i := 0; i < n; i += 1024 {
		b[i] = 1 // it is there only once it is written to
	}
	l.kept = append(l.kept, b)
}

type echoIn struct {
	Message string `json:"message"`
}

func newEcho(f *echoFlags, kept *leak) (*mcpserver.Server, error) {
	s, err := mcpserver.New(mcp.Implementation{Name: "echo", Version: "1"}, &mcpserver.Options{
		HTTP: mcpserver.HTTPOptions{MaxSessions: 20_000}, Limits: mcpserver.Limits{MaxInFlight: 100_000},
	})
	if err != nil {
		return nil, err
	}
	var one sync.Mutex
	return s, mcpserver.AddFunc(s, &mcp.Tool{Name: "echo", Description: "Answers its message."}, func(ctx context.Context, in echoIn) (string, error) {
		if f.leak > 0 {
			kept.keep(f.leak)
		}
		if f.serial {
			one.Lock()
			defer one.Unlock()
		}
		return in.Message, pause.For(ctx, f.slow)
	})
}

func serveEcho(ctx context.Context, e *env.Env, s *mcpserver.Server, address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return env.Usagef("--http: %w", err)
	}
	fmt.Fprintf(e.Stderr, "http://%s/mcp\n", l.Addr())
	mux := http.NewServeMux()
	mux.Handle("/mcp", s.Handler())
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = web.Close() }) // it ends Serve
	defer stop()
	if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// startEcho starts an echo server over HTTP in a process of its own, so that its CPU time
// and memory can be told from ours.
func startEcho(ctx context.Context, e *env.Env) (url string, stop func(), err error) {
	exe, err := ownProgram()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, exe, "bench", "echo", "--http", "127.0.0.1:0")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay, cmd.Env = 5*time.Second, os.Environ()
	said, err := cmd.StderrPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("starting the echo server: %w", err)
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = cmd.Wait()                          // by the signal
	}
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("starting the echo server: %w", err)
	}
	return strings.TrimSpace(line), stop, nil
}

// ownProgram finds this program.
func ownProgram() (string, error) {
	if path, err := exec.LookPath(os.Args[0]); err == nil {
		return path, nil
	}
	return os.Executable()
}
