package setup

import (
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/admin"
	"github.com/troupe-dev/troupe/internal/cli/env"
)

// OpenAdmin opens the socket at which other processes of the user see what runs here,
// and say that there is something new in the store. It is a courtesy: without it they
// see nothing, and this process looks by itself. Waits says what a run waits for; nil knows nothing.
func OpenAdmin(e *env.Env, o *Opened, command string, wake func(), waits func(run string) string, status func() any) (close func()) {
	state, err := env.StateDir()
	if err == nil {
		var s *admin.Server
		s, err = admin.Listen(admin.Dir(state), admin.Options{System: o.Runtime.System(), Command: command, Store: o.Store,
			Labels: labels(o, waits), Wake: wake, Status: status})
		if err == nil {
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

// labels tells the states of connections to servers, and what runs wait for, in the tree.
func labels(o *Opened, waits func(run string) string) func(actors.Info) admin.Label {
	return func(info actors.Info) admin.Label {
		name := info.Path[strings.LastIndexByte(info.Path, '/')+1:]
		switch {
		case info.Kind == actors.KindRun && o.Runtime.IsStalled(strings.TrimPrefix(name, "run-")):
			return admin.Label{State: StateStalled, Title: "waits for the store"}
		case info.Kind == actors.KindClient:
			return connection(o, strings.TrimPrefix(name, "client-"))
		case info.Kind == actors.KindRun && waits != nil:
			if what := waits(strings.TrimPrefix(name, "run-")); what != "" {
				return admin.Label{State: "waiting", Title: "waits for " + what}
			}
		}
		return admin.Label{}
	}
}

// StateStalled is the state of a run that waits for the store.
const StateStalled = "stalled"

// connection is how the connection of that name stands, such as files, or files#2 for the
// second of its processes.
func connection(o *Opened, name string) admin.Label {
	for _, s := range o.Runtime.Host().Servers() {
		for _, i := range s.Instances {
			if i.Number > 1 && fmt.Sprintf("%s#%d", s.Name, i.Number) == name {
				return admin.Label{State: i.State.String()}
			}
		}
		if s.Name != name {
			continue
		}
		label := admin.Label{State: s.State.String()}
		if s.Waiting > 0 {
			label.Title = fmt.Sprintf("waits for an instance: %s; in use: %d", env.Count(s.Waiting, "call"), len(s.Instances))
		}
		return label
	}
	return admin.Label{}
}

// WakeRuntime has the runs of a command that is no worker look at their questions.
func WakeRuntime(o *Opened) func() { return o.Runtime.Wake }
