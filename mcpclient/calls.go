package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/negotiate"
)

// Ping asks the server for a sign of life: ping, or in 2026-07-28, which has none
// (PING-03), server/discover.
func (c *Client) Ping(ctx context.Context) error {
	info, err := c.Info(ctx)
	if err != nil {
		return err
	}
	method := mcp.MethodPing
	if info.Era == mcp.EraModern {
		method = mcp.MethodDiscover
	}
	_, err = c.do(ctx, &call.Request{Method: method, Safe: true}, nil)
	return err
}

// pingTimeout is how long a ping of [Options].PingEvery waits for its answer, at most.
const pingTimeout = 10 * time.Second

// signOfLife is the connection's own ping.
func (c *Client) signOfLife(ctx context.Context, _ *conn.Session) error {
	_, err := c.conn.Do(ctx, &call.Request{Method: mcp.MethodPing})
	return err
}

// SetLogLevel asks the server for log messages at or above level, also after it
// was restarted (LOG-03); in 2026-07-28 each request asks for itself (LOG-05).
func (c *Client) SetLogLevel(ctx context.Context, level mcp.LogLevel) error {
	if !level.Valid() {
		return fmt.Errorf("unknown log level %q", level)
	}
	info, err := c.Info(ctx)
	if err != nil {
		return err
	}
	if info.Capabilities.Logging == nil {
		return c.failed(mcp.MethodSetLevel, &UnsupportedError{Method: mcp.MethodSetLevel, Capability: "logging", Version: info.Version})
	}
	c.level.Store(level)
	if info.Era == mcp.EraModern {
		return nil
	}
	err = c.failed(mcp.MethodSetLevel, negotiate.SetLevel(ctx, c.conn.Do, level))
	for _, i := range c.others() {
		i.level.Store(level)
		if i.conn.Status().State == conn.Ready { // else it is told when it is
			err = errors.Join(err, c.failed(mcp.MethodSetLevel, negotiate.SetLevel(ctx, i.conn.Do, level)))
		}
	}
	return err
}

// Request sends any request and returns the result as it came. Params is a JSON
// object or nil; its _meta is merged with that of the options, which wins, and with
// what the connection adds.
func (c *Client) Request(ctx context.Context, method string, params json.RawMessage, opts *CallOptions) (json.RawMessage, error) {
	if err := c.require(ctx, method); err != nil {
		return nil, err
	}
	req, err := rawRequest(method, params, opts)
	if err != nil {
		return nil, c.failed(method, err)
	}
	return c.do(ctx, req, opts)
}

// failed names the server and method of an error; nil stays nil.
func (c *Client) failed(method string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, call.ErrClosed) {
		err = fmt.Errorf("%s: %w", method, ErrClosed)
	}
	return &ServerError{Server: c.server.Name, Method: method, Err: err}
}

// require refuses a method that the server's revision does not have, or whose
// capability it did not declare (CAP-03).
func (c *Client) require(ctx context.Context, method string) error {
	info, err := c.Info(ctx)
	if err != nil {
		return err
	}
	if method == mcp.MethodCallTool && info.Capabilities.Tools != nil {
		return nil // the hot path: every revision has it
	}
	if !knownMethod(method) {
		return nil // an extension's: the server knows
	}
	if !info.Version.Method(method, mcp.Client) || method == mcp.MethodInitialize {
		return c.failed(method, &UnsupportedError{Method: method, Version: info.Version})
	}
	if missing := missingCapability(method, info); missing != "" {
		return c.failed(method, &UnsupportedError{Method: method, Capability: missing, Version: info.Version})
	}
	return nil
}

func knownMethod(method string) bool {
	for _, v := range mcp.Versions() {
		if v.Method(method, mcp.Client) || v.Method(method, mcp.Server) {
			return true
		}
	}
	return false
}

// missingCapability names what the server would have to declare, "" if it has.
func missingCapability(method string, info *Info) string {
	caps := &info.Capabilities
	var there bool
	var name string
	switch method {
	case mcp.MethodListTools, mcp.MethodCallTool:
		name, there = "tools", caps.Tools != nil
	case mcp.MethodListResources, mcp.MethodListResourceTemplates, mcp.MethodReadResource:
		name, there = "resources", caps.Resources != nil
	case mcp.MethodSubscribe, mcp.MethodUnsubscribe:
		name, there = "resources.subscribe", caps.Resources != nil && caps.Resources.Subscribe
	case mcp.MethodListPrompts, mcp.MethodGetPrompt:
		name, there = "prompts", caps.Prompts != nil
	case mcp.MethodComplete: // had no capability in 2024-11-05 (CAP-03)
		name, there = "completions", caps.Completions != nil || !info.Version.Has(mcp.FeatureCompletions)
	case mcp.MethodSetLevel:
		name, there = "logging", caps.Logging != nil
	case mcp.MethodListSkills, mcp.MethodGetSkill: // SKILL-02
		name = mcp.ExtensionSkills
		_, there = caps.Extension(name)
	case mcp.MethodReadDirectory:
		name, there = mcp.ExtensionSkills+" directoryRead", readsDirectories(caps)
	default:
		return ""
	}
	if there {
		return ""
	}
	return name
}
