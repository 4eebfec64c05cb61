package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/agent/expose"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/webserver"
	"github.com/troupe-dev/troupe/mcpserver/authserver"
)

// maxConnections bounds the connections of "troupe serve --http".
const maxConnections = 8192

// webServer is what listens for clients over HTTP.
type webServer struct {
	listener net.Listener       // nil in a dry run
	address  string             // of it
	metadata http.Handler       // of the resource; nil for none
	embedded *authserver.Server // nil for none
	proxied  bool               // clients come through a proxy
	ending   atomic.Bool
}

// listenWeb opens the address of --http. One that others can reach takes a token.
func listenWeb(e *env.Env, f *serveFlags, s *env.Settings) (*webServer, error) {
	host, port, err := env.ListenAddress(f.http)
	if err != nil {
		return nil, env.FromFlag(s, "--http", f.http, "serve.http", s.Serve.HTTP, err)
	}
	if !loopback(host) {
		if f.auth.open() {
			return nil, env.Usagef("--http %s is an address that others can reach, and everyone who reaches it may do all that the agents and servers may: "+
				"set a token as $TROUPE_TOKEN, name an authorization server with --auth-issuer, or serve on 127.0.0.1", f.http)
		}
		if ip, err := netip.ParseAddr(host); err != nil || !ip.IsUnspecified() {
			f.hosts = append(f.hosts, hostOf(host))
		}
	}
	if e.DryRun {
		return &webServer{address: net.JoinHostPort(host, port)}, nil
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, env.Usagef("--http: %w", err)
	}
	return &webServer{listener: l, address: l.Addr().String(), proxied: f.behindProxy}, nil
}

// hostOf is a host as the header Host has it.
func hostOf(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// loopback reports whether only this machine reaches the host. A name but localhost may
// belong to any site.
func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func (w *webServer) close() {
	if w.listener != nil {
		_ = w.listener.Close() // it may be closed already
	}
}

// serveWeb serves clients over HTTP until ctx ends, and then lets calls end.
func serveWeb(ctx context.Context, e *env.Env, f *serveFlags, web *webServer, front *expose.Front, log *slog.Logger) error {
	mux := http.NewServeMux()
	mcp := front.Handler()
	mux.Handle("/mcp", mcp)
	mux.Handle("/{$}", mcp)
	if f.protocol != "modern" {
		mux.Handle("/sse", front.SSEHandler())
	}
	mux.HandleFunc("GET /healthz", web.health)
	if web.metadata != nil {
		mux.Handle("/.well-known/oauth-protected-resource", web.metadata)
		mux.Handle("/.well-known/oauth-protected-resource/", web.metadata)
	}
	if web.embedded != nil {
		web.embedded.Mount(mux)
	}
	server := webserver.New(mux)
	l := webserver.Limit(web.listener, webserver.Limits{Connections: maxConnections, Proxied: web.proxied, Logger: log})
	e.Note("serving %s at http://%s/mcp", strings.Join(f.expose, " and "), web.listener.Addr())
	over := make(chan error, 1)
	go func() { over <- server.Serve(l) }() // ends with the server
	select {
	case err := <-over:
		return fmt.Errorf("serving HTTP: %w", err)
	case <-ctx.Done():
	}
	web.ending.Store(true)
	err := drain(f.drain, front)
	bound, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if server.Shutdown(bound) != nil {
		err = errors.Join(err, server.Close())
	}
	<-over
	return err
}

// health answers /healthz.
func (w *webServer) health(out http.ResponseWriter, _ *http.Request) {
	out.Header().Set("Content-Type", "application/json")
	if w.ending.Load() {
		out.WriteHeader(http.StatusServiceUnavailable)
		_, _ = out.Write([]byte(`{"status":"draining"}` + "\n")) // the client has gone: an error has no receiver
		return
	}
	_, _ = out.Write([]byte(`{"status":"ok"}` + "\n"))
}

// drain ends the front, its calls within the time.
func drain(within time.Duration, front *expose.Front) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return front.Shutdown(ctx)
}
