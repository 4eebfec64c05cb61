package provider

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/llm"
)

// GroupOptions says what the providers of a group are like; nil is the same as the
// zero value.
type GroupOptions struct {
	// Providers holds the options of each by its name, see [Group.Model]. One that is not
	// here has those of its first part ("openai" for "openai@example.com"), and else
	// those of "".
	Providers map[string]Options
	// Name is that of the group's actor, where a system has several groups. Empty means
	// "llm".
	Name string
	// Logger hears of a provider that is away, and that it works again: one line each. Nil
	// discards them.
	Logger *slog.Logger
}

// Group holds the providers of a runtime, one for each backend. Its methods may be used
// from any goroutine, but not from a Receive.
type Group struct {
	opts GroupOptions
	ref  actors.Ref

	mu     sync.Mutex // guards what follows; nothing is sent under it
	all    map[string]*provider
	closed bool
}

// Open starts a group. It ends with the system or by [Group.Close].
func Open(sys *actors.System, opts *GroupOptions) (*Group, error) {
	g := &Group{all: make(map[string]*provider), opts: *cmp.Or(opts, new(GroupOptions))}
	g.opts.Logger = cmp.Or(g.opts.Logger, slog.New(slog.DiscardHandler))
	var err error
	g.ref, err = sys.Spawn(actors.Spec{Kind: actors.KindLLM, Name: cmp.Or(g.opts.Name, "llm"), New: func() actors.Actor { return &group{g} }})
	return g, err
}

// Close ends all requests with [ErrClosed]; there are no others after it. It does not
// wait: the actors have ended once [Group.Stopped] is closed.
func (g *Group) Close() { g.ref.Stop() }

// Stopped returns a channel that is closed once all actors of the group are gone.
func (g *Group) Stopped() <-chan struct{} { return g.ref.Stopped() }

// Model returns m behind its provider, whose name is what m's Backend method returns, as in
// "openai@openrouter.ai", and without one what stands before the slash of its name. Models
// that wrap another are looked through if they have a method Unwrap() llm.Model, as the
// returned model has. A model that is behind a provider of this group already is returned as
// it is. In a group that is closed models fail with [ErrClosed].
func (g *Group) Model(m llm.Model) llm.Model {
	if w, ok := m.(*model); ok && w.provider.group == g {
		return m
	}
	return g.provider(NameOf(m)).behind(m)
}

func (g *Group) optionsOf(name string) *Options {
	kind, _, _ := strings.Cut(name, "@")
	for _, key := range []string{name, kind, ""} {
		if o, ok := g.opts.Providers[key]; ok {
			return &o
		}
	}
	return nil
}

// NameOf returns the name of the provider that answers for a model, see [Group.Model].
func NameOf(m llm.Model) string {
	for {
		if b, ok := m.(interface{ Backend() string }); ok {
			return b.Backend()
		}
		w, ok := m.(interface{ Unwrap() llm.Model })
		if !ok {
			name, _, _ := strings.Cut(m.Name(), "/")
			return name
		}
		m = w.Unwrap()
	}
}

// provider returns the provider with that name, which is made when it is asked for first.
func (g *Group) provider(name string) *provider {
	g.mu.Lock()
	p := g.all[name]
	if p != nil {
		g.mu.Unlock()
		return p
	}
	p = newProvider(g, name, g.optionsOf(name))
	if g.closed {
		p.closed = ErrClosed
	}
	g.all[name] = p
	g.mu.Unlock()
	g.ref.Send(spawn{p})
	return p
}

// States returns the state of each provider, by name.
func (g *Group) States() map[string]State {
	out := make(map[string]State)
	for _, p := range g.providers() {
		out[p.name] = p.State()
	}
	return out
}

// Errors returns how many attempts have failed at each provider, by the class of the error: see
// [llm.Class].
func (g *Group) Errors() map[string]map[string]int64 {
	out := make(map[string]map[string]int64)
	for _, p := range g.providers() {
		p.mu.Lock()
		out[p.name] = maps.Clone(p.errors)
		p.mu.Unlock()
	}
	return out
}

func (g *Group) providers() []*provider {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]*provider, 0, len(g.all))
	for _, p := range g.all {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *provider) int { return strings.Compare(a.name, b.name) })
	return all
}

// spawn asks the group's actor for a provider's.
type spawn struct{ p *provider }

// group is the actor above the providers. It holds nothing: after a restart it starts
// what the handles say there is.
type group struct{ *Group }

// Receive implements [actors.Actor].
func (g *group) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		for _, p := range g.providers() {
			g.start(c, p)
		}
	case spawn:
		g.start(c, m.p)
	case actors.ChildStopped: // stopped from outside: the next request shall work
		for _, p := range g.providers() {
			if p.actor() == m.Ref {
				g.start(c, p)
			}
		}
	case actors.Stopping:
		g.stopping(m)
	}
}

// start spawns a provider's actor, unless it was asked for twice around a restart.
func (g *group) start(c *actors.Context, p *provider) {
	ref, err := c.Spawn(actors.Spec{Kind: actors.KindProvider, Name: p.name, New: func() actors.Actor { return &supervisor{p: p} }})
	switch {
	case err == nil:
		p.started(ref)
	case !errors.Is(err, actors.ErrNameTaken):
		p.end(err)
	}
}

// stopping ends all requests before their actors are ended. In a restart there are
// others soon, which wait for that.
func (g *group) stopping(m actors.Stopping) {
	if !m.Restart {
		g.mu.Lock()
		g.closed = true
		g.mu.Unlock()
	}
	for _, p := range g.providers() {
		switch {
		case !m.Restart:
			p.end(closedBy(m.Err))
		default:
			p.interrupt(m.Err)
		}
	}
}

// closedBy is why there are no requests any more.
func closedBy(failure error) error {
	if failure == nil {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrClosed, failure)
}
