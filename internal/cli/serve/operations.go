// operations.go: /metrics, /readyz and /healthz, on a listener of their own: what they tell is not for the clients of the
// server.

package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/agent/expose"
	"github.com/troupe-dev/troupe/internal/bearer"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/internal/jobapi"
	"github.com/troupe-dev/troupe/internal/webserver"
)

// metricsToken is the variable of the token of --metrics.
const metricsToken = "TROUPE_METRICS_TOKEN"

// operations is what listens for operators. It answers from the start on.
type operations struct {
	listener net.Listener
	token    string // empty for none
	server   *http.Server
	handler  atomic.Pointer[http.Handler]
	served   chan struct{} // closed when server has ended
}

// listenOperations opens the address of --metrics; it is nil without one, and in a dry run. An address that others can
// reach takes a token.
func listenOperations(e *env.Env, f *serveFlags, s *env.Settings) (*operations, error) {
	c := &s.Serve.Metrics
	token, source := c.Token.Reveal(), "serve.metrics.token"
	if token == "" {
		token, source = os.Getenv(metricsToken), "$"+metricsToken
	}
	if token != "" {
		if err := bearer.Check(token); err != nil {
			return nil, env.Usagef("%s: %w", source, err)
		}
	}
	if f.metrics == "" {
		return nil, nil
	}
	host, port, err := env.ListenAddress(f.metrics)
	if err == nil && token == "" && !loopback(host) {
		err = errors.New("others can reach this address, and metrics name agents, servers and models: set a token as $" + metricsToken + " or serve.metrics.token, or listen on 127.0.0.1")
	}
	if err != nil {
		return nil, env.FromFlag(s, "--metrics", f.metrics, "serve.metrics.http", c.HTTP, err)
	}
	if e.DryRun {
		return nil, nil
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, env.Usagef("--metrics: %w", err)
	}
	return &operations{listener: l, token: token, served: make(chan struct{})}, nil
}

// serve begins to answer, that the program is starting.
func (p *operations) serve(e *env.Env, log *slog.Logger) {
	first := jobapi.Starting("server", func(context.Context) error { return errors.New("the server is starting") })
	p.handler.Store(&first)
	p.server = webserver.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*p.handler.Load()).ServeHTTP(w, r) }))
	p.server.WriteTimeout = time.Minute
	l := webserver.Limit(p.listener, webserver.Limits{Connections: 64, Logger: log})
	e.Note("metrics are at http://%s/metrics", p.listener.Addr())
	go func() { // ends with close
		defer close(p.served)
		if err := p.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the listener for metrics has ended", "error", err)
		}
	}()
}

// started has the answers be those of what is served. Draining reports that the server ends.
func (p *operations) started(o *setup.Opened, front *expose.Front, draining func() bool) error {
	shown := setup.MetricsOptions(o)
	shown.Clients = front.Clients
	h, err := jobapi.NewOperations(jobapi.OperationsOptions{Token: p.token, Metrics: jobapi.NewMetrics(shown).Handler(), Providers: shown.Providers,
		Ready: func(ctx context.Context) error {
			if draining() {
				return errors.New("the server is draining")
			}
			return setup.StoreReady(ctx, o.Store, shown.Probe)
		}})
	if err == nil {
		p.handler.Store(&h)
	}
	return err
}

// close ends it. Requests under way have a moment.
func (p *operations) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if p.server.Shutdown(ctx) != nil {
		_ = p.server.Close() // what it ended says nothing of the program
	}
	<-p.served
}
