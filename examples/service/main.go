// Service is an agent inside of an HTTP service: each request is one run, which is cancelled
// when its client goes away.
//
//	curl -d '{"question":"Why is the sky blue?"}' http://127.0.0.1:8080/ask
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/discover"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	model, err := discover.Default(ctx)
	if err != nil {
		log.Fatal(err)
	}
	// One runtime for all requests: they share its servers, and what a provider lets through.
	rt, err := agent.Open(ctx, &agent.Options{Model: model, MaxRuns: 100})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	handler, err := newHandler(rt)
	if err != nil {
		log.Fatal(err)
	}
	srv := &http.Server{Addr: "127.0.0.1:8080", Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = srv.Close() }) // requests end, and their runs with them
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}

func newHandler(rt *agent.Runtime) (http.Handler, error) {
	helper, err := rt.Agent("helper", &agent.Config{
		Instructions: "Answer in one sentence.",
		Limits:       agent.Limits{Tokens: 10_000, Wall: time.Minute},
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /ask", func(w http.ResponseWriter, r *http.Request) { ask(w, r, helper) })
	return mux, nil
}

func ask(w http.ResponseWriter, r *http.Request, helper *agent.Agent) {
	var in struct{ Question string }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&in); err != nil || in.Question == "" {
		http.Error(w, `want {"question": "…"}`, http.StatusBadRequest)
		return
	}
	res, err := helper.Run(r.Context(), in.Question, nil)
	switch {
	case r.Context().Err() != nil:
		return // the client is gone
	case errors.Is(err, agent.ErrTooManyRuns):
		http.Error(w, "too much to do", http.StatusServiceUnavailable)
		return
	case err != nil:
		log.Print(err)
		http.Error(w, "there is no answer", http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(res); err != nil {
		log.Print(err)
	}
}
