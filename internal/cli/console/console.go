// Package console has the command "troupe console", which serves web pages over the store.
package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/browser"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/jobs"
	"github.com/troupe-dev/troupe/store"
)

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
	listener, err := Listen("--http", address)
	if err != nil {
		return err
	}
	quiet, err := startNotices(e, s, log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer quiet()
	web, err := Serve(e, listener, s, log, nil)
	if err != nil {
		return err
	}
	defer web.Close()
	link := web.Link()
	if _, err := fmt.Fprintln(e.Stdout, link); err != nil {
		return err
	}
	e.Note("open the link in a browser: it counts once, and for ten minutes")
	if open {
		if err := browser.Open(ctx, link); err != nil {
			e.Note("open the link yourself: %v", err)
		}
	}
	return web.Wait(ctx)
}

// startNotices has people notified of questions while the console runs, if the configuration says so.
func startNotices(e *env.Env, s store.Store, log *slog.Logger) (stop func(), err error) {
	settings, err := e.Config()
	if err != nil || settings.Worker.Notify.IsZero() {
		return func() {}, err
	}
	if settings, err = e.Section("worker"); err != nil {
		return nil, err
	}
	sys, err := actors.NewSystem(&actors.Options{Logger: log})
	if err != nil {
		return nil, err
	}
	stop = func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		if err := sys.Shutdown(ctx); err != nil {
			log.Warn("what notifies of questions has not ended in time", "error", err)
		}
	}
	if err := jobs.Notify(e, &settings.Worker, sys, s, nil, log); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}
