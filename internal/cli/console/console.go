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
	var f consoleFlags
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Answer questions and look at runs in a browser",
		Long: `Serve web pages over the store: what waits for a person, with a form to answer it, every run with its steps, jobs and
schedules. It serves this machine only, prints a login link, which counts once and for ten minutes, and ends when it is interrupted.

Others than this machine reach it only with a login, by --users FILE (names, passwords and roles: see troupe serve users add --role)
or at an OpenID provider (--auth-issuer), by the names of --host, and by https: of its own (--tls-cert, --tls-key) or a proxy's
(--behind-proxy). Who answers a question is in the journal by the name of the login.`,
		Example: `  troupe console
  troupe console --open
  troupe console --http 0.0.0.0:8443 --host console.example.com --tls-cert chain.pem --tls-key key.pem --users users.txt
  troupe console --http 127.0.0.1:8440 --behind-proxy --host console.example.com --auth-issuer https://login.example.com --auth-client troupe --auth-role admins=operate`,
		Args: env.NoArgs,
		RunE: e.Stored(func(cmd *cobra.Command, _ []string, s store.Store) error {
			if err := f.settle(); err != nil {
				return err
			}
			return serve(cmd.Context(), e, s, &f)
		}),
	}
	f.add(cmd)
	return cmd
}

// serve serves the console until ctx ends.
func serve(ctx context.Context, e *env.Env, s store.Store, f *consoleFlags) error {
	log, err := e.Logger()
	if err != nil {
		return err
	}
	listener, err := f.listen()
	if err != nil {
		return err
	}
	quiet, err := startNotices(e, s, log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer quiet()
	web, err := serveWith(e, listener, s, log, nil, f)
	if err != nil {
		return err
	}
	defer web.Close()
	link := web.Link()
	if _, err := fmt.Fprintln(e.Stdout, link); err != nil {
		return err
	}
	if f.users == "" && f.issuer == "" {
		e.Note("open the link in a browser: it counts once, and for ten minutes")
	}
	if f.open {
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
	out, err := jobs.OutboundOf(e)
	if err != nil {
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
	if err := out.StartNotices(sys, s, nil, log); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}
