package jobs

import (
	"log/slog"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/internal/jobapi"
	"github.com/troupe-dev/troupe/store"
)

// Notify has people notified of questions that begin to wait, as worker.notify of the configuration says;
// it does nothing without that. Hooks delivers webhooks; nil starts what does. It ends with the system.
func Notify(e *env.Env, c *config.Worker, sys *actors.System, s store.Store, hooks *jobapi.Hooks, log *slog.Logger) error {
	n := &c.Notify
	if n.IsZero() {
		return nil
	}
	if n.URL != "" {
		guard, err := HookGuard(e)
		if err != nil {
			return err
		}
		if err := guard.Check(n.URL); err != nil {
			return env.Usagef("worker.notify.url: %w; worker.hook_hosts are your exceptions", err)
		}
		if c.HookSecret.IsZero() {
			return env.Usagef("worker.notify.url needs worker.hook_secret: a receiver could not verify what it gets")
		}
		if hooks == nil {
			secret, err := jobapi.NewSecret(c.HookSecret.Reveal())
			if err != nil {
				return env.Usagef("worker.hook_secret: %w", err)
			}
			if hooks, err = jobapi.StartHooks(sys, jobapi.HooksOptions{Store: s, Guard: guard, Secret: secret, Logger: log}); err != nil {
				return err
			}
		}
	} else {
		hooks = nil
	}
	_, err := jobapi.StartNotices(sys, jobapi.NoticesOptions{Store: s, Hooks: hooks, URL: n.URL, Command: n.Command, Details: n.Details, Logger: log})
	return err
}
