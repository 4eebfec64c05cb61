// web.go: the console as troupe console, troupe worker and troupe serve serve it.

package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/agent/console"
	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/internal/admin"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/jobs"
	"github.com/troupe-dev/troupe/internal/webserver"
	"github.com/troupe-dev/troupe/store"
)

// maxConnections bounds the browsers' connections.
const maxConnections = 1024

// closeTime bounds the end of a console: pages under way are written.
const closeTime = 2 * time.Second

// Listen opens an address of this machine for a console. Flag is the one that names it.
func Listen(flag, address string) (net.Listener, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().IsLoopback() {
		return nil, env.Usagef("%s %q: want an address of this machine with a port, such as 127.0.0.1:8440: who reaches the console sees all runs", flag, address)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, env.Usagef("%s: %w", flag, err)
	}
	return l, nil
}

// Web is a console that is served.
type Web struct {
	console *console.Console
	at      string // its pages, without a path
	server  *http.Server
	leave   context.CancelFunc // ends the event streams
	served  chan error         // gets what ended it
}

// Serve serves a console over a store at a listener, which is the Web's from now on. Close it before the
// store. Own describes this process, nil for one that runs no agents.
func Serve(e *env.Env, l net.Listener, s store.Store, log *slog.Logger, own *admin.Options) (*Web, error) {
	return serveWith(e, l, s, log, own, new(consoleFlags))
}

// serveWith is Serve for a console that others than this machine may reach, as the flags say.
func serveWith(e *env.Env, l net.Listener, s store.Store, log *slog.Logger, own *admin.Options, f *consoleFlags) (*Web, error) {
	ctx, leave := context.WithCancel(context.Background())
	o := &console.Options{Store: s, Name: env.UserName(), Logger: log,
		Workers: func(ctx context.Context) []worker.Status { return jobs.Workers(ctx, e) },
		Wake:    func() { e.WakeAll(ctx) }, Processes: processes(e, own), Runs: &control{e, s}}
	base, err := f.options(o, l)
	if err != nil {
		leave()
		return nil, errors.Join(err, l.Close())
	}
	c, err := console.New(o)
	if err != nil && o.Login != nil {
		err = env.Usagef("--users, --auth-issuer: %w", err)
	}
	if err != nil {
		leave()
		return nil, errors.Join(err, l.Close())
	}
	w := &Web{console: c, at: base, leave: leave, served: make(chan error, 1)}
	w.server = webserver.New(c)
	w.server.WriteTimeout, w.server.BaseContext = time.Minute, func(net.Listener) context.Context { return ctx }
	w.server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	l = webserver.Limit(l, webserver.Limits{Connections: maxConnections, Proxied: f.proxy, Logger: log})
	if f.tls != nil {
		w.server.TLSConfig = f.tls
		go func() { w.served <- w.server.ServeTLS(l, "", "") }() // ends with the server
		return w, nil
	}
	go func() { w.served <- w.server.Serve(l) }() // ends with the server
	return w, nil
}

// processes finds the processes of this user that share the store: this one, if it runs agents, and those that listen on
// admin sockets.
func processes(e *env.Env, own *admin.Options) func(context.Context) ([]console.Process, error) {
	var all []console.Process
	if own != nil {
		all = append(all, admin.NewLocal(*own))
	}
	return func(context.Context) ([]console.Process, error) {
		clients, err := e.Processes()
		found := slices.Clone(all)
		for _, c := range clients {
			if own == nil || c.PID() != os.Getpid() {
				found = append(found, c)
			}
		}
		return found, err
	}
}

// Link returns a new login link.
func (w *Web) Link() string { return w.at + w.console.LoginPath() }

// Announce writes a login link to stderr, whatever else is written there.
func (w *Web) Announce(e *env.Env) {
	fmt.Fprintf(e.Stderr, "  the console: open %s in a browser; the link counts once, and for ten minutes\n", w.Link())
}

// Wait returns when ctx ends, or with the reason why the console is not served any more.
func (w *Web) Wait(ctx context.Context) error {
	select {
	case err := <-w.served:
		w.served <- err
		return fmt.Errorf("serving the console: %w", err)
	case <-ctx.Done():
		return nil
	}
}

// Close ends the console, and waits for that.
func (w *Web) Close() {
	w.leave()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if w.server.Shutdown(ctx) != nil {
		_ = w.server.Close() // whatever was not closed is closed now
	}
	<-w.served
}
