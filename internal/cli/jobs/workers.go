package jobs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/jobapi"
	"github.com/troupe-dev/troupe/internal/jsonx"
)

// Workers asks the workers of this user on this machine how they stand. One that does not
// answer in a moment is left out: this is for hints.
func Workers(ctx context.Context, e *env.Env) (list []worker.Status) {
	clients, err := e.Processes()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, c := range clients {
		process, err := c.Health(ctx)
		if err != nil || process.Command != "worker" {
			continue
		}
		var s worker.Status
		if raw, err := c.Status(ctx); err == nil && jsonx.Unmarshal(raw, &s) == nil {
			list = append(list, s)
		}
	}
	return list
}

// AgentWarning says so where no worker seems to have the agent of a new job, which then stays queued;
// empty where one has it. Workers elsewhere may have it, so that it is no error.
func AgentWarning(ctx context.Context, e *env.Env, name string) string {
	const stays = "The job stays queued until a worker that has it starts"
	running := Workers(ctx, e)
	known := []string{}
	for _, s := range running {
		known = append(known, s.Agents...)
	}
	if len(running) == 0 {
		settings, err := e.Config()
		if err != nil {
			return ""
		}
		known = append(slices.Collect(maps.Keys(settings.Agents)), jobapi.MainAgent)
	}
	slices.Sort(known)
	known = slices.Compact(known)
	have := env.Plain(strings.Join(known, ", "))
	switch {
	case slices.Contains(known, name):
		return ""
	case len(running) == 0:
		return fmt.Sprintf("your configuration has no agent %q (it has %s), and no worker of yours runs here. %s", name, have, stays)
	}
	return fmt.Sprintf("no running worker of yours has the agent %q (they have %s). %s", name, have, stays)
}

// warnOfFull says which workers claim no jobs because so many wait for a human.
func warnOfFull(ctx context.Context, e *env.Env) {
	for _, s := range Workers(ctx, e) {
		if s.MaxParked > 0 && s.Parked >= s.MaxParked {
			e.Note("warning: worker %s claims no jobs: %s wait for a human, and --max-parked is %d. See troupe inbox",
				env.Plain(s.Owner), fmt.Sprint(s.Parked), s.MaxParked)
		}
	}
}
