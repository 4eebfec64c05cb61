// Package kit is what the servers of the comparison have in common: flags, tools, the debug
// endpoint and the notices of the tool wait.
package kit

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
)

// Echo is the input of the tool echo, which answers the message.
type Echo struct {
	Message string   `json:"message"`
	Count   int      `json:"count"`
	Tags    []string `json:"tags"`
}

// Wait is the input of the tool wait, which blocks until it is cancelled.
type Wait struct {
	Key string `json:"key"`
}

// Ask is the input of the tool ask, which elicits n times.
type Ask struct {
	N int `json:"n"`
}

// The question of Ask, and the schema of its form.
const Question = "go on?"

var Form = json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`)

// Server is what a program serves.
type Server struct {
	Stdio  func(ctx context.Context) error
	HTTP   func() http.Handler // sessions, at /mcp
	Modern func() http.Handler // 2026-07-28, at /mcp
}

// Main serves as the flags say until it is interrupted or the pipe ends.
func Main(s Server) {
	mode := flag.String("mode", "stdio", "stdio, http or modern")
	addr := flag.String("addr", "127.0.0.1:0", "where to listen")
	stats := flag.Bool("debug", false, "serve /debug/stats and /debug/pprof/ too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := s.run(ctx, *mode, *addr, *stats); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (s Server) run(ctx context.Context, mode, addr string, stats bool) error {
	mux := http.NewServeMux()
	if stats {
		handleDebug(mux)
	}
	switch mode {
	case "stdio":
		if stats {
			go listen(ctx, addr, mux)
		}
		return s.Stdio(ctx)
	case "http":
		mux.Handle("/mcp", s.HTTP())
	case "modern":
		mux.Handle("/mcp", s.Modern())
	default:
		return fmt.Errorf("there is no mode %q", mode)
	}
	return listen(ctx, addr, mux)
}

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

// Notify tells the load generator of an event by a datagram to BENCH_NOTIFY.
func Notify(event, key string) {
	if notices != nil {
		_, _ = notices.Write([]byte(event + key)) // a lost one shows as a lost cancel
	}
}

var notices = func() net.Conn {
	addr := os.Getenv("BENCH_NOTIFY")
	if addr == "" {
		return nil
	}
	c, err := net.Dial("udp", addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "BENCH_NOTIFY:", err)
		os.Exit(1)
	}
	return c
}()

// Stats is what GET /debug/stats answers; sizes in bytes.
type Stats struct {
	Goroutines int    `json:"goroutines"`
	HeapAlloc  uint64 `json:"heap_alloc"`
	HeapSys    uint64 `json:"heap_sys"`
	StackInuse uint64 `json:"stack_inuse"`
	Mallocs    uint64 `json:"mallocs"`
	TotalAlloc uint64 `json:"total_alloc"`
}

func handleDebug(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/stats", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("gc") == "1" {
			runtime.GC() // what finalizers and pools held goes with the second
			debug.FreeOSMemory()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(Stats{ // its reader has gone
			Goroutines: runtime.NumGoroutine(), HeapAlloc: m.HeapAlloc, HeapSys: m.HeapSys,
			StackInuse: m.StackInuse, Mallocs: m.Mallocs, TotalAlloc: m.TotalAlloc,
		})
	})
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
}
