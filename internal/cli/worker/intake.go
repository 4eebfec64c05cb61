package worker

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/internal/bearer"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/webserver"
)

// intake is where jobs are taken over HTTP. It answers from the worker's start on, so that /readyz can say
// what the start waits for.
type intake struct {
	listener net.Listener
	token    string
	proxied  bool // clients come through a proxy
	server   *http.Server
	handler  atomic.Pointer[http.Handler]
	served   chan struct{} // closed when server has ended
}

// listenIntake opens the address of --http; it is nil without one, and in a dry run.
func listenIntake(e *env.Env, f *workerFlags, s *env.Settings) (*intake, error) {
	c := &s.Worker
	if f.http == "" && !e.DryRun {
		return nil, nil
	}
	token, source := c.Token.Reveal(), "worker.token"
	if token == "" {
		token, source = os.Getenv("TROUPE_WORKER_TOKEN"), "$TROUPE_WORKER_TOKEN"
	}
	switch err := bearer.Check(token); {
	case token == "" && f.http == "":
		return nil, nil
	case token == "":
		return nil, env.Usagef("--http needs a token: who may hand in jobs may do all that the agents may. " +
			"Set $TROUPE_WORKER_TOKEN, or worker.token in your troupe.yaml")
	case err != nil:
		return nil, env.Usagef("%s: %w", source, err)
	case f.http == "":
		return nil, nil
	}
	host, port, err := env.ListenAddress(f.http)
	if err != nil {
		return nil, env.FromFlag(s, "--http", f.http, "worker.http", c.HTTP, err)
	}
	if e.DryRun {
		return nil, nil
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, env.Usagef("--http: %w", err)
	}
	return &intake{listener: l, token: token, proxied: f.behindProxy, served: make(chan struct{})}, nil
}

// maxConnections bounds the connections of the intake. One program that hands in jobs may have half of
// them.
const maxConnections = 1024

// serve begins to answer.
func (in *intake) serve(first http.Handler, log *slog.Logger) {
	in.answerWith(first)
	in.server = webserver.New(in)
	in.server.WriteTimeout = 2 * time.Minute
	l := webserver.Limit(in.listener, webserver.Limits{Connections: maxConnections, Share: maxConnections / 2, Proxied: in.proxied, Logger: log})
	go func() { // ends with close
		defer close(in.served)
		if err := in.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the HTTP intake has ended", "error", err)
		}
	}()
}

// answerWith has another handler answer from now on.
func (in *intake) answerWith(h http.Handler) { in.handler.Store(&h) }

// ServeHTTP implements [http.Handler].
func (in *intake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*in.handler.Load()).ServeHTTP(w, r)
}

// close ends it. Requests under way have a moment; closing again does nothing.
func (in *intake) close() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if in.server.Shutdown(ctx) != nil {
		err = in.server.Close()
	}
	<-in.served
	return err
}
