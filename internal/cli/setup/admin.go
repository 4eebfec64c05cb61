package setup

import (
	"github.com/troupe-dev/troupe/agent/console"
	"github.com/troupe-dev/troupe/internal/admin"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/inspect"
)

// AdminOptions are those of the admin socket of a command. Wake and status are as in [admin.Options],
// waits says what a run waits for; nil knows nothing.
func AdminOptions(o *Opened, command string, wake func(), waits func(run string) string, status func() any) admin.Options {
	opts := inspect.Options(o.Runtime, command, waits)
	opts.Store, opts.Wake, opts.Status = o.Store, wake, status
	opts.Runs = console.ControlOf(o.Runtime)
	return opts
}

// OpenAdmin opens the socket at which other processes of the user see what runs here,
// and say that there is something new in the store. It is a courtesy: without it they
// see nothing, and this process looks by itself.
func OpenAdmin(e *env.Env, o *Opened, opts admin.Options) (close func()) {
	dir, err := e.SocketDir()
	if err == nil {
		var s *admin.Server
		if s, err = admin.Listen(dir, opts); err == nil {
			return func() {
				if err := s.Close(); err != nil {
					o.Log.Warn("the admin socket was not closed", "error", err)
				}
			}
		}
	}
	o.Log.Warn("without an admin socket: troupe tree does not see this process", "error", err)
	return func() {}
}
