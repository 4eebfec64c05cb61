package main

import (
	"strings"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/admin"
)

// openAdmin opens the socket at which other processes of the user see what runs here,
// and say that there is something new in the store. It is a courtesy: without it they
// see nothing, and this process looks by itself.
func (p *program) openAdmin(o *opened, command string, wake func(), status func() any) (close func()) {
	state, err := stateDir()
	if err == nil {
		var s *admin.Server
		s, err = admin.Listen(admin.Dir(state), admin.Options{System: o.rt.System(), Command: command, Store: o.store,
			Labels: connections(o), Wake: wake, Status: status})
		if err == nil {
			return func() {
				if err := s.Close(); err != nil {
					o.log.Warn("the admin socket was not closed", "error", err)
				}
			}
		}
	}
	o.log.Warn("without an admin socket: troupe tree does not see this process", "error", err)
	return func() {}
}

// connections tells the states of connections to servers, in the tree.
func connections(o *opened) func(actors.Info) admin.Label {
	return func(info actors.Info) admin.Label {
		if info.Kind != actors.KindClient {
			return admin.Label{}
		}
		name := info.Path[strings.LastIndexByte(info.Path, '/')+1:]
		for _, s := range o.rt.Host().Servers() {
			if s.Name == name || "client-"+s.Name == name {
				return admin.Label{State: s.State.String()}
			}
		}
		return admin.Label{}
	}
}

// wakeRuntime has the runs of a command that is no worker look at their questions.
func wakeRuntime(o *opened) func() { return o.rt.Wake }
