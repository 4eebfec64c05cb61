package jobs

import (
	"errors"
	"fmt"
	"log/slog"
	"os/exec"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/internal/jobapi"
	"github.com/troupe-dev/troupe/internal/netguard"
	"github.com/troupe-dev/troupe/store"
)

// Outbound is what the configuration says of what leaves for people and programs: webhooks of jobs, and notices of
// questions.
type Outbound struct {
	Guard  *netguard.Guard
	Secret *jobapi.Secret // that webhooks are signed with; nil where none is sent
	Notify config.Notify
}

// OutboundOf reads hook_hosts, hook_secret and notify of the section worker, whose variables are in place. The error
// joins all that is wrong there.
func OutboundOf(e *env.Env) (*Outbound, error) {
	s, err := e.Section("worker")
	if err != nil {
		return nil, err
	}
	o := Outbound{Notify: s.Worker.Notify}
	var errs []error
	if o.Guard, err = HookGuard(e); err != nil {
		errs = append(errs, err)
	}
	if key := s.Worker.HookSecret; !key.IsZero() {
		secret, err := jobapi.NewSecret(key.Reveal())
		errs = append(errs, s.Fault("worker.hook_secret", err))
		o.Secret = &secret
	}
	n := &o.Notify
	if n.URL != "" && o.Guard != nil {
		if err := o.Guard.Check(n.URL); err != nil {
			errs = append(errs, s.Fault("worker.notify.url", fmt.Errorf("%w; worker.hook_hosts are your exceptions", err)))
		}
		if o.Secret == nil {
			errs = append(errs, s.Fault("worker.notify.url", errors.New("it needs worker.hook_secret: a receiver could not verify what it gets")))
		}
	}
	if len(n.Command) > 0 {
		_, err := exec.LookPath(n.Command[0])
		errs = append(errs, s.Fault("worker.notify.command", err))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, env.Usagef("%w", err)
	}
	return &o, nil
}

// StartNotices has people notified of questions that begin to wait, as worker.notify of the configuration says;
// it does nothing without that. Hooks delivers webhooks; nil starts what does. It ends with the system.
func (o *Outbound) StartNotices(sys *actors.System, s store.Store, hooks *jobapi.Hooks, log *slog.Logger) (err error) {
	n := &o.Notify
	if n.IsZero() {
		return nil
	}
	if n.URL == "" {
		hooks = nil
	} else if hooks == nil {
		if hooks, err = jobapi.StartHooks(sys, jobapi.HooksOptions{Store: s, Guard: o.Guard, Secret: *o.Secret, Logger: log}); err != nil {
			return err
		}
	}
	_, err = jobapi.StartNotices(sys, jobapi.NoticesOptions{Store: s, Hooks: hooks, URL: n.URL, Command: n.Command, Details: n.Details, Logger: log})
	return err
}
