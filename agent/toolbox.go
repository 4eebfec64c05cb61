package agent

import (
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/agent/internal/serverask"
	"github.com/troupe-dev/troupe/internal/runlog"
)

// toolbox is the [loop.Tools] of one run.
type toolbox struct {
	asked
	agent  *Agent
	own    []loop.Tool // the program's functions
	listed bool        // Offer was called; it is never called twice at once
}

// Offer implements [loop.Tools]: functions of the program first, then the servers' tools in
// the host's order. Runs whose tools are those of every other run of their agent share one.
func (t *toolbox) Offer(ctx context.Context) (*loop.Offer, []runlog.Absent) {
	if len(t.agent.team) > 0 || t.sampler != nil || t.roots != nil { // it has tools of its own
		found, absent := t.find(ctx)
		offer := loop.NewOffer(t.choose(found))
		return offer.With(t.servers.texts(ctx, offer.Servers())), absent
	}
	found, absent := t.find(ctx)
	offer := t.agent.offers.get(found, t.choose)
	return t.agent.offers.with(offer, t.servers.texts(ctx, offer.Servers())), absent
}

// OfferNow implements [loop.ReadyTools]: functions of the program are known.
func (t *toolbox) OfferNow() *loop.Offer {
	if !t.alone() {
		return nil
	}
	offer, _ := t.Offer(context.Background())
	return offer
}

// alone reports whether the run has no tools of servers.
func (t *toolbox) alone() bool {
	use := t.agent.cfg.Servers
	return len(t.servers.all) == 0 || use != nil && len(use) == 0
}

// find returns the tools of the servers, and the servers whose tools are missing. The first time it
// waits for servers that still connect; later only shortly, for one that hangs must not hold
// up the run.
func (t *toolbox) find(ctx context.Context) ([]loop.Tool, []runlog.Absent) {
	if t.alone() {
		return nil, nil
	}
	if t.listed {
		limit, cancel := context.WithTimeout(ctx, relistTime)
		defer cancel()
		ctx = limit
	}
	t.listed = true
	found := t.servers.tools(ctx, t.agent.cfg.Servers...)
	return found, t.absent()
}

// Logins implements [loop.LoginTools].
func (t *toolbox) Logins(context.Context) []loop.Login {
	var lacking []loop.Login
	for _, s := range t.servers.host.Servers() {
		if s.Disabled || s.Tools > 0 || s.Login == nil || !t.uses(s.Name) {
			continue
		}
		l, err := serverask.LoginOf(s.Login)
		if err != nil {
			t.servers.log.Warn("a login is not asked for", "server", s.Name, "error", err)
			continue
		}
		lacking = append(lacking, l)
	}
	t.listed = t.listed && lacking == nil // after the login it waits for the server again
	return lacking
}

// choose returns the run's tools: all of the program, and of the servers the ones that
// the agent may have.
func (t *toolbox) choose(found []loop.Tool) []loop.Tool {
	tools := slices.Clone(t.own)
	for _, tool := range found {
		if t.uses(tool.Server) && t.allows(tool.Name) {
			tools = append(tools, t.bound(tool))
		}
	}
	t.agent.warnOfMany(len(tools))
	return tools
}

// bound makes a server's tool one of this run's, if the run answers servers in its own
// way.
func (t *toolbox) bound(tool loop.Tool) loop.Tool {
	if t.sampler != nil || t.roots != nil {
		calls := t.servers.calls(t.sampler, t.roots)
		tool.Go, tool.TakeUp = calls.Start(tool.Name, tool.Safe), calls.TakeUp(tool.Name)
	}
	return tool
}

// relistTime bounds the wait for changed lists between two turns.
const relistTime = 2 * time.Second

// absent names the servers that should have tools here and have none.
func (t *toolbox) absent() []runlog.Absent {
	var absent []runlog.Absent
	for _, s := range t.servers.host.Servers() {
		if s.Disabled || s.Tools > 0 || !t.uses(s.Name) {
			continue
		}
		switch {
		case s.ListErr != nil:
			absent = append(absent, runlog.Absent{Server: s.Name, Reason: reasonOf(s.ListErr)})
		case s.Err != nil:
			absent = append(absent, runlog.Absent{Server: s.Name, Reason: reasonOf(s.Err)})
		case s.Info == nil:
			absent = append(absent, runlog.Absent{Server: s.Name, Reason: "it is still connecting"})
		}
	}
	return absent
}

func (t *toolbox) uses(server string) bool {
	use := t.agent.cfg.Servers
	return use == nil || slices.Contains(use, server)
}

// allows reports whether the patterns of the agent let it have a tool.
func (t *toolbox) allows(tool string) bool {
	cfg := &t.agent.cfg
	return (cfg.Allow == nil || fitsAny(cfg.Allow, tool)) && !fitsAny(cfg.Deny, tool)
}

// fitsAny reports whether the name of a tool fits one of the patterns, which were checked.
func fitsAny(patterns []string, tool string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(pattern, tool)
		return ok && err == nil
	})
}

// checkPatterns refuses what is no pattern of tools.
func checkPatterns(of string, patterns []string) error {
	for _, pattern := range patterns {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("%q of %s is no pattern: %w", pattern, of, err)
		}
	}
	return nil
}

// ManyTools is how many tools the widely used model services take at most. A runtime warns
// once of an agent whose model is given more.
const ManyTools = 128

// warnOfMany logs once for each agent that its model is given more tools than that.
func (a *Agent) warnOfMany(count int) {
	if count > ManyTools && !a.warned.Swap(true) {
		a.rt.sys.Log().Warn("the model is given more tools than many models take: leave some out with --tool and --no-tool, or with the agent's allow and deny",
			"agent", a.name, "tools", count, "most", ManyTools)
	}
}
