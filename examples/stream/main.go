// Stream shows a run in the browser while it goes on, by server-sent events.
//
//	go run ./examples/stream    and open http://127.0.0.1:8080
package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/discover"
)

//go:embed index.html
var page embed.FS

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	model, err := discover.Default(ctx)
	if err != nil {
		log.Fatal(err)
	}
	rt, err := agent.Open(ctx, &agent.Options{Model: model, Tools: []agent.Tool{agent.Func("roll", "Rolls a die.", roll)}})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	srv := &http.Server{Addr: "127.0.0.1:8080", Handler: newHandler(rt), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}

func roll(context.Context, struct{}) (int, error) { return 1 + rand.IntN(6), nil }

func newHandler(rt *agent.Runtime) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(page))
	mux.HandleFunc("POST /runs", func(w http.ResponseWriter, r *http.Request) { start(w, r, rt) })
	mux.HandleFunc("GET /runs/{id}", func(w http.ResponseWriter, r *http.Request) { watch(w, r, rt) })
	return http.NewCrossOriginProtection().Handler(mux) // other pages start nothing here
}

// start begins a run, which goes on with or without a reader of its events.
func start(w http.ResponseWriter, r *http.Request, rt *agent.Runtime) {
	prompt, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	if err != nil {
		return
	}
	run, err := rt.Start(r.Context(), string(prompt), nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprint(w, run.ID())
}

// watch streams a run from its beginning: a browser that lost its stream comes again.
func watch(w http.ResponseWriter, r *http.Request, rt *agent.Runtime) {
	run, err := rt.Find(r.Context(), r.PathValue("id"))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for ev, err := range run.Events(r.Context()) { // a slow browser holds nothing up
		if err != nil {
			return
		}
		data, err := json.Marshal(ev)
		if err != nil {
			return
		}
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", ev.EventType(), data)
		_ = http.NewResponseController(w).Flush()
	}
}
