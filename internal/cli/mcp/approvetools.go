package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/internal/sanitize"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// approveTools starts the servers and accepts those of their tools that are not what
// they were when they were first called (SECA-38). Each is shown as it is now: of what
// it was only the hash is kept. With dry nothing is accepted.
func approveTools(ctx context.Context, e *env.Env, f *setup.ServerFlags, s store.Store, servers []mcpclient.Server, dry bool) error {
	pins := agent.Pins(s, servers)
	for i := range servers {
		name := servers[i].Name
		err := setup.WithClient(ctx, e, f, s, servers[i], func(c *mcpclient.Client) error {
			tools, err := c.ListTools(ctx)
			if err != nil {
				return setup.CallError(err)
			}
			if err := approveInstructions(ctx, e, pins, name, c, dry); err != nil {
				return err
			}
			return approveChanged(ctx, e, pins, name, tools, dry)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// approveInstructions shows what a server says to models, and accepts it (SECA-38).
func approveInstructions(ctx context.Context, e *env.Env, pins mcpclient.PinStore, server string, c *mcpclient.Client, dry bool) error {
	info, err := c.Info(ctx)
	if err != nil || info.Instructions == "" {
		return err
	}
	pinned, ok, err := pins.Pin(ctx, server, mcpclient.PinInstructions)
	if err != nil {
		return err
	}
	hash, state := mcpclient.HashInstructions(info.Instructions), "as they were"
	switch {
	case !ok:
		state = "new"
	case pinned != hash:
		state = "changed"
	}
	text := strings.ReplaceAll(sanitize.Reveal(info.Instructions), "\n", "\n  > ")
	fmt.Fprintf(e.Stdout, "%s: its instructions to models (%s)\n  > %s\n", env.Plain(server), state, text)
	if dry || pinned == hash {
		return nil
	}
	return pins.SetPin(ctx, server, mcpclient.PinInstructions, hash)
}

// approveChanged looks at the tools of one server.
func approveChanged(ctx context.Context, e *env.Env, pins mcpclient.PinStore, server string, tools []mcp.Tool, dry bool) error {
	verb := "accepted"
	if dry {
		verb = "not accepted"
	}
	changed, known := 0, 0
	for i := range tools {
		t := &tools[i]
		hash := mcpclient.HashTool(t)
		pinned, ok, err := pins.Pin(ctx, server, t.Name)
		switch {
		case err != nil:
			return err
		case !ok:
			continue
		}
		known++
		if mcpclient.ToolIs(pinned, t) {
			continue
		}
		changed++
		text, err := mcpclient.DefinitionText(t)
		if err != nil {
			return err
		}
		fmt.Fprintf(e.Stdout, "%s: the tool %s has changed, and is now\n  %s\n", env.Plain(server), env.Plain(t.Name), strings.ReplaceAll(text, "\n", "\n  "))
		if !dry {
			if err := pins.SetPin(ctx, server, t.Name, hash); err != nil {
				return err
			}
		}
	}
	fmt.Fprintf(e.Stdout, "%s: %d changed tools %s, %d as they were, %d that were never called\n",
		env.Plain(server), changed, verb, known-changed, len(tools)-known)
	return nil
}
