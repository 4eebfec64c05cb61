// Package console has the command "troupe console", which serves web pages over the store.
package console

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/netutil"

	"github.com/troupe-dev/troupe/agent/console"
	"github.com/troupe-dev/troupe/internal/browser"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/store"
)

// maxConnections bounds the browsers' connections.
const maxConnections = 256

// Command returns the command.
func Command(e *env.Env) *cobra.Command {
	var address string
	var open bool
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Answer questions and look at runs in a browser",
		Long: `Serve web pages over the store, to this machine only: what waits for a person, with a form to answer it, and every run
with its steps. It prints a login link, which counts once and for ten minutes, and ends when it is interrupted.`,
		Example: "  troupe console\n  troupe console --open\n  troupe console --http 127.0.0.1:8440",
		Args:    env.NoArgs,
		RunE: e.Stored(func(cmd *cobra.Command, _ []string, s store.Store) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil || !at.Addr().IsLoopback() {
				return env.Usagef("--http %q: want an address of this machine with a port, such as 127.0.0.1:8440: who reaches the console sees all runs", address)
			}
			return serve(cmd.Context(), e, s, address, open)
		}),
	}
	cmd.Flags().StringVar(&address, "http", "127.0.0.1:0", "listen on this `ADDRESS` of this machine; port 0 is a free one")
	cmd.Flags().BoolVar(&open, "open", false, "open the login link in a browser")
	return cmd
}

// serve serves the console until ctx ends.
func serve(ctx context.Context, e *env.Env, s store.Store, address string, open bool) error {
	log, err := e.Logger()
	if err != nil {
		return err
	}
	c, err := console.New(&console.Options{Store: s, Name: env.UserName(), Logger: log,
		Wake: func() { e.WakeAll(context.WithoutCancel(ctx)) }})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return env.Usagef("--http: %w", err)
	}
	link := "http://" + listener.Addr().String() + c.LoginPath()
	if _, err := fmt.Fprintln(e.Stdout, link); err != nil {
		return errors.Join(err, listener.Close())
	}
	e.Note("open the link in a browser: it counts once, and for ten minutes")
	if open {
		if err := browser.Open(ctx, link); err != nil {
			e.Note("open the link yourself: %v", err)
		}
	}
	server := &http.Server{Handler: c, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10, BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() {
		bound, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if server.Shutdown(bound) != nil {
			_ = server.Close()
		}
	})
	defer stop()
	if err := server.Serve(netutil.LimitListener(listener, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the console: %w", err)
	}
	return nil
}
