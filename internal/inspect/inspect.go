// Package inspect shows what a runtime has: how its servers, its providers of models and its actors
// stand, for the admin socket and the console.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/admin"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/sanitize"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// Bounds of what is shown of one server.
const (
	maxTools      = 500
	maxText       = 2 << 10  // of an error, a description, a warning
	maxDefinition = 32 << 10 // of a tool
	maxShown      = 8 << 20  // of all its tools
	maxLogLines   = 200
	maxLog        = 32 << 10
)

// Options are those of the admin socket of a runtime. Waits says what a run waits for; nil knows nothing.
func Options(rt *agent.Runtime, command string, waits func(run string) string) admin.Options {
	o := admin.Options{System: rt.System(), Command: command, Labels: labels(rt, waits), Inspector: inspector{rt}}
	if s := rt.Store(); s != nil {
		o.Store = s
	}
	return o
}

// inspector is the [admin.Inspector] of a runtime.
type inspector struct{ rt *agent.Runtime }

// Servers implements [admin.Inspector], as the other methods do.
func (i inspector) Servers() []admin.ServerState {
	all := []admin.ServerState{}
	for _, s := range i.rt.Host().Servers() {
		all = append(all, stateOf(&s))
	}
	return all
}

func stateOf(s *mcpclient.ServerStatus) admin.ServerState {
	out := admin.ServerState{Name: s.Name, State: s.State.String(), Since: s.Since, Connected: s.Generation, Failures: s.Failures,
		Error: textOf(s.Err), ListError: textOf(s.ListErr), Tools: s.Tools, Waiting: s.Waiting}
	if s.Disabled {
		out.State = "disabled"
	}
	if info := s.Info; info != nil {
		out.Era, out.Revision = info.Era.String(), string(info.Version)
		if info.Server != nil {
			out.Software = clip.Name(sanitize.Line(info.Server.Name+" "+info.Server.Version, 0))
		}
	}
	if s.Login != nil {
		out.Login = "a login is missing"
		if ask, err := s.Login.Ask(); err == nil {
			out.Login, out.Command = ask.Login.Resource, ask.Login.Command
		}
	}
	for _, w := range s.Warnings {
		out.Warnings = append(out.Warnings, clip.Text(sanitize.Reveal(w), maxText))
	}
	if len(s.Instances) > 1 {
		for _, p := range s.Instances {
			out.Instances = append(out.Instances, admin.InstanceState{Number: p.Number, State: p.State.String(), Calls: p.Calls})
		}
	}
	return out
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return clip.Text(sanitize.Reveal(err.Error()), maxText)
}

func (i inspector) Server(ctx context.Context, name string) (*admin.ServerDetail, error) {
	host := i.rt.Host()
	all := host.Servers()
	at := slices.IndexFunc(all, func(s mcpclient.ServerStatus) bool { return s.Name == name })
	if at < 0 {
		return nil, admin.ErrNoServer
	}
	d := &admin.ServerDetail{ServerState: stateOf(&all[at]), All: []admin.ToolState{}}
	if info := all[at].Info; info != nil {
		raw, err := mcp.Marshal(&info.Capabilities)
		if err != nil {
			return nil, fmt.Errorf("showing the capabilities of %s: %w", name, err)
		}
		d.Capabilities, d.Instructions = raw, clip.Text(sanitize.Reveal(info.Instructions), maxDefinition)
	}
	if c, err := host.Client(name); err == nil { // else it is disabled
		d.Log = lastLines(c.Stderr())
	}
	size := 0
	tools := host.Known()
	for k := range tools {
		t := &tools[k]
		if t.Server != name {
			continue
		}
		if len(d.All) >= maxTools || size > maxShown {
			d.More++
			continue
		}
		shown, err := toolOf(ctx, host, t)
		if err != nil {
			return nil, err
		}
		size += len(shown.Definition) + len(shown.Before) + len(shown.Description)
		d.All = append(d.All, *shown)
	}
	return d, nil
}

func toolOf(ctx context.Context, host *mcpclient.Host, t *mcpclient.Tool) (*admin.ToolState, error) {
	out := &admin.ToolState{Name: t.Name, Description: clip.Text(sanitize.Reveal(t.Tool.Description), maxText), Hash: t.Hash, Pin: admin.PinNone}
	out.Definition = definition(&t.Tool)
	for _, w := range t.Warnings {
		out.Warnings = append(out.Warnings, clip.Text(w, maxText))
	}
	pinned, before, err := host.Pinned(ctx, t.Server, t.Tool.Name)
	switch {
	case err != nil:
		return nil, err
	case mcpclient.ToolIs(pinned, &t.Tool):
		out.Pin = admin.PinSame
	case pinned != "":
		out.Pin = admin.PinChanged
		if before != nil {
			out.Before = definition(before)
		}
	}
	return out, nil
}

// definition is what a tool is pinned by, in bounds.
func definition(t *mcp.Tool) string {
	text, err := mcpclient.DefinitionText(t)
	if err != nil {
		return "It cannot be shown: " + textOf(err)
	}
	return clip.Text(text, maxDefinition)
}

// lastLines is the end of what a server has written.
func lastLines(s string) string {
	if len(s) > maxLog {
		s = s[len(s)-maxLog:]
	}
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return sanitize.Reveal(clip.Valid(strings.Join(lines[max(0, len(lines)-maxLogLines):], "\n")))
}

func (i inspector) Reconnect(name string) error {
	host := i.rt.Host()
	if !slices.ContainsFunc(host.Servers(), func(s mcpclient.ServerStatus) bool { return s.Name == name }) {
		return admin.ErrNoServer
	}
	if err := host.Retry(name); !errors.Is(err, mcpclient.ErrClosed) {
		return err
	}
	return nil // the process ends
}

func (i inspector) Providers() []admin.ProviderState {
	states := i.rt.Providers()
	all := []admin.ProviderState{}
	for _, name := range slices.Sorted(maps.Keys(states)) {
		s := states[name]
		if name == "" && s == (agent.ProviderState{Circuit: s.Circuit}) {
			continue // no model without a provider was asked
		}
		all = append(all, admin.ProviderState{Name: name, InFlight: s.InFlight, Waiting: s.Waiting, Circuit: s.Circuit, Failures: s.Failures,
			Until: s.Until, Class: s.Class, Since: s.Since, Error: textOf(s.LastError)})
	}
	return all
}

// labels says how connections to servers stand, and what runs wait for, in the tree.
func labels(rt *agent.Runtime, waits func(run string) string) func(actors.Info) admin.Label {
	return func(info actors.Info) admin.Label {
		name := info.Path[strings.LastIndexByte(info.Path, '/')+1:]
		switch {
		case info.Kind == actors.KindRun && rt.IsStalled(strings.TrimPrefix(name, "run-")):
			return admin.Label{State: admin.StateStalled, Title: "waits for the store"}
		case info.Kind == actors.KindProvider:
			return away(rt.Providers()[name])
		case info.Kind == actors.KindClient:
			return connection(rt, strings.TrimPrefix(name, "client-"))
		case info.Kind == actors.KindRun && waits != nil:
			if what := waits(strings.TrimPrefix(name, "run-")); what != "" {
				return admin.Label{State: "waiting", Title: "waits for " + what}
			}
		}
		return admin.Label{}
	}
}

// away is since when a provider is away, why, and when it is tried again.
func away(s agent.ProviderState) admin.Label {
	if s.Class == "" {
		return admin.Label{}
	}
	again := "the next request tries again"
	if !s.Until.IsZero() {
		again = "tried again at " + s.Until.Local().Format(time.DateTime)
	}
	return admin.Label{State: admin.StateAway, Title: fmt.Sprintf("%s since %s; %s", s.Class, s.Since.Local().Format(time.DateTime), again)}
}

// connection is how the connection of that name stands, such as files, or files#2 for the
// second of its processes.
func connection(rt *agent.Runtime, name string) admin.Label {
	for _, s := range rt.Host().Servers() {
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
			calls := "calls"
			if s.Waiting == 1 {
				calls = "call"
			}
			label.Title = fmt.Sprintf("waits for an instance: %d %s; in use: %d", s.Waiting, calls, len(s.Instances))
		}
		return label
	}
	return admin.Label{}
}
