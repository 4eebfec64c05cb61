// Command troupe is the server of ours that the comparison measures: the tools echo, wait
// and ask on mcpserver's public API, over a pipe or over HTTP.
//
//	troupe -mode stdio
//	troupe -mode http -addr 127.0.0.1:0      # both eras at /mcp
//
// It prints the address it listens on, alone on one line of standard error.
//
// The tools are those that every server of the comparison has: echo answers
// its message; wait blocks until it is cancelled; ask elicits n times. Wait tells
// the load generator when it starts and when its context has ended by datagrams
// "S<key>" and "D<key>" to the UDP address in BENCH_NOTIFY. With -debug
// there is GET /debug/stats[?gc=1] and net/http/pprof beside /mcp, in stdio mode
// at -addr alone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

func main() {
	mode := flag.String("mode", "stdio", "stdio, http (sessions of the older revisions) or modern (2026-07-28); the last two are one server")
	addr := flag.String("addr", "127.0.0.1:0", "where to listen")
	debug := flag.Bool("debug", false, "serve /debug/stats and /debug/pprof/ too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *mode, *addr, *debug); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, mode, addr string, debug bool) error {
	notify, err := dialNotify(os.Getenv("BENCH_NOTIFY"))
	if err != nil {
		return err
	}
	s, err := newServer(notify)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	if debug {
		handleDebug(mux)
	}
	switch mode {
	case "stdio":
		if debug {
			go func() {
				if err := listen(ctx, addr, mux); err != nil {
					fmt.Fprintln(os.Stderr, "server: the debug endpoint:", err)
				}
			}()
		}
		return errors.Join(s.ServeStdio(ctx), s.Close())
	case "http", "modern":
		mux.Handle("/mcp", s.Handler())
		return errors.Join(listen(ctx, addr, mux), s.Close())
	}
	return fmt.Errorf("there is no mode %q: it is stdio, http or modern", mode)
}

// listen serves h at addr until ctx ends.
func listen(ctx context.Context, addr string, h http.Handler) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, l.Addr())
	web := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { web.Close() })
	defer stop()
	if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// newServer returns a server with the three tools.
func newServer(notify func(event, key string)) (*mcpserver.Server, error) {
	s, err := mcpserver.New(mcp.Implementation{Name: "bench", Version: "1"}, &mcpserver.Options{
		HTTP: mcpserver.HTTPOptions{MaxSessions: 20_000}, // ten thousand of them are left idle
	})
	if err != nil {
		return nil, err
	}
	return s, errors.Join(
		mcpserver.AddFunc(s, &mcp.Tool{Name: "echo"}, echo),
		mcpserver.AddFunc(s, &mcp.Tool{Name: "wait"}, func(ctx context.Context, in waitIn) (string, error) {
			notify("S", in.Key)
			<-ctx.Done()
			notify("D", in.Key)
			return "", context.Cause(ctx)
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "ask"}, ask),
	)
}
